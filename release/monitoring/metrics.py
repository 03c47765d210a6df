"""Every metric there is, in the order in which it is reported."""

from __future__ import annotations

from typing import Final

from pyromq.metrics.broker_table import BROKER_METRICS
from pyromq.metrics.declared import Metric
from pyromq.metrics.exporter_table import EXPORTER_METRICS
from pyromq.metrics.process_table import NAMESERVER_METRICS, PROCESS_METRICS, SERVER_METRICS

METRICS: Final[tuple[Metric, ...]] = (
    *PROCESS_METRICS,
    *SERVER_METRICS,
    *BROKER_METRICS,
    *NAMESERVER_METRICS,
    *EXPORTER_METRICS,
)
BY_NAME: Final = {metric.name: metric for metric in METRICS}
SERIES: Final = {name: metric for metric in METRICS for name in metric.series_names}  # as dashboards name them
