"""Bounds of conditions: never too narrow, and narrow where a condition says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.model.queue import QueueId
from pyromq.pipeline.core.offsets import OffsetRange
from pyromq.pipeline.reading.filters import Condition
from pyromq.pipeline.tables.bounds import SCHEMA, columns_in, conditions_of, may_hold

OFFSET, QUEUE, TIME = pc.field("queue_offset"), pc.field("queue_id"), pc.field("store_time")


def moment(day: int) -> datetime:
    return datetime(2026, 11, 1, tzinfo=UTC) + timedelta(days=day)


def at(day: int) -> Any:
    return pa.scalar(moment(day), SCHEMA.field("store_time").type)


@pytest.mark.parametrize(
    ("condition", "bounds"),
    [
        (OFFSET >= 5, [Condition("queue_offset", ">=", (5,))]),
        (OFFSET < 5, [Condition("queue_offset", "<", (5,))]),
        ((OFFSET == 5) | (OFFSET == 9), [Condition("queue_offset", ">=", (5,)), Condition("queue_offset", "<", (10,))]),
        ((QUEUE == 1) & (OFFSET > 2) & (OFFSET <= 7), [Condition("queue_offset", ">=", (2,)), Condition("queue_offset", "<", (8,))]),  # noqa: E501
        (TIME >= at(2), [Condition("store_time", ">=", (moment(2),))]),
        ((TIME >= at(2)) & (TIME < at(3)), [Condition("store_time", ">=", (moment(2),)), Condition("store_time", "<", (moment(3),))]),  # noqa: E501
        (QUEUE == 1, []),
        ((OFFSET >= 5) | (QUEUE == 1), []),
        (pc.field("tags") == "a", []),
    ],
)  # fmt: skip
def test_bounds_of_offset_and_time(condition: Any, bounds: list[Condition]) -> None:
    assert conditions_of(condition) == bounds


def test_the_columns_that_a_condition_looks_at() -> None:
    assert columns_in((OFFSET > 1) & (pc.field("tags") == "a"), SCHEMA) == ["queue_offset", "tags"]
    assert columns_in(pc.scalar(True), SCHEMA) == []


COMPARED = st.one_of(
    st.tuples(st.just("queue_offset"), st.sampled_from("= < <= > >=".split()), st.integers(-2, 12)),
    st.tuples(st.just("queue_id"), st.sampled_from("= < <= > >=".split()), st.integers(-1, 4)),
    st.tuples(st.just("store_time"), st.sampled_from("= < <= > >=".split()), st.integers(0, 12)),
)
TREES = st.recursive(
    COMPARED,
    lambda inner: st.one_of(
        st.tuples(st.just("and"), inner, inner),
        st.tuples(st.just("or"), inner, inner),
        st.tuples(st.just("not"), inner),
    ),
    max_leaves=5,
)


def built(tree: Any) -> Any:
    match tree:
        case ("and", left, right):
            return built(left) & built(right)
        case ("or", left, right):
            return built(left) | built(right)
        case ("not", inner):
            return ~built(inner)
        case (column, comparison, value):
            field, other = pc.field(column), at(value) if column == "store_time" else value
            compared = {"=": field == other, "<": field < other, "<=": field <= other, ">": field > other}
            return compared.get(comparison, field >= other)


ROWS = pa.table(
    {
        "queue_id": pa.array([queue for queue in range(3) for _ in range(10)], pa.int32()),
        "queue_offset": pa.array([*range(10)] * 3, pa.int64()),
        "store_time": pa.array([moment(day) for day in range(10)] * 3, SCHEMA.field("store_time").type),
    }
)


@settings(max_examples=30, deadline=None)
@given(TREES)
def test_no_row_that_passes_is_out_of_bounds(tree: Any) -> None:
    condition = built(tree)
    bounds = conditions_of(condition)
    for row in ROWS.filter(condition).to_pylist():
        assert all(each.holds(row[each.column]) for each in bounds), (row, bounds)
        start = row["queue_offset"] // 5 * 5
        part = OffsetRange(QueueId("orders", "broker-a", row["queue_id"]), start, start + 5)
        assert may_hold(condition, "orders", part), row


def test_queues_and_offsets_that_cannot_pass_are_left_out() -> None:
    part = OffsetRange(QueueId("orders", "broker-a", 2), 10, 20)
    for condition in (QUEUE == 1, OFFSET < 10, OFFSET >= 20, pc.field("broker") == "b", (QUEUE == 1) | (OFFSET == 5)):
        assert not may_hold(condition, "orders", part), str(condition)
    for condition in (QUEUE == 2, OFFSET < 11, pc.field("keys") == "x", (QUEUE == 1) | (OFFSET == 15)):
        assert may_hold(condition, "orders", part), str(condition)
