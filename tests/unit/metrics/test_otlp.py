"""OTLP: requests as a collector reads them."""

from __future__ import annotations

import json

from pyromq.metrics import otlp
from pyromq.metrics.declared import Metric, MetricKind
from pyromq.metrics.samples import Distribution, Family, ServerSamples

COUNTER = Metric(name="a_total", kind=MetricKind.COUNTER, help="h", source="", labels=("topic",))
GAUGE = Metric(name="b", kind=MetricKind.GAUGE, help="h", source="", unit="bytes")
HISTOGRAM = Metric(name="c", kind=MetricKind.HISTOGRAM, help="h", source="", unit="milliseconds", buckets=(1, 5))


def test_each_kind_has_its_form() -> None:
    families = [
        Family(COUNTER, [(("orders",), 3)]),
        Family(GAUGE, [((), 0.5)]),
        Family(HISTOGRAM, [((), Distribution((1, 0, 2), 20.0))]),
    ]
    (body,) = otlp.requests([ServerSamples({"node_id": "a"}, families)], {"service.name": "pyromq"}, 5, 7)
    (told,) = json.loads(body)["resourceMetrics"]
    assert told["resource"]["attributes"] == [{"key": "service.name", "value": {"stringValue": "pyromq"}}]
    counter, gauge, histogram = told["scopeMetrics"][0]["metrics"]
    (point,) = counter["sum"]["dataPoints"]
    assert counter["sum"]["isMonotonic"] is True and counter["sum"]["aggregationTemporality"] == 2
    assert point["asInt"] == "3" and (point["startTimeUnixNano"], point["timeUnixNano"]) == ("5", "7")
    assert {each["key"]: each["value"]["stringValue"] for each in point["attributes"]} == {
        "node_id": "a",
        "topic": "orders",
    }
    assert gauge["gauge"]["dataPoints"][0]["asDouble"] == 0.5 and gauge["unit"] == "By"
    (point,) = histogram["histogram"]["dataPoints"]
    assert (point["count"], point["sum"], point["bucketCounts"]) == ("3", 20.0, ["1", "0", "2"])
    assert point["explicitBounds"] == [1.0, 5.0] and histogram["unit"] == "ms" and histogram["name"] == "c"


def test_many_points_come_in_several_requests() -> None:
    samples = [((f"t{number}",), number) for number in range(otlp.POINTS_MAX * 2 + 1)]
    bodies = list(otlp.requests([ServerSamples({}, [Family(GAUGE, [((), 1)]), Family(COUNTER, samples)])], {}, 0, 0))
    counts = [
        sum(
            len(each[kind]["dataPoints"])
            for each in json.loads(body)["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
            for kind in ("sum", "gauge")
            if kind in each
        )
        for body in bodies
    ]
    assert sum(counts) == len(samples) + 1 and max(counts) <= otlp.POINTS_MAX


def test_nothing_is_nothing_and_broken_names_are_sent() -> None:
    assert list(otlp.requests([ServerSamples({}, [Family(GAUGE, [])])], {}, 0, 0)) == []
    (body,) = otlp.requests([ServerSamples({}, [Family(COUNTER, [(("a\udc80",), 1)])])], {}, 0, 0)
    assert b"a?" in body
