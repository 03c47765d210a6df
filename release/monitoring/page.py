"""The tables of docs/how-to/metrics.md, made from the declarations."""

from __future__ import annotations

from collections.abc import Iterable

from pyromq.metrics.declared import Metric, MetricOwner
from pyromq.metrics.exporter_table import ALSO_EXPORTED
from release.monitoring.metrics import METRICS


def rows(metrics: Iterable[Metric]) -> list[str]:
    """Name as Prometheus has it, kind, labels, meaning."""
    found = []
    for metric in metrics:
        labels = " ".join(f"`{label}`" for label in metric.labels)
        found.append(f"| `{metric.text_name}` | {metric.kind.value} | {labels} | {_meaning(metric)} |")
    return found


def _meaning(metric: Metric) -> str:
    buckets = f" Buckets: {', '.join(f'{bound:g}' for bound in metric.buckets)}." if metric.buckets else ""
    return metric.help.replace("|", "\\|") + buckets


def server_rows() -> list[str]:
    return rows(metric for metric in METRICS if metric.servers != (MetricOwner.EXPORTER,))


def exporter_rows() -> list[str]:
    return rows([*(metric for metric in METRICS if metric.servers == (MetricOwner.EXPORTER,)), *ALSO_EXPORTED])
