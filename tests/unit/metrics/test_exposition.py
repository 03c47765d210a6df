"""Text forms: what a strict reader reads back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.metrics.declared import Metric, MetricKind
from pyromq.metrics.exposition import OPENMETRICS, PROMETHEUS, TextForm, form_for, whole_text
from pyromq.metrics.samples import Family, Histogram, ServerSamples
from tests.unit.metrics.grammar import read_text

COUNTER = Metric(
    name="a_seconds_total", kind=MetricKind.COUNTER, help="x", source="", labels=("topic",), unit="seconds"
)
GAUGE = Metric(name="b_size", kind=MetricKind.GAUGE, help='a "help" \\ of\ntwo lines', source="", unit="bytes")
HISTOGRAM = Metric(name="c", kind=MetricKind.HISTOGRAM, help="x", source="", labels=("topic",), buckets=(1, 2.5))

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


def text_of(*families: Family, form: TextForm = PROMETHEUS, **common: str) -> str:
    return whole_text([ServerSamples(common, families)], form).decode()


@pytest.mark.parametrize("form", [PROMETHEUS, OPENMETRICS])
@given(
    topic=st.text(st.characters(exclude_categories=["Cs"])), common=st.text(st.characters(exclude_categories=["Cs"]))
)
def test_any_text_of_a_label_is_read_back(form: TextForm, topic: str, common: str) -> None:
    histogram = Histogram(HISTOGRAM.buckets)
    histogram.observe(2.5)
    text = text_of(
        *(Family(COUNTER, [((topic,), 3)]), Family(HISTOGRAM, [((topic,), histogram.now())])), form=form, node=common
    )
    found = read_text(text, is_open=form.is_open)
    name = "a_seconds" if form.is_open else "a_seconds_total"
    assert found[name].value(topic=topic, node=common) == 3
    assert found["c"].value(topic=topic, le="2.5") == 1


def test_names_that_came_as_broken_utf_8_are_shown_all_the_same() -> None:
    assert 'topic="a?b"' in text_of(Family(COUNTER, [(("a\udcffb",), 1)]))


def test_units_follow_names_and_stand_before_total() -> None:
    assert COUNTER.text_name == "a_seconds_total" and GAUGE.text_name == "b_size_bytes"
    lag = Metric(name="rocketmq_consumer_lag_latency", kind=MetricKind.GAUGE, help="", source="", unit="milliseconds")
    assert lag.text_name == "rocketmq_consumer_lag_latency_milliseconds"


def test_a_metric_of_two_parts_stands_in_one_piece() -> None:
    parts = [
        ServerSamples({"node": "a"}, [Family(GAUGE, [((), 1)])]),
        ServerSamples({"node": "b"}, [Family(GAUGE, [((), 2.5)])]),
    ]
    found = read_text(whole_text(parts).decode())["b_size_bytes"]
    assert (found.value(node="a"), found.value(node="b")) == (1, 2.5)


def test_a_metric_without_samples_is_not_there() -> None:
    assert text_of(Family(GAUGE, [])) == ""
    assert text_of(Family(GAUGE, []), form=OPENMETRICS) == "# EOF\n"


@pytest.mark.parametrize(
    ("value", "shown"), [(1, "1"), (0.5, "0.5"), (float("inf"), "+Inf"), (float("-inf"), "-Inf"), (float("nan"), "NaN")]
)
def test_numbers(value: float, shown: str) -> None:
    assert text_of(Family(GAUGE, [((), value)])).splitlines()[-1] == f"b_size_bytes {shown}"


def test_a_percent_sign_in_a_label_of_all_series_is_no_pattern() -> None:
    assert 'node="100%s"' in text_of(Family(COUNTER, [(("x",), 1)]), node="100%s")


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", PROMETHEUS),
        ("*/*", PROMETHEUS),
        ("text/plain", PROMETHEUS),
        ("application/openmetrics-text; version=1.0.0", OPENMETRICS),
        ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.9", PROMETHEUS),
        ("application/openmetrics-text;q=0.9,text/plain;q=0.1,*/*;q=0.05", OPENMETRICS),
        ("application/openmetrics-text;q=nonsense", PROMETHEUS),
        ("application/openmetrics-text;q=7", PROMETHEUS),
        (";;;q=,,,", PROMETHEUS),
    ],
)
def test_the_form_that_is_liked_best(accept: str, form: TextForm) -> None:
    assert form_for(accept) is form
