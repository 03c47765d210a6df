"""``pyromq up``, ``pyromq nameserver``, ``pyromq broker``: the servers.

Flags have no defaults of their own: what is not given comes from the environment, a file, or the settings' defaults.
"""

from __future__ import annotations

import logging
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyromq.cli.output.tables import FormOption

if TYPE_CHECKING:
    from pyromq.cli.output.tables import Form
    from pyromq.cli.servers.settings import ServerSettings


class FlushOption(StrEnum):
    sync = "sync"
    async_ = "async"


ConfigOption = Annotated[
    list[Path] | None,
    typer.Option("--config", "-c", metavar="FILE", help="TOML, or RocketMQ's .conf; the last of several wins."),
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any setting, as --print-config names it.")
]
PrintOption = Annotated[
    bool, typer.Option("--print-config", help="Show all settings and where they come from, and stop.")
]
DataOption = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", show_default="pyromq-data", help="Where messages are kept.")
]
HostOption = Annotated[
    str | None,
    typer.Option(show_default="127.0.0.1", help="Address to listen on; others reach it only if you say so."),
]
BrokerPortOption = Annotated[
    int | None, typer.Option(min=0, max=65535, show_default="10911", help="0 picks a free one.")
]
NameServerPortOption = Annotated[
    int | None, typer.Option(min=0, max=65535, show_default="9876", help="0 picks a free one.")
]
BrokerNameOption = Annotated[str | None, typer.Option(show_default="broker-a", help="Name of the broker.")]
FlushModeOption = Annotated[
    FlushOption | None,
    typer.Option(
        "--flush",
        show_default="sync",
        help="sync: a send is answered when it is on disk. async: when it is written.",
    ),
]
NameServersOption = Annotated[
    str | None,
    typer.Option(
        "--nameserver",
        "-n",
        metavar="HOST:PORT[;…]",
        show_default="127.0.0.1:9876",
        help="Name servers to register with, or the URL of an address server.",
    ),
]
LogOption = Annotated[str, typer.Option("--log", metavar="LEVEL", help="debug, info, warning or error, to stderr.")]


def add_to(app: typer.Typer) -> None:
    """Server commands have no noun: they stand beside the nouns."""
    app.command("up")(up)
    app.command("nameserver")(nameserver)
    app.command("broker")(broker)


def up(
    config: ConfigOption = None,
    data: DataOption = None,
    host: HostOption = None,
    nameserver_port: NameServerPortOption = None,
    broker_port: BrokerPortOption = None,
    broker_name: BrokerNameOption = None,
    flush: FlushModeOption = None,
    no_console: Annotated[bool, typer.Option("--no-console", help="Do not start the web console.")] = False,
    assignments: SetOption = None,
    print_config: PrintOption = False,
    output: FormOption = None,
    log: LogOption = "warning",
) -> None:
    """Start a name server and a broker in one process, and keep messages in DIR."""
    _log_to_stderr(log)
    from pyromq.cli.servers.settings import for_up
    from pyromq.standalone import run_up

    flags = {
        "nameserver": {"host": ("--host", host), "port": ("--nameserver-port", nameserver_port)},
        "broker": {
            "data": ("--data", data),
            "host": ("--host", host),
            "port": ("--broker-port", broker_port),
            "name": ("--broker-name", broker_name),
            "store.flush": ("--flush", _flush(flush)),
        },
    }
    settings = for_up(config or [], flags, assignments or [])
    names, broker_settings = settings.nameserver(), settings.broker()
    if print_config:
        _print(settings, output)
    else:
        run_up(names, broker_settings, settings.data())


def nameserver(
    config: ConfigOption = None,
    host: HostOption = None,
    port: NameServerPortOption = None,
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="Keeps key-value settings.")] = None,
    assignments: SetOption = None,
    print_config: PrintOption = False,
    output: FormOption = None,
    log: LogOption = "warning",
) -> None:
    """Start a name server."""
    _log_to_stderr(log)
    from pyromq.cli.servers.settings import for_nameserver
    from pyromq.standalone import run_nameserver

    kv_path = data / "kvConfig.json" if data else None
    flags: dict[str, Any] = {
        "nameserver": {"host": ("--host", host), "port": ("--port", port), "kv_path": ("--data", kv_path)}
    }
    settings = for_nameserver(config or [], flags, assignments or [])
    names = settings.nameserver()
    if print_config:
        _print(settings, output)
    else:
        run_nameserver(names)


def broker(
    config: ConfigOption = None,
    data: DataOption = None,
    host: HostOption = None,
    port: BrokerPortOption = None,
    name: BrokerNameOption = None,
    cluster: Annotated[str | None, typer.Option(show_default="DefaultCluster", help="Name of the cluster.")] = None,
    nameservers: NameServersOption = None,
    flush: FlushModeOption = None,
    assignments: SetOption = None,
    print_config: PrintOption = False,
    output: FormOption = None,
    log: LogOption = "warning",
) -> None:
    """Start a broker that registers with name servers."""
    _log_to_stderr(log)
    from pyromq.cli.servers.settings import for_broker
    from pyromq.net.nameserver_list import parse_nameservers
    from pyromq.standalone import run_broker

    addresses = None if nameservers is None else parse_nameservers(nameservers)
    flags: dict[str, Any] = {
        "broker": {
            "data": ("--data", data),
            "host": ("--host", host),
            "port": ("--port", port),
            "name": ("--name", name),
            "cluster": ("--cluster", cluster),
            "nameservers": ("--nameserver", addresses),
            "store.flush": ("--flush", _flush(flush)),
        }
    }
    settings = for_broker(config or [], flags, assignments or [])
    broker_settings = settings.broker()
    if print_config:
        _print(settings, output)
    else:
        run_broker(broker_settings, settings.data())


def _flush(flush: FlushOption | None) -> Any:
    from pyromq.store.settings import Flush

    return None if flush is None else Flush(flush.value)


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
    """As it is written in the environment."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ";".join(map(str, value))
    return "" if value is None else str(value)


def _log_to_stderr(level: str) -> None:
    if level.upper() not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        raise typer.BadParameter("one of debug, info, warning, error", param_hint="--log")
    logging.basicConfig(stream=sys.stderr, level=level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s")
