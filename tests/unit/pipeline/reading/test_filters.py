"""Conditions that Spark hands over: with them and without them the same rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, In, IsNotNull, IsNull, LessThanOrEqual, Not
from pyspark.sql.datasource import StringStartsWith as StartsWith

from pyromq.model.queue import QueueId
from pyromq.pipeline.arrow.columns import ARROW_TYPES
from pyromq.pipeline.core.offsets import HeldRange, OffsetRange
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.reading.batch import plan_batch
from pyromq.pipeline.reading.filters import (
    COLUMNS,
    COMPARISONS,
    Condition,
    condition_of,
    may_match,
    narrowed,
    passing,
    store_times_ms,
    with_tags,
)
from pyromq.pipeline.spark.pushed import as_condition
from pyromq.wire.properties import message_keys
from tests.unit.pipeline.brokers import FakeCluster

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
QUEUE = QueueId("orders", "broker-a", 1)
SCHEMA = pa.schema([(name, ARROW_TYPES[name]) for name in COLUMNS])


def at(ms: float) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


_texts = st.sampled_from(["a", "b", "ab", "", "é"])
_small = st.integers(0, 6)
_times = st.integers(0, 6).map(at)
_of_columns: dict[str, st.SearchStrategy[Any]] = {
    **{"topic": st.sampled_from(["orders", "bills"]), "broker": st.sampled_from(["broker-a", "broker-b"])},
    **{"queue_id": _small, "queue_offset": _small, "store_time": _times, "born_time": _times},
    **{"tags": _texts, "keys": _texts, "delivery_attempt": _small},
}


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    column = draw(st.sampled_from(COLUMNS))
    comparison = draw(st.sampled_from([*COMPARISONS, "in", "is not null"]))
    count = {"in": 3, "is not null": 0}.get(comparison, 1)
    values = [draw(_of_columns[column]) for _ in range(count)]
    found = condition_of(column, comparison, values)
    assert found is not None
    return found


_rows = st.lists(
    st.fixed_dictionaries(
        {
            name: values if name.startswith(("queue", "store")) else values | st.none()
            for name, values in _of_columns.items()
        }
    ),
    max_size=12,
)


def kept(wanted: list[Condition], row: dict[str, Any]) -> bool:
    """As Spark has it: a comparison with null lets nothing through."""
    return all(row[each.column] is not None and each.holds(row[each.column]) for each in wanted)


@given(st.lists(conditions(), min_size=1, max_size=4), _rows)
def test_rows_are_those_that_spark_would_keep(wanted: list[Condition], rows: list[dict[str, Any]]) -> None:
    batch = pa.RecordBatch.from_pylist(rows, SCHEMA)
    found = [row for part in passing(wanted, [batch]) for row in part.to_pylist()]
    assert found == [row for row in batch.to_pylist() if kept(wanted, row)]


@given(st.lists(conditions(), max_size=4), _rows)
def test_what_is_not_read_would_not_have_been_kept(wanted: list[Condition], rows: list[dict[str, Any]]) -> None:
    first_ms, end_ms = store_times_ms(wanted)
    options = with_tags(SourceOptions(), wanted)
    for row in rows:
        queue = QueueId(row["topic"] or "orders", row["broker"] or "broker-a", row["queue_id"])
        row |= {"topic": queue.topic, "broker": queue.broker}
        whole = OffsetRange(queue, row["queue_offset"], row["queue_offset"] + 1)
        stored_ms = (row["store_time"] - EPOCH) / timedelta(milliseconds=1)
        is_read = may_match(wanted, queue) and len(narrowed(wanted, whole)) == 1
        is_read &= first_ms is None or stored_ms >= first_ms
        is_read &= end_ms is None or stored_ms < end_ms
        is_read &= not options.tags or row["tags"] in options.tags.split(" || ")
        assert is_read or not kept(wanted, row)


def test_ranges_get_shorter() -> None:
    queues = {QueueId("orders", "broker-a", number): HeldRange(0, 100) for number in range(3)}
    brokers = FakeCluster(queues)
    brokers.by_time = dict.fromkeys(queues, 60)
    plan = [
        *[Condition("queue_id", "in", (1, 2)), Condition("queue_offset", ">=", (10,))],
        *[Condition("queue_offset", "<", (80,)), Condition("store_time", "<", (at(5),))],
    ]
    found = plan_batch(SourceOptions(topics=("orders",)), brokers, plan)
    assert found == [(OffsetRange(queue, 10, 60),) for queue in list(queues)[1:]]


_keys = st.lists(st.sampled_from(["a", "b", "ab", "", "é", "\ufffd"]), max_size=3).map(" ".join)


@given(
    st.lists(_keys, max_size=80),
    st.lists(
        st.one_of(
            _keys.map(lambda value: Condition("keys", "=", (value,))),
            st.lists(_keys, min_size=1, max_size=3).map(lambda values: Condition("keys", "in", tuple(values))),
            st.integers(0, 50).map(lambda value: Condition("queue_offset", ">=", (value,))),
        ),
        max_size=3,
    ),
    st.booleans(),
)
def test_by_the_key_index_the_rows_are_the_same(columns: list[str], wanted: list[Condition], is_indexed: bool) -> None:
    brokers = FakeCluster({QUEUE: HeldRange(0, len(columns))})
    brokers.unindexed = set() if is_indexed else {QUEUE}
    for offset, column in enumerate(columns):
        stored = b"\xff" if column == "\ufffd" else column.encode()  # a column shows bytes that are no text so
        for key in message_keys(b"KEYS\x01" + stored + b"\x02"):
            brokers.keys.setdefault(key.decode(errors="surrogateescape"), {}).setdefault(QUEUE, set()).add(offset)
    planned = plan_batch(SourceOptions(topics=("orders",)), brokers, wanted)
    read = [offset for (part,) in planned for offset in range(part.start, part.end)]
    rows = {offset: {"keys": column or None, "queue_offset": offset} for offset, column in enumerate(columns)}
    assert len(read) == len(set(read))
    assert [offset for offset in sorted(read) if kept(wanted, rows[offset])] == [
        offset for offset, row in rows.items() if kept(wanted, row)
    ]


def test_ranges_are_what_the_key_index_names() -> None:
    near, far = QueueId("orders", "broker-a", 0), QueueId("orders", "broker-b", 0)
    brokers = FakeCluster({near: HeldRange(0, 1_000), far: HeldRange(0, 1_000)})
    brokers.keys = {"order-7": {near: {3, 20, 500, 5_000}}, "x": {near: {1}}}
    brokers.unindexed = {far}
    options, both = SourceOptions(topics=("orders",)), Condition("keys", "=", ("x order-7",))
    found = [part for partition in plan_batch(options, brokers, [both]) for part in partition]
    assert found == [OffsetRange(near, 3, 21), OffsetRange(near, 500, 501), OffsetRange(far, 0, 1_000)]
    many = Condition("keys", "in", tuple(f"k{number}" for number in range(100)))
    assert [plan_batch(options, brokers, [each]) for each in (many, Condition("keys", ">", ("x",)))] == [
        [(OffsetRange(queue, 0, 1_000),) for queue in (near, far)]
    ] * 2


def test_names_of_topics_are_compared_as_rows_have_them() -> None:
    queue = QueueId("shop%orders", "broker-a", 0)
    options = SourceOptions(topics=("orders",), namespace="shop")
    named = Condition("topic", "=", ("orders",))
    assert plan_batch(options, FakeCluster({queue: HeldRange(0, 5)}), [named]) == [(OffsetRange(queue, 0, 5),)]
    assert plan_batch(options, FakeCluster({queue: HeldRange(0, 5)}), [Condition("topic", "=", ("bills",))]) == []


def test_brokers_filter_by_tags_unless_the_query_does() -> None:
    some = [Condition("tags", "in", ("b", "a", "c")), Condition("tags", "in", ("a", "b"))]
    assert with_tags(SourceOptions(), some).tags == "a || b"
    assert with_tags(SourceOptions(tags="x"), some).tags == "x"
    assert with_tags(SourceOptions(sql="a = 1"), some).tags == ""
    assert with_tags(SourceOptions(), [Condition("tags", "=", ("a || b",))]).tags == ""
    assert with_tags(SourceOptions(), [Condition("tags", ">", ("a",))]).tags == ""


@pytest.mark.parametrize(
    "given",
    [
        *[EqualTo(("properties",), "x"), EqualTo(("topic", "inner"), "x"), EqualTo(("queue_id",), True)],
        *[EqualTo(("queue_id",), 1.5), EqualTo(("queue_id",), 1 << 40), EqualTo(("tags",), None)],
        *[Not(EqualTo(("tags",), "x")), IsNull(("tags",)), StartsWith(("tags",), "x")],
        *[GreaterThan(("store_time",), at(5).replace(tzinfo=None)), In(("queue_id",), tuple(range(2_000)))],
    ],
)
def test_what_cannot_be_compared_exactly_is_left_to_spark(given: Filter) -> None:
    assert as_condition(given) is None


def test_filters_of_spark_become_conditions() -> None:
    assert as_condition(EqualTo(("tags",), "x")) == Condition("tags", "=", ("x",))
    assert as_condition(In(("queue_id",), (1, 2))) == Condition("queue_id", "in", (1, 2))
    assert as_condition(LessThanOrEqual(("born_time",), at(5))) == Condition("born_time", "<=", (at(5),))
    assert as_condition(IsNotNull(("keys",))) == Condition("keys", "is not null")
