"""How a metric is declared: everything about it that is known before there is a number."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final


class MetricKind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Stability(Enum):
    """What may become of a name."""

    ROCKETMQ = "RocketMQ's name, labels and unit: stays as long as they do"
    STABLE = "changes with a major version only"
    NEW = "may change with any version; the change log says so"


class MetricOwner(Enum):
    """Kind of server that has a metric."""

    BROKER = "broker"
    NAMESERVER = "name server"
    EXPORTER = "exporter"


BROKER: Final = (MetricOwner.BROKER,)
NAMESERVER: Final = (MetricOwner.NAMESERVER,)
EXPORTER: Final = (MetricOwner.EXPORTER,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """``name`` is RocketMQ's where it has one; in text form the unit follows it, as OpenTelemetry's exporters do it."""

    name: str
    kind: MetricKind
    help: str
    source: str  # where its numbers come from
    labels: tuple[str, ...] = ()
    unit: str = ""
    buckets: tuple[float, ...] = ()
    stability: Stability = Stability.NEW
    servers: tuple[MetricOwner, ...] = BROKER
    text_name: str = field(init=False)  # as Prometheus has it

    def __post_init__(self) -> None:
        suffix = "_total" if self.kind is MetricKind.COUNTER else ""
        base = self.name.removesuffix(suffix) if suffix else self.name
        if self.unit and not base.endswith(f"_{self.unit}"):
            base = f"{base}_{self.unit}"
        object.__setattr__(self, "text_name", base + suffix)
        assert bool(self.buckets) == (self.kind is MetricKind.HISTOGRAM), f"{self.name}: only histograms have buckets"
        assert not suffix or self.name.endswith(suffix), f"{self.name}: the name of a counter ends in _total"
        assert list(self.buckets) == sorted(set(self.buckets)), f"{self.name}: buckets rise"

    @property
    def series_names(self) -> tuple[str, ...]:
        """The names that samples have in text form."""
        if self.kind is MetricKind.HISTOGRAM:
            return tuple(f"{self.text_name}{suffix}" for suffix in ("_bucket", "_sum", "_count"))
        return (self.text_name,)


@dataclass(frozen=True, slots=True)
class Declarations:
    """Declares metrics that share a promise and their servers, and appends each to ``metrics``."""

    metrics: list[Metric]
    stability: Stability
    servers: tuple[MetricOwner, ...] = BROKER

    def gauge(self, name: str, text: str, source: str, labels: tuple[str, ...] = (), **more: Any) -> Metric:
        return self._declare(MetricKind.GAUGE, name, text, source, labels, **more)

    def counter(self, name: str, text: str, source: str, labels: tuple[str, ...] = (), **more: Any) -> Metric:
        return self._declare(MetricKind.COUNTER, name, text, source, labels, **more)

    def histogram(
        self, name: str, text: str, source: str, buckets: tuple[float, ...], labels: tuple[str, ...] = (), **more: Any
    ) -> Metric:
        return self._declare(MetricKind.HISTOGRAM, name, text, source, labels, buckets=buckets, **more)

    def _declare(
        self, kind: MetricKind, name: str, text: str, source: str, labels: tuple[str, ...], **more: Any
    ) -> Metric:
        shared: dict[str, Any] = {"stability": self.stability, "servers": self.servers}
        metric = Metric(name=name, kind=kind, help=text, source=source, labels=labels, **shared, **more)
        self.metrics.append(metric)
        return metric
