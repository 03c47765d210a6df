"""``pyromq doctor``: the health of a whole cluster."""

from __future__ import annotations

import sys

import click

from pyromq.cli.connection import DEFAULT_NAMESERVER, NameServerOption, with_admin
from pyromq.cli.exit_codes import ExitCode
from pyromq.cli.output.prompts import progress
from pyromq.cli.output.tables import Column, FormOption, form_for, write_rows
from pyromq.cli.output.watching import watched

_COLUMNS = (
    Column("severity", "", styles={"ok": "green", "warning": "yellow", "bad": "bold red"}, whole=True),
    Column("about", "about"),
    Column("text", "finding"),
)


@watched
def doctor(nameserver: NameServerOption = DEFAULT_NAMESERVER, output: FormOption = None) -> None:
    """Examine name servers, brokers, groups and transactions. Exit code 5 if something needs attention."""
    with progress("examining the cluster"):
        found = with_admin(nameserver, lambda admin: admin.examine())
    rows = [{"severity": each.severity.value, "about": each.about, "text": each.text} for each in found]
    write_rows(sys.stdout, form_for(output, sys.stdout), _COLUMNS, rows)
    if any(row["severity"] != "ok" for row in rows):
        raise click.exceptions.Exit(ExitCode.PARTIAL)
