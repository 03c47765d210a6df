"""Metrics of every process of ours, and those of a name server."""

from __future__ import annotations

from typing import Final

from pyromq.metrics.declared import NAMESERVER, Metric, MetricKind, MetricOwner, Panel, Row, Stability

_SERVERS: Final = (MetricOwner.BROKER, MetricOwner.NAMESERVER)
_ALL: Final = (MetricOwner.BROKER, MetricOwner.NAMESERVER, MetricOwner.EXPORTER)
_STABLE: Final = Stability.STABLE

BUILD_INFO: Final = Metric(
    name="pyromq_build_info",
    kind=MetricKind.GAUGE,
    help="Always 1; which PyroMQ runs, on which Python, and whether its hot path is pure Python or the compiled core.",
    source="installed packages",
    labels=("version", "python", "core"),
    stability=_STABLE,
    servers=_ALL,
    panel=Panel(Row.OVERVIEW, "Version", ("version", "python", "core")),
)
UPTIME: Final = Metric(
    name="pyromq_uptime_seconds",
    kind=MetricKind.GAUGE,
    unit="seconds",
    help="How long the process has served.",
    source="clock",
    stability=_STABLE,
    servers=_ALL,
    panel=Panel(Row.OVERVIEW, "Uptime"),
)
MEMORY: Final = Metric(
    name="pyromq_memory_bytes",
    kind=MetricKind.GAUGE,
    unit="bytes",
    help="Memory in use: own (the process would miss it), mapped (pages of files, mostly the log; the system may take "
    "them back), shared.",
    source="/proc/self/status, on Linux",
    labels=("kind",),
    stability=_STABLE,
    servers=_ALL,
    panel=Panel(Row.LOOP, "Memory", ("kind",)),
)
CPU: Final = Metric(
    name="pyromq_cpu_seconds_total",
    kind=MetricKind.COUNTER,
    unit="seconds",
    help="CPU time of the process.",
    source="operating system",
    labels=("mode",),
    stability=_STABLE,
    servers=_ALL,
    panel=Panel(Row.LOOP, "CPU", ("mode",)),
)
OPEN_FILES: Final = Metric(
    name="pyromq_open_files",
    kind=MetricKind.GAUGE,
    help="Open files and sockets.",
    source="/proc/self/fd, on Linux",
    servers=_ALL,
    panel=Panel(Row.LOOP, "Open files"),
)
CONNECTIONS: Final = Metric(
    name="pyromq_connections",
    kind=MetricKind.GAUGE,
    help="Open connections of clients, by the server that has them.",
    source="servers",
    labels=("server",),
    stability=_STABLE,
    servers=_SERVERS,
    panel=Panel(Row.CLIENTS, "Connections", ("server",)),
)
HALF_READ: Final = Metric(
    name="pyromq_half_read_bytes",
    kind=MetricKind.GAUGE,
    unit="bytes",
    help="Bytes of requests that have begun to arrive.",
    source="servers",
    labels=("server",),
    servers=_SERVERS,
)
LOOP_LAG: Final = Metric(
    name="pyromq_loop_lag_seconds",
    kind=MetricKind.HISTOGRAM,
    unit="seconds",
    help="How late a timer of the event loop is that is due every 50 ms: how long others wait for their turn.",
    source="a timer of the loop",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5),
    stability=_STABLE,
    panel=Panel(Row.LOOP, "Event loop is late (p99)"),
)
LOOP_STALLS: Final = Metric(
    name="pyromq_loop_stalls_total",
    kind=MetricKind.COUNTER,
    help="How often one piece of work kept the event loop for more than 100 ms of CPU time, since the start.",
    source="stall watch",
    labels=("server",),
    stability=_STABLE,
    servers=_SERVERS,
    panel=Panel(Row.LOOP, "Stalls of the event loop", ("server",)),
)
LOOP_STALL_WORST: Final = Metric(
    name="pyromq_loop_stall_worst_seconds",
    kind=MetricKind.GAUGE,
    unit="seconds",
    help="The worst of them.",
    source="stall watch",
    labels=("server",),
    servers=_SERVERS,
)
KNOWN_BROKERS: Final = Metric(
    name="pyromq_nameserver_brokers",
    kind=MetricKind.GAUGE,
    help="Registered addresses of brokers, masters and replicas.",
    source="route table",
    stability=_STABLE,
    servers=NAMESERVER,
    panel=Panel(Row.OVERVIEW, "Brokers registered"),
)
KNOWN_TOPICS: Final = Metric(
    name="pyromq_nameserver_topics",
    kind=MetricKind.GAUGE,
    help="Topics with a route.",
    source="route table",
    stability=_STABLE,
    servers=NAMESERVER,
)
COLLECT_TIME: Final = Metric(
    name="pyromq_metrics_collect_seconds",
    kind=MetricKind.GAUGE,
    unit="seconds",
    help="CPU time that the last collection took on the event loop, in pieces of a few milliseconds.",
    source="endpoint",
    servers=_ALL,
    panel=Panel(Row.LOOP, "Cost of a scrape"),
)
OVERFLOW_SERIES: Final = Metric(
    name="pyromq_metrics_overflow_series",
    kind=MetricKind.GAUGE,
    help="Label sets beyond the label budget of a metric, added up in its series with the labels _overflow.",
    source="label budget",
    labels=("metric",),
    stability=_STABLE,
    servers=_ALL,
    panel=Panel(Row.OVERVIEW, "Label sets beyond the budget", ("metric",)),
)
OTLP_EXPORTS: Final = Metric(
    name="pyromq_otlp_exports_total",
    kind=MetricKind.COUNTER,
    help="Collections pushed to the collector: ok, failed (it did not take them) or dropped (it was too slow).",
    source="OTLP export",
    labels=("result",),
    servers=_ALL,
)

PROCESS_METRICS: Final = (BUILD_INFO, UPTIME, MEMORY, CPU, OPEN_FILES, COLLECT_TIME, OVERFLOW_SERIES, OTLP_EXPORTS)
SERVER_METRICS: Final = (CONNECTIONS, HALF_READ, LOOP_LAG, LOOP_STALLS, LOOP_STALL_WORST)
NAMESERVER_METRICS: Final = (KNOWN_BROKERS, KNOWN_TOPICS)
