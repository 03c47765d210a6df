"""The command ``pyromq``: nouns are added here, verbs live with their noun, errors become exit codes.

Only what ``--help`` needs is imported here; a command imports the rest when it runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import click

from pyromq.cli.declared import Commands, Option
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
from pyromq.cli.servers import apps
from pyromq.cli.servers import commands as servers
from pyromq.cli.tls import ConnectionOptions, put_into_environment
from pyromq.errors import MQError, printable

app = Commands("pyromq", help="Apache RocketMQ's message system in Python.")
servers.add_to(app)
send_consume.add_to(app)
tail.add_to(app)
apps.add_to(app)
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
    app.add_command(commands, noun)


def main(args: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. Errors that are not ours come out as they are."""
    try:
        result = app(args=args, prog_name="pyromq", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else ExitCode.OK
    except click.UsageError as error:
        error.show()
        return ExitCode.USAGE
    except MQError as error:
        sys.stderr.write(f"pyromq: {printable(str(error))}\n")
        return exit_code_of(error)
    except click.Abort:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the flush at exit complains again
        return ExitCode.BROKEN_PIPE


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        from pyromq.compiled_core import DESCRIPTION

        sys.stdout.write(f"pyromq {version('pyromq')}, {DESCRIPTION}\n")
        raise click.exceptions.Exit


@app.options
@unfolded
def _options(
    context: click.Context,
    connection: ConnectionOptions,
    _version: Annotated[
        bool, Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Apache RocketMQ's message system in Python."""
    context.call_on_close(put_into_environment(connection.variables()))
