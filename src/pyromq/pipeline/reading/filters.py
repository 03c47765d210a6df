"""Conditions that Spark hands over (filter push-down): what they leave out is not read, or at least not handed on.

    topic, broker, queue_id   queues that cannot match are not asked
    queue_offset              ranges get shorter
    store_time                ranges get shorter, by the brokers' search by time
    tags                      brokers filter (= and IN), unless the query has a filter of its own
    keys                      ranges are what the brokers' key index names (= and IN), where it knows all
    every column of these, born_time, keys, delivery_attempt      rows are compared before they leave the worker

Rows are compared in the end whatever was done before, so the result is exactly what Spark would have kept.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pyromq.model.queue import QueueId
from pyromq.pipeline.arrow.columns import ARROW_TYPES
from pyromq.pipeline.core.offsets import OffsetRange
from pyromq.pipeline.core.options import SourceOptions

COLUMNS: Final = (
    *("topic", "broker", "queue_id", "queue_offset", "store_time", "born_time"),
    *("tags", "keys", "delivery_attempt"),
)
COMPARISONS: Final = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
IS_IN, IS_THERE = "in", "is not null"
STORE_TIME_SLACK_MS: Final = 60_000
"""By so much may the clock of a broker have gone back: store times are searched as if they only grew."""
_VALUES_MAX: Final = 1_000
_LOOKED_UP_MAX: Final = 64
RUN_GAP_MAX: Final = 32
"""So many messages that are not wanted are read between two that are: they come with one pull."""
_ARROW: Final = {"=": pc.equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}
_KINDS: Final = {pa.string(): str, pa.int32(): int, pa.int64(): int}
_REPLACED: Final = "\ufffd"  # stands in a column for bytes that are no text; the index has the bytes
_is_plain_tag = re.compile(r"[^|\s*\x01\x02]+").fullmatch


@dataclass(frozen=True, slots=True)
class Condition:
    """``column comparison value``; of ``in`` several values, of ``is not null`` none."""

    column: str
    comparison: str
    values: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.column} {self.comparison} {', '.join(map(str, self.values))}".rstrip()

    def holds(self, value: Any) -> bool:
        """Whether the condition holds for one value, which is not null."""
        match self.comparison:
            case "is not null":
                return True
            case "in":
                return value in self.values
            case _:
                return bool(COMPARISONS[self.comparison](value, self.values[0]))

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """True for the rows that it lets through."""
        column = batch.column(batch.schema.get_field_index(self.column))
        if self.comparison == IS_THERE:
            return pc.is_valid(column)
        values = pa.array(self.values, ARROW_TYPES[self.column])
        if self.comparison == IS_IN:
            return pc.and_(pc.is_in(column, value_set=values), pc.is_valid(column))
        return pc.fill_null(_ARROW[self.comparison](column, values[0]), False)


def condition_of(column: str, comparison: str, values: Sequence[Any]) -> Condition | None:
    """None when it cannot be compared here exactly as Spark does."""
    if column not in COLUMNS or len(values) > _VALUES_MAX:
        return None
    kind = _KINDS.get(ARROW_TYPES[column], datetime)
    if any(type(value) is not kind for value in values):  # a bool is an int for Python, not for Spark
        return None
    if kind is datetime and any(value.tzinfo is None for value in values):
        return None
    try:
        pa.array(values, ARROW_TYPES[column])
    except (pa.ArrowInvalid, OverflowError):
        return None
    return Condition(column, comparison, tuple(values))


# --- what need not be read -------------------------------------------------------------------------------------------


def with_tags(options: SourceOptions, conditions: Iterable[Condition]) -> SourceOptions:
    """Add a filter by tags at the brokers to the options, where the conditions ask for certain tags."""
    wanted: set[str] | None = None
    for each in conditions:
        if each.column == "tags" and each.comparison in ("=", IS_IN):
            wanted = set(each.values) if wanted is None else wanted & set(each.values)
    if not wanted or options.tags or options.sql or not all(map(_is_plain_tag, wanted)):
        return options
    return replace(options, tags=" || ".join(sorted(wanted)))


def may_match(conditions: Iterable[Condition], queue: QueueId) -> bool:
    """Whether rows of the queue can pass; its topic with the name that rows have."""
    own = {"topic": queue.topic, "broker": queue.broker, "queue_id": queue.number}
    return all(each.holds(own[each.column]) for each in conditions if each.column in own)


def narrowed(conditions: Iterable[Condition], wanted: OffsetRange) -> OffsetRange:
    """The part of a range whose offsets can pass."""
    start, end = _bounds(conditions, "queue_offset", wanted.start, wanted.end)
    return OffsetRange(wanted.queue, start, max(start, end))


def store_times_ms(conditions: Iterable[Condition]) -> tuple[int | None, int | None]:
    """Between which times messages must have been stored to pass: [first, end); None where any time will do."""
    low, high = 0, 1 << 62
    first, end = _bounds(conditions, "store_time", low, high)
    return (
        None if first == low else max(0, first - STORE_TIME_SLACK_MS),
        None if end == high else end + STORE_TIME_SLACK_MS,
    )


def _bounds(conditions: Iterable[Condition], column: str, start: int, end: int) -> tuple[int, int]:
    for each in conditions:
        if each.column != column or not each.values:
            continue
        low, high = _whole(min(each.values), up=False), _whole(max(each.values), up=True)
        match each.comparison:
            case "=" | "in":
                start, end = max(start, low), min(end, high + 1)
            case ">" | ">=":
                start = max(start, low)
            case "<" | "<=":
                end = min(end, high + 1)
    return start, end


def _whole(value: Any, *, up: bool) -> int:
    """An offset, or a time in milliseconds; rounded outwards."""
    if isinstance(value, int):
        return value
    since = value - datetime(1970, 1, 1, tzinfo=UTC)
    whole, rest = divmod(since, timedelta(milliseconds=1))
    return int(whole) + (1 if up and rest else 0)


def indexed_keys(conditions: Iterable[Condition]) -> frozenset[str] | None:
    """Keys of which every message has one that passes; None where the key index does not help.

    The column holds all keys of a message, the index each of them: who has "a b" has "a" as well as "b".
    """
    wanted: set[str] | None = None
    for each in conditions:
        if each.column == "keys" and each.comparison in ("=", IS_IN):
            wanted = set(each.values) if wanted is None else wanted & set(each.values)
    if not wanted or len(wanted) > _LOOKED_UP_MAX:
        return None
    words = [max(value.split(" "), key=len) for value in wanted]
    is_exact = all(words) and not any(_REPLACED in word for word in words)
    return frozenset(words) if is_exact else None


def runs_of(wanted: OffsetRange, offsets: Iterable[int]) -> list[OffsetRange]:
    """The parts of a range that hold these offsets; those that lie near each other are in one part."""
    inside = sorted(offset for offset in offsets if wanted.start <= offset < wanted.end)
    runs: list[OffsetRange] = []
    for offset in inside:
        if runs and offset - runs[-1].end <= RUN_GAP_MAX:
            runs[-1] = OffsetRange(wanted.queue, runs[-1].start, offset + 1)
        else:
            runs.append(OffsetRange(wanted.queue, offset, offset + 1))
    return runs


# --- rows ------------------------------------------------------------------------------------------------------------


def passing(conditions: Sequence[Condition], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows that all conditions let through."""
    for batch in batches:
        if not conditions:
            yield batch
            continue
        found = batch.filter(reduce(pc.and_, (each.mask(batch) for each in conditions)))
        if found.num_rows:
            yield found
