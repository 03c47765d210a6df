"""Options of ``pyromq up``, ``nameserver`` and ``broker``.

They have no defaults of their own: what is not given comes from the environment, a file, or the settings' defaults.
Each record of flags knows which settings its fields give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pyromq.cli.declared import Option
from pyromq.cli.output.tables import FormOption

if TYPE_CHECKING:
    from pyromq.cli.servers.console_beside import ConsoleBeside
    from pyromq.cli.servers.settings import Flags


class FlushMode(StrEnum):
    sync = "sync"
    async_ = "async"


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class RoleName(StrEnum):
    async_master = "async-master"
    sync_master = "sync-master"
    replica = "replica"


ConfigOption = Annotated[
    list[Path] | None,
    Option(
        "--config",
        "-c",
        metavar="FILE",
        help="TOML, or RocketMQ's .conf; may be repeated, later files override earlier ones.",
    ),
]
LogFormatOption = Annotated[
    LogFormat,
    Option(
        "--log-format",
        envvar="PYROMQ_LOG_FORMAT",
        show_default="text",
        help="text: lines for people; json: an object on each line, for collectors of logs.",
    ),
]
DataOption = Annotated[
    Path | None, Option("--data", metavar="DIR", show_default="pyromq-data", help="Folder that keeps messages.")
]
HostOption = Annotated[
    str | None,
    Option(show_default="127.0.0.1", help="Address to listen on; by default only this machine can connect."),
]
InsecureNetworkOption = Annotated[
    bool | None,
    Option(
        "--insecure-network",
        show_default=False,
        help="Listen beyond this machine even without access control and TLS: who reaches it may do anything.",
    ),
]
BrokerPortOption = Annotated[
    int | None, Option(min=0, max=65535, show_default="10911", help="Port of the broker; 0 picks a free one.")
]
NameServerPortOption = Annotated[
    int | None,
    Option(min=0, max=65535, show_default="9876", help="Port of the name server; 0 picks a free one."),
]
BrokerNameOption = Annotated[str | None, Option(show_default="broker-a", help="Name of the broker.")]
FlushModeOption = Annotated[
    FlushMode | None,
    Option(
        "--flush",
        show_default="sync",
        help="When a send is acknowledged: sync: once it is on disk; async: once it is written.",
    ),
]
NameServersOption = Annotated[
    str | None,
    Option(
        "--nameserver",
        "-n",
        metavar="HOST:PORT[;…]",
        show_default="127.0.0.1:9876",
        help="Name servers to register with, or the URL of an address server.",
    ),
]

MetricsPortOption = Annotated[
    int | None,
    Option(
        min=0, max=65535, show_default="5557, or another one if that is taken", help="Port of /metrics and /health."
    ),
]
NoMetricsOption = Annotated[
    bool | None, Option("--no-metrics", show_default=False, help="Serve neither /metrics nor /health.")
]
GrpcPortOption = Annotated[
    int | None,
    Option(
        min=0,
        max=65535,
        show_default="8081, or another one if that is taken; none beside a broker port of 0",
        help="Port for clients of RocketMQ 5 (gRPC); 0 picks a free one.",
    ),
]
NoGrpcOption = Annotated[bool | None, Option("--no-grpc", show_default=False, help="Serve no gRPC.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpFlags:
    """Settings of a name server and a broker that have flags of their own with ``pyromq up``."""

    data: DataOption = None
    host: HostOption = None
    insecure_network: InsecureNetworkOption = None
    nameserver_port: NameServerPortOption = None
    broker_port: BrokerPortOption = None
    broker_name: BrokerNameOption = None
    flush: FlushModeOption = None
    grpc_port: GrpcPortOption = None
    no_grpc: NoGrpcOption = None
    metrics_port: MetricsPortOption = None
    no_metrics: NoMetricsOption = None

    def by_setting(self) -> Flags:
        return {
            "nameserver": {
                "host": ("--host", self.host),
                "insecure_network": ("--insecure-network", self.insecure_network),
                "port": ("--nameserver-port", self.nameserver_port),
            },
            "broker": {
                "data": ("--data", self.data),
                "host": ("--host", self.host),
                "insecure_network": ("--insecure-network", self.insecure_network),
                "port": ("--broker-port", self.broker_port),
                "name": ("--broker-name", self.broker_name),
                "store.flush": ("--flush", _flush(self.flush)),
                **_grpc(self.grpc_port, self.no_grpc),
                **_metrics(self.metrics_port, self.no_metrics),
            },
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleBesideOptions:
    """Whether ``pyromq up`` starts a console, and where it listens: on this machine alone."""

    console: Annotated[
        bool,
        Option("--console/--no-console", envvar="PYROMQ_UP_CONSOLE", help="Start the web console as well."),
    ] = True
    console_port: Annotated[
        int | None,
        Option(
            min=0,
            max=65_535,
            show_default="8082, or another where that is taken",
            help="Port of the console; 0 picks a free one.",
        ),
    ] = None

    def prepared(self, folder: Path, log: Sequence[str]) -> ConsoleBeside | None:
        """None where there shall be none, or its packages are missing. Raises PortTakenError."""
        if not self.console:
            return None
        from pyromq.cli.servers.console_beside import prepare_console

        return prepare_console(self.console_port, folder, log)


@dataclass(frozen=True, slots=True, kw_only=True)
class NameServerFlags:
    """Settings that have flags of their own with ``pyromq nameserver``."""

    host: HostOption = None
    insecure_network: InsecureNetworkOption = None
    port: NameServerPortOption = None
    data: Annotated[Path | None, Option("--data", metavar="DIR", help="Folder that keeps key-value settings.")] = None
    metrics_port: MetricsPortOption = None
    no_metrics: NoMetricsOption = None

    def by_setting(self) -> Flags:
        kv_path = self.data / "kvConfig.json" if self.data else None
        return {
            "nameserver": {
                "host": ("--host", self.host),
                "insecure_network": ("--insecure-network", self.insecure_network),
                "port": ("--port", self.port),
                "kv_path": ("--data", kv_path),
                **_metrics(self.metrics_port, self.no_metrics),
            }
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFlags:
    """Settings that have flags of their own with ``pyromq broker``."""

    data: DataOption = None
    host: HostOption = None
    insecure_network: InsecureNetworkOption = None
    port: BrokerPortOption = None
    name: BrokerNameOption = None
    cluster: Annotated[str | None, Option(show_default="DefaultCluster", help="Name of the cluster.")] = None
    nameservers: NameServersOption = None
    flush: FlushModeOption = None
    grpc_port: GrpcPortOption = None
    no_grpc: NoGrpcOption = None
    metrics_port: MetricsPortOption = None
    no_metrics: NoMetricsOption = None
    role: Annotated[
        RoleName | None,
        Option(
            help="Among the brokers of its name: a master that has replicas, and waits for them or not, or a replica.",
        ),
    ] = None
    broker_id: Annotated[int | None, Option(min=0, help="0: the master; a replica has a number of its own.")] = None
    master: Annotated[
        str | None,
        Option(metavar="HOST:PORT", help="Of a replica: its master, if no name server shall be asked for it."),
    ] = None

    failover: Annotated[
        bool | None, Option("--failover", help="Obey the failover agent beside it (pyromq failover).")
    ] = None

    def by_setting(self) -> Flags:
        from pyromq.net.nameserver_list import parse_nameservers

        addresses = None if self.nameservers is None else parse_nameservers(self.nameservers)
        return {
            "broker": {
                "data": ("--data", self.data),
                "host": ("--host", self.host),
                "insecure_network": ("--insecure-network", self.insecure_network),
                "port": ("--port", self.port),
                "name": ("--name", self.name),
                "cluster": ("--cluster", self.cluster),
                "nameservers": ("--nameserver", addresses),
                "store.flush": ("--flush", _flush(self.flush)),
                **_grpc(self.grpc_port, self.no_grpc),
                **_metrics(self.metrics_port, self.no_metrics),
                "replication.role": ("--role", _role(self.role)),
                "broker_id": ("--broker-id", self.broker_id),
                "replication.master_address": ("--master", self.master),
                "replication.managed": ("--failover", self.failover),
            }
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AppLogOptions:
    """The log of ``pyromq run``."""

    log: Annotated[str, Option(help="debug, info, warning or error, to standard error.")] = "info"
    log_format: LogFormatOption = LogFormat.TEXT

    def words(self) -> tuple[str, ...]:
        """These options, as a command line has them."""
        return log_words(self.log, self.log_format)


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowFlags:
    """What ``pyromq follow`` is given; everything else it asks the broker that it follows."""

    data: Annotated[Path, Option("--data", metavar="DIR", help="Folder of the copy.")] = Path("pyromq-copy")
    host: Annotated[str, Option(help="Address to listen on, for those who read the copy.")] = "127.0.0.1"
    port: Annotated[int, Option(min=0, max=65535, help="Port of the copy; 0 picks a free one.")] = 0
    take_over: Annotated[bool, Option("--take-over", help="Be the master when the other one has stopped.")] = False
    nameservers: Annotated[
        str | None,
        Option("--nameserver", "-n", metavar="HOST:PORT[;…]", help="Where to register then."),
    ] = None
    log: Annotated[
        str,
        Option("--log", metavar="LEVEL", help="Least level logged to stderr: debug, info, warning or error."),
    ] = "warning"
    log_format: LogFormatOption = LogFormat.TEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions:
    """What every server command has besides: any other setting, a look at all of them, and the log."""

    assignments: Annotated[
        list[str] | None,
        Option("--set", metavar="NAME=VALUE", help="Any setting, under its name in --print-config; may be repeated."),
    ] = None
    print_config: Annotated[
        bool, Option("--print-config", help="Show all settings and where they come from, and exit.")
    ] = False
    output: FormOption = None
    log: Annotated[
        str,
        Option("--log", metavar="LEVEL", help="Least level logged to stderr: debug, info, warning or error."),
    ] = "warning"
    log_format: LogFormatOption = LogFormat.TEXT

    def log_words(self) -> tuple[str, ...]:
        """Level and format of the log, as the command line of a process beside this one has them."""
        return log_words(self.log, self.log_format)


def log_words(level: str, form: LogFormat) -> tuple[str, ...]:
    """Options of a command that logs like this one."""
    return ("--log", level, "--log-format", form.value)


def _metrics(port: int | None, is_off: bool | None) -> dict[str, tuple[str, Any]]:
    return {
        "metrics.port": ("--metrics-port", port),
        "metrics.enabled": ("--no-metrics", False if is_off else None),
    }


def _grpc(port: int | None, is_off: bool | None) -> dict[str, tuple[str, Any]]:
    return {"grpc.port": ("--grpc-port", port), "grpc.enabled": ("--no-grpc", False if is_off else None)}


def _flush(mode: FlushMode | None) -> Any:
    from pyromq.store.settings import Flush

    return None if mode is None else Flush(mode.value)


def _role(name: RoleName | None) -> Any:
    from pyromq.replication.settings import Role

    return None if name is None else Role(name.value)
