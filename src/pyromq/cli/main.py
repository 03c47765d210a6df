"""The command ``pyromq``: nouns are added here, verbs live with their noun, errors become exit codes.

Only what ``--help`` needs is imported here; a command imports the rest when it runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from pyromq.cli.exit_codes import ExitCode, exit_code_of
from pyromq.cli.nouns import (
    acl,
    audit,
    cluster,
    delay,
    dlq,
    doctor,
    group,
    message,
    send_consume,
    store,
    tail,
    tls,
    topic,
    tx,
)
from pyromq.cli.option_records import unfolded
from pyromq.cli.pipeline import commands as pipeline
from pyromq.cli.servers import commands as servers
from pyromq.cli.tls import ConnectionOptions, put_into_environment
from pyromq.errors import MQError, printable

# Typer has its own copy of click in some versions and imports it in others; this is the class in both.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="pyromq",
    help="Apache RocketMQ's message system in Python.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
servers.add_to(app)
send_consume.add_to(app)
tail.add_to(app)
doctor.add_to(app)
audit.add_to(app)
for noun, commands in (
    ("topic", topic.app),
    ("group", group.app),
    ("message", message.app),
    ("dlq", dlq.app),
    ("delay", delay.app),
    ("tx", tx.app),
    ("cluster", cluster.app),
    ("store", store.app),
    ("tls", tls.app),
    ("acl", acl.app),
    ("pipeline", pipeline.app),
):
    app.add_typer(commands, name=noun)


def main(args: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. Errors that are not ours come out as they are."""
    try:
        result = app(args=args, prog_name="pyromq", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else ExitCode.OK
    except _UsageError as error:
        error.show()  # type: ignore[attr-defined]
        return ExitCode.USAGE
    except MQError as error:
        sys.stderr.write(f"pyromq: {printable(str(error))}\n")
        return exit_code_of(error)
    except typer.Abort:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the flush at exit complains again
        return ExitCode.BROKEN_PIPE


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        sys.stdout.write(f"pyromq {version('pyromq')}\n")
        raise typer.Exit


@app.callback()
@unfolded
def _options(
    context: typer.Context,
    connection: ConnectionOptions,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Apache RocketMQ's message system in Python."""
    context.call_on_close(put_into_environment(connection.variables()))
