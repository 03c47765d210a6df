"""``pyromq doctor``: the health of a whole cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import click

from pyromq.cli.connection import DEFAULT_NAMESERVER, NameServerOption, with_admin
from pyromq.cli.declared import Option
from pyromq.cli.exit_codes import ExitCode
from pyromq.cli.output.prompts import progress
from pyromq.cli.output.tables import Column, FormOption, form_for, write_structs
from pyromq.cli.output.watching import watched

_COLUMNS = (
    Column("severity", "", styles={"ok": "green", "warning": "yellow", "bad": "bold red"}, whole=True),
    Column("about", "about"),
    Column("text", "finding"),
    Column("command", "settle it with", optional=True),
)


@watched
def doctor(
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
    bundle: Annotated[
        Path | None,
        Option("--bundle", metavar="FILE", help="Pack facts for a report of a problem, without secrets and messages."),
    ] = None,
    output: FormOption = None,
) -> None:
    """Examine name servers, brokers, groups and transactions. Exit code 5 if something needs attention."""
    if bundle is not None:
        _write_bundle(nameserver, bundle)
        return
    with progress("examining the cluster"):
        found = with_admin(nameserver, lambda admin: admin.health.findings())
    write_structs(sys.stdout, form_for(output, sys.stdout), _COLUMNS, found)
    if any(each.severity != "ok" for each in found):
        raise click.exceptions.Exit(ExitCode.PARTIAL)


def _write_bundle(nameserver: str, path: Path) -> None:
    from pyromq.cli.examining.bundle import collect

    with progress("collecting facts"):
        bundle = with_admin(nameserver, lambda admin: collect(admin, nameserver))
    bundle.write(path)
    sys.stdout.write(f"{path}: {len(bundle.files)} files; look into it before you send it\n")
