"""``pyromq up``, ``pyromq nameserver``, ``pyromq broker``: the servers."""

from __future__ import annotations

import logging
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pyromq.store.settings import StoreSettings


class FlushOption(StrEnum):
    sync = "sync"
    async_ = "async"


DataOption = Annotated[Path, typer.Option("--data", metavar="DIR", help="Where messages are kept.")]
HostOption = Annotated[str, typer.Option(help="Address to listen on; others reach it only if you say so.")]
FlushModeOption = Annotated[
    FlushOption, typer.Option("--flush", help="sync: a send is answered when it is on disk. async: when it is written.")
]
NameServersOption = Annotated[
    str, typer.Option("--nameserver", metavar="HOST:PORT[;…]", help="Name servers to register with.")
]
LogOption = Annotated[str, typer.Option("--log", metavar="LEVEL", help="debug, info, warning or error, to stderr.")]

_DATA = Path("pyromq-data")


def add_to(app: typer.Typer) -> None:
    """Server commands have no noun: they stand beside the nouns."""
    app.command("up")(up)
    app.command("nameserver")(nameserver)
    app.command("broker")(broker)


def up(
    data: DataOption = _DATA,
    host: HostOption = "127.0.0.1",
    nameserver_port: Annotated[int, typer.Option(min=0, max=65535, help="0 picks a free one.")] = 9876,
    broker_port: Annotated[int, typer.Option(min=0, max=65535, help="0 picks a free one.")] = 10911,
    broker_name: Annotated[str, typer.Option(help="Name of the broker.")] = "broker-a",
    flush: FlushModeOption = FlushOption.sync,
    no_console: Annotated[bool, typer.Option("--no-console", help="Do not start the web console.")] = False,
    log: LogOption = "warning",
) -> None:
    """Start a name server and a broker in one process, and keep messages in DIR."""
    _log_to_stderr(log)
    from pyromq.broker.settings import BrokerSettings
    from pyromq.nameserver.settings import NameServerSettings
    from pyromq.standalone import run_up

    names = NameServerSettings(host=host, port=nameserver_port, kv_path=data / "namesrv" / "kvConfig.json")
    settings = BrokerSettings(host=host, port=broker_port, name=broker_name, store=_store(flush))
    run_up(names, settings, data)


def nameserver(
    host: HostOption = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 picks a free one.")] = 9876,
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="Keeps key-value settings.")] = None,
    log: LogOption = "warning",
) -> None:
    """Start a name server."""
    _log_to_stderr(log)
    from pyromq.nameserver.settings import NameServerSettings
    from pyromq.standalone import run_nameserver

    run_nameserver(NameServerSettings(host=host, port=port, kv_path=data / "kvConfig.json" if data else None))


def broker(
    data: DataOption = _DATA,
    host: HostOption = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 picks a free one.")] = 10911,
    name: Annotated[str, typer.Option(help="Name of the broker.")] = "broker-a",
    cluster: Annotated[str, typer.Option(help="Name of the cluster.")] = "DefaultCluster",
    nameservers: NameServersOption = "127.0.0.1:9876",
    flush: FlushModeOption = FlushOption.sync,
    log: LogOption = "warning",
) -> None:
    """Start a broker that registers with name servers."""
    _log_to_stderr(log)
    from pyromq.broker.settings import BrokerSettings
    from pyromq.standalone import run_broker

    addresses = tuple(address.strip() for address in nameservers.split(";") if address.strip())
    settings = BrokerSettings(
        host=host, port=port, name=name, cluster=cluster, nameservers=addresses, store=_store(flush)
    )
    run_broker(settings, data)


def _store(flush: FlushOption) -> StoreSettings:
    from pyromq.store.settings import Flush, StoreSettings

    return StoreSettings(flush=Flush(flush.value))


def _log_to_stderr(level: str) -> None:
    if level.upper() not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        raise typer.BadParameter("one of debug, info, warning, error", param_hint="--log")
    logging.basicConfig(stream=sys.stderr, level=level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s")
