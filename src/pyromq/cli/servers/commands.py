"""``pyromq up``, ``pyromq nameserver``, ``pyromq broker``: the servers."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import click

from pyromq.cli.declared import Argument
from pyromq.cli.servers.options import (
    BrokerFlags,
    ConfigOption,
    ConsoleBesideOptions,
    FollowFlags,
    LogFormat,
    NameServerFlags,
    StartOptions,
    UpFlags,
)
from pyromq.errors import printable

if TYPE_CHECKING:
    from pyromq.cli.output.tables import Form
    from pyromq.cli.servers.settings import ServerSettings


def up(*, config: ConfigOption = None, flags: UpFlags, console: ConsoleBesideOptions, options: StartOptions) -> None:
    """Start a name server, a broker and the web console."""
    log_to_stderr(options.log, options.log_format)
    from pyromq.cli.servers.settings import for_up
    from pyromq.standalone import run_up

    settings = for_up(config or [], flags.by_setting(), options.assignments or [])
    names, broker_settings = settings.nameserver(), settings.broker()
    if options.print_config:
        _print(settings, options.output)
    else:
        run_up(names, broker_settings, settings.data(), console.prepared(settings.data(), options.log_words()))


def nameserver(*, config: ConfigOption = None, flags: NameServerFlags, options: StartOptions) -> None:
    """Start a name server."""
    log_to_stderr(options.log, options.log_format)
    from pyromq.cli.servers.settings import for_nameserver
    from pyromq.standalone import run_nameserver

    settings = for_nameserver(config or [], flags.by_setting(), options.assignments or [])
    names = settings.nameserver()
    if options.print_config:
        _print(settings, options.output)
    else:
        run_nameserver(names)


def broker(*, config: ConfigOption = None, flags: BrokerFlags, options: StartOptions) -> None:
    """Start a broker that registers with name servers."""
    log_to_stderr(options.log, options.log_format)
    from pyromq.cli.servers.settings import for_broker
    from pyromq.standalone import run_broker

    settings = for_broker(config or [], flags.by_setting(), options.assignments or [])
    broker_settings = settings.broker()
    if options.print_config:
        _print(settings, options.output)
    else:
        run_broker(broker_settings, settings.data())


def follow(
    master: Annotated[str, Argument(metavar="MASTER", help="HOST:PORT of a running broker, PyroMQ's or Apache's.")],
    *,
    flags: FollowFlags,
) -> None:
    """Keep a live copy of a running broker that does not count as its replica."""
    log_to_stderr(flags.log, flags.log_format)
    from pyromq.client.core.settings import credentials_from
    from pyromq.net.address import Address
    from pyromq.net.nameserver_list import parse_nameservers
    from pyromq.security.settings import InnerCredentials
    from pyromq.standalone import run_follow

    nameservers = parse_nameservers(flags.nameservers or "") if flags.take_over else None
    user = credentials_from(os.environ)
    signs_as = InnerCredentials(user.access_key, user.secret_key, user.security_token) if user is not None else None
    run_follow(
        Address.parse(master),
        flags.data,
        host=flags.host,
        port=flags.port,
        take_over_at=nameservers,
        signs_as=signs_as,
    )


def _print(settings: ServerSettings, output: Form | None) -> None:
    from pyromq.cli.output.tables import Column, Form, form_for, write_rows

    form = form_for(output, sys.stdout)
    rows = list(settings.rows())
    if form in (Form.TABLE, Form.CSV):
        rows = [{**row, "value": _text(row["value"])} for row in rows]
    columns = (
        Column("setting", "setting"),
        Column("value", "value"),
        Column("source", "source"),
        Column("from", "from"),
    )
    write_rows(sys.stdout, form, columns, rows)


def _text(value: object) -> str:
    """A value as the environment has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ";".join(map(str, value))
    return "" if value is None else str(value)


class _PrintableFormatter(logging.Formatter):
    """Names and texts of peers come into logs; none of them moves a reader's cursor or looks like another line."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802, the name is logging's
        record.message = printable(record.message).replace("\n", "\\n")
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802, likewise
        return printable(super().formatException(ei))


def log_to_stderr(level: str, form: LogFormat = LogFormat.TEXT) -> None:
    """Send log lines of this level and above to standard error. Raises click.BadParameter."""
    if level.upper() not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        raise click.BadParameter("expected debug, info, warning or error", param_hint="--log")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter(form))
    logging.basicConfig(handlers=[handler], level=level.upper())


def _formatter(form: LogFormat) -> logging.Formatter:
    if form is LogFormat.TEXT:
        number = os.environ.get("PYROMQ_WORKER", "")  # as pyromq.app.supervisor sets it
        worker = f"worker-{number} " if number.isdecimal() else ""
        return _PrintableFormatter(f"%(asctime)s %(levelname)s {worker}%(name)s %(message)s")
    from pyromq.integrations.logging import JsonFormatter

    return JsonFormatter()
