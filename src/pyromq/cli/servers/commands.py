"""``pyromq up``, ``pyromq nameserver``, ``pyromq broker``: the servers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from pyromq.cli.option_records import unfolded
from pyromq.cli.output.log_lines import log_to_stderr
from pyromq.cli.servers.options import BrokerFlags, ConfigOption, NameServerFlags, StartOptions, UpFlags

if TYPE_CHECKING:
    from pyromq.cli.output.tables import Form
    from pyromq.cli.servers.settings import ServerSettings


def add_to(app: typer.Typer) -> None:
    """Server commands have no noun: they stand beside the nouns."""
    app.command("up")(up)
    app.command("nameserver")(nameserver)
    app.command("broker")(broker)


@unfolded
def up(*, config: ConfigOption = None, flags: UpFlags, options: StartOptions) -> None:
    """Start a name server and a broker in one process."""
    log_to_stderr(options.log)
    from pyromq.cli.servers.settings import for_up
    from pyromq.standalone import run_up

    settings = for_up(config or [], flags.by_setting(), options.assignments or [])
    names, broker_settings = settings.nameserver(), settings.broker()
    if options.print_config:
        _print(settings, options.output)
    else:
        run_up(names, broker_settings, settings.data())


@unfolded
def nameserver(*, config: ConfigOption = None, flags: NameServerFlags, options: StartOptions) -> None:
    """Start a name server."""
    log_to_stderr(options.log)
    from pyromq.cli.servers.settings import for_nameserver
    from pyromq.standalone import run_nameserver

    settings = for_nameserver(config or [], flags.by_setting(), options.assignments or [])
    names = settings.nameserver()
    if options.print_config:
        _print(settings, options.output)
    else:
        run_nameserver(names)


@unfolded
def broker(*, config: ConfigOption = None, flags: BrokerFlags, options: StartOptions) -> None:
    """Start a broker that registers with name servers."""
    log_to_stderr(options.log)
    from pyromq.cli.servers.settings import for_broker
    from pyromq.standalone import run_broker

    settings = for_broker(config or [], flags.by_setting(), options.assignments or [])
    broker_settings = settings.broker()
    if options.print_config:
        _print(settings, options.output)
    else:
        run_broker(broker_settings, settings.data())


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
