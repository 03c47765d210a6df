"""Metrics of every process of ours, and those of a name server."""

from __future__ import annotations

from typing import Final

from pyromq.metrics.declared import BROKER, NAMESERVER, Declarations, Metric, MetricOwner, Stability

_SERVERS: Final = (MetricOwner.BROKER, MetricOwner.NAMESERVER)
_ALL: Final = (MetricOwner.BROKER, MetricOwner.NAMESERVER, MetricOwner.EXPORTER)

_PROCESS: Final[list[Metric]] = []
_SERVER: Final[list[Metric]] = []
_NAMESERVER: Final[list[Metric]] = []
_stable_process: Final = Declarations(_PROCESS, Stability.STABLE, _ALL)
_new_process: Final = Declarations(_PROCESS, Stability.NEW, _ALL)
_stable_server: Final = Declarations(_SERVER, Stability.STABLE, _SERVERS)
_new_server: Final = Declarations(_SERVER, Stability.NEW, _SERVERS)
_stable_broker: Final = Declarations(_SERVER, Stability.STABLE, BROKER)
_stable_nameserver: Final = Declarations(_NAMESERVER, Stability.STABLE, NAMESERVER)

BUILD_INFO: Final = _stable_process.gauge(
    "pyromq_build_info",
    "Always 1; which PyroMQ runs, on which Python, and whether its hot path is pure Python or the compiled core.",
    "installed packages",
    ("version", "python", "core"),
)
UPTIME: Final = _stable_process.gauge(
    "pyromq_uptime_seconds", "How long the process has served.", "clock", unit="seconds"
)
MEMORY: Final = _stable_process.gauge(
    "pyromq_memory_bytes",
    "Memory in use: own (the process would miss it), mapped (pages of files, mostly the log; the system may take "
    "them back), shared.",
    "/proc/self/status, on Linux",
    ("kind",),
    unit="bytes",
)
CPU: Final = _stable_process.counter(
    "pyromq_cpu_seconds_total", "CPU time of the process.", "operating system", ("mode",), unit="seconds"
)
OPEN_FILES: Final = _new_process.gauge("pyromq_open_files", "Open files and sockets.", "/proc/self/fd, on Linux")
CONNECTIONS: Final = _stable_server.gauge(
    "pyromq_connections", "Open connections of clients, by the server that has them.", "servers", ("server",)
)
HALF_READ: Final = _new_server.gauge(
    "pyromq_half_read_bytes", "Bytes of requests that have begun to arrive.", "servers", ("server",), unit="bytes"
)
LOOP_LAG: Final = _stable_broker.histogram(
    "pyromq_loop_lag_seconds",
    "How late a timer of the event loop is that is due every 50 ms: how long others wait for their turn.",
    "a timer of the loop",
    (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5),
    unit="seconds",
)
LOOP_STALLS: Final = _stable_server.counter(
    "pyromq_loop_stalls_total",
    "How often one piece of work kept the event loop for more than 100 ms of CPU time, since the start.",
    "stall watch",
    ("server",),
)
LOOP_STALL_WORST: Final = _new_server.gauge(
    "pyromq_loop_stall_worst_seconds", "The worst of them.", "stall watch", ("server",), unit="seconds"
)
KNOWN_BROKERS: Final = _stable_nameserver.gauge(
    "pyromq_nameserver_brokers", "Registered addresses of brokers, masters and replicas.", "route table"
)
KNOWN_TOPICS: Final = _stable_nameserver.gauge("pyromq_nameserver_topics", "Topics with a route.", "route table")
COLLECT_TIME: Final = _new_process.gauge(
    "pyromq_metrics_collect_seconds",
    "CPU time that the last collection took on the event loop, in pieces of a few milliseconds.",
    "endpoint",
    unit="seconds",
)
OVERFLOW_SERIES: Final = _stable_process.gauge(
    "pyromq_metrics_overflow_series",
    "Label sets beyond the label budget of a metric, added up in its series with the labels _overflow.",
    "label budget",
    ("metric",),
)
OTLP_EXPORTS: Final = _new_process.counter(
    "pyromq_otlp_exports_total",
    "Collections pushed to the collector: ok, failed (it did not take them) or dropped (it was too slow).",
    "OTLP export",
    ("result",),
)

PROCESS_METRICS: Final = tuple(_PROCESS)
SERVER_METRICS: Final = tuple(_SERVER)
NAMESERVER_METRICS: Final = tuple(_NAMESERVER)
