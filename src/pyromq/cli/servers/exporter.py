"""``pyromq exporter``: the metrics of any RocketMQ cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pyromq.cli.connection import DEFAULT_NAMESERVER, NameServerOption
from pyromq.cli.declared import Option
from pyromq.cli.servers.commands import log_to_stderr
from pyromq.cli.servers.options import HostOption, LogFormat, LogFormatOption, MetricsPortOption


@dataclass(frozen=True, slots=True, kw_only=True)
class ExporterFlags:
    """What is asked for, how often, and where it is shown."""

    host: HostOption = None
    port: MetricsPortOption = None
    insecure_network: Annotated[
        bool, Option("--insecure-network", help="Show metrics beyond this machine to whoever asks.")
    ] = False
    interval: Annotated[int, Option(min=1, metavar="SECONDS", help="Between two rounds of admin requests.")] = 15
    no_topics: Annotated[bool, Option("--no-topics", help="Do not ask for the queues of every topic.")] = False
    no_members: Annotated[bool, Option("--no-members", help="Do not ask members of groups how they are.")] = False
    series_max: Annotated[int, Option(min=1, help="Label sets of each metric; the others are added up.")] = 10_000
    labels: Annotated[list[str] | None, Option("--label", metavar="NAME:VALUE", help="Of every series.")] = None
    token_file: Annotated[Path | None, Option(metavar="FILE", help="Its text is the token that /metrics asks for.")] = (
        None
    )
    log: Annotated[str, Option("--log", metavar="LEVEL", help="Least level logged to stderr.")] = "warning"
    log_format: LogFormatOption = LogFormat.TEXT


def exporter(*, nameserver: NameServerOption = DEFAULT_NAMESERVER, flags: ExporterFlags) -> None:
    """Serve the metrics of a RocketMQ cluster, PyroMQ's or Apache's. They come from admin requests."""
    log_to_stderr(flags.log, flags.log_format)
    from pyromq.exporter.exporter import ExporterSettings
    from pyromq.metrics.settings import MetricsSettings
    from pyromq.standalone import run_exporter

    shown = MetricsSettings(
        host=flags.host or "127.0.0.1",
        port=flags.port,
        series_max=flags.series_max,
        labels=tuple(flags.labels or ()),
        token_file=flags.token_file,
    )
    asked = ExporterSettings(
        interval_ms=flags.interval * 1000, with_topics=not flags.no_topics, with_members=not flags.no_members
    )
    run_exporter(nameserver, asked, shown, insecure_network=flags.insecure_network)
