"""The command ``pyromq``: nouns are added here, verbs live with their noun, errors become exit codes in one place.

    0  done            2  not found        4  unreachable, or no answer in time
    1  wrong usage     3  refused          5  done in part, or there is something to report

Only what ``--help`` needs is imported here; a command imports the rest when it runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from enum import IntEnum
from typing import Annotated

import typer

from pyromq.cli.nouns import cluster, delay, dlq, doctor, group, message, send_consume, store, tail, topic, tx
from pyromq.cli.pipeline import commands as pipeline
from pyromq.cli.servers import commands as servers
from pyromq.cli.tls import TlsCaOption, TlsCertificateOption, TlsKeyOption, TlsOption, put_into_environment
from pyromq.errors import (
    BrokerError,
    ConfigError,
    LocalProtocolError,
    MQError,
    OffsetOutOfRangeError,
    PositionOutOfRangeError,
    RemoteProtocolError,
    StoreNotFoundError,
    TransportError,
)


class ExitCode(IntEnum):
    OK = 0
    USAGE = 1
    NOT_FOUND = 2
    REFUSED = 3
    UNREACHABLE = 4
    PARTIAL = 5
    INTERRUPTED = 130  # as shells count: 128 and the number of the signal
    BROKEN_PIPE = 141


# The first class that fits counts.
_EXIT_CODES: tuple[tuple[type[MQError], ExitCode], ...] = (
    (StoreNotFoundError, ExitCode.NOT_FOUND),
    (OffsetOutOfRangeError, ExitCode.NOT_FOUND),
    (PositionOutOfRangeError, ExitCode.NOT_FOUND),
    (ConfigError, ExitCode.USAGE),
    (LocalProtocolError, ExitCode.USAGE),
    (RemoteProtocolError, ExitCode.UNREACHABLE),
    (TransportError, ExitCode.UNREACHABLE),
    (BrokerError, ExitCode.REFUSED),
    (MQError, ExitCode.REFUSED),
)

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
for noun, commands in (
    ("topic", topic.app),
    ("group", group.app),
    ("message", message.app),
    ("dlq", dlq.app),
    ("delay", delay.app),
    ("tx", tx.app),
    ("cluster", cluster.app),
    ("store", store.app),
    ("pipeline", pipeline.app),
):
    app.add_typer(commands, name=noun)


# Topic, offset or message, group, message: what servers answer when there is no such thing.
_NOT_FOUND_CODES = (17, 22, 26, 208)


def exit_code_of(error: MQError) -> ExitCode:
    if isinstance(error, BrokerError) and error.code in _NOT_FOUND_CODES:
        return ExitCode.NOT_FOUND
    return next(code for kind, code in _EXIT_CODES if isinstance(error, kind))


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
        sys.stderr.write(f"pyromq: {error}\n")
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
def _options(
    context: typer.Context,
    tls: TlsOption = None,
    tls_ca: TlsCaOption = None,
    tls_certificate: TlsCertificateOption = None,
    tls_key: TlsKeyOption = None,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Apache RocketMQ's message system in Python."""
    files = {"PYROMQ_TLS_CA": tls_ca, "PYROMQ_TLS_CERTIFICATE": tls_certificate, "PYROMQ_TLS_KEY": tls_key}
    context.call_on_close(put_into_environment({"PYROMQ_TLS": tls, **files}))
