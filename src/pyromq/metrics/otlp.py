"""OTLP: families as an OpenTelemetry collector takes them over HTTP, in JSON (ExportMetricsServiceRequest).

Names are without their units, which have a field of their own, as RocketMQ's exporter has it. Counters and histograms
are cumulative. Numbers of 64 bits are texts, as the mapping of protobuf to JSON says. One request has a bounded number
of points; a large metric comes in several.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pyromq.metrics.declared import Metric, MetricKind
from pyromq.metrics.samples import Distribution, Labels, ServerSamples, Value

POINTS_MAX: Final = 500  # of one piece; a few milliseconds of work
_CUMULATIVE: Final = 2
_UNITS: Final = {"milliseconds": "ms", "seconds": "s", "bytes": "By", "ratio": "1", "": "1"}


def requests(
    parts: Iterable[ServerSamples], resource: Mapping[str, str], started_ns: int, now_ns: int
) -> Iterator[bytes]:
    """Bodies of requests, one after the other."""
    times = {"startTimeUnixNano": str(started_ns), "timeUnixNano": str(now_ns)}
    waiting: list[dict[str, Any]] = []
    count = 0
    for part in parts:
        for family in part.families:
            for start in range(0, len(family.samples), POINTS_MAX):
                piece = family.samples[start : start + POINTS_MAX]
                if count and count + len(piece) > POINTS_MAX:
                    yield _request(waiting, resource)
                    waiting, count = [], 0
                waiting.append(_metric(family.metric, part.common, piece, times))
                count += len(piece)
    if waiting:
        yield _request(waiting, resource)


def _request(metrics: list[dict[str, Any]], resource: Mapping[str, str]) -> bytes:
    scope = {"scope": {"name": "pyromq"}, "metrics": metrics}
    resource_metrics = {"resource": {"attributes": _attributes(resource)}, "scopeMetrics": [scope]}
    return msgspec.json.encode({"resourceMetrics": [resource_metrics]})


def _metric(
    metric: Metric, common: Mapping[str, str], samples: Sequence[tuple[Labels, Value]], times: Mapping[str, str]
) -> dict[str, Any]:
    shared = _attributes(common)
    points = [_point(metric, shared, labels, value, times) for labels, value in samples]
    found: dict[str, Any] = {"name": metric.name, "description": metric.help, "unit": _UNITS[metric.unit]}
    match metric.kind:
        case MetricKind.COUNTER:
            found["sum"] = {"dataPoints": points, "aggregationTemporality": _CUMULATIVE, "isMonotonic": True}
        case MetricKind.GAUGE:
            found["gauge"] = {"dataPoints": points}
        case MetricKind.HISTOGRAM:
            found["histogram"] = {"dataPoints": points, "aggregationTemporality": _CUMULATIVE}
    return found


def _point(
    metric: Metric, shared: list[dict[str, Any]], labels: Labels, value: Value, times: Mapping[str, str]
) -> dict[str, Any]:
    own = [_attribute(name, text) for name, text in zip(metric.labels, labels, strict=True)]
    point: dict[str, Any] = {"attributes": [*shared, *own], **times}
    if isinstance(value, Distribution):
        point |= {
            "count": str(value.observed),
            "sum": value.total,
            "bucketCounts": [str(count) for count in value.counts],
            "explicitBounds": [float(bound) for bound in metric.buckets],
        }
    elif isinstance(value, int):
        point["asInt"] = str(value)
    else:
        point["asDouble"] = value
    return point


def _attributes(values: Mapping[str, str]) -> list[dict[str, Any]]:
    return [_attribute(name, text) for name, text in values.items()]


def _attribute(name: str, text: str) -> dict[str, Any]:
    clean = text.encode("utf-8", "replace").decode()
    return {"key": name, "value": {"stringValue": clean}}
