"""Filter push-down: Spark's filter objects to conditions, and the reader that takes them.

Spark calls ``pushFilters`` in a worker of its own, and only when ``spark.sql.python.filterPushdown.enabled`` is true; a
reader that has the method while the setting is false makes it fail. So this reader is made only in that worker.

Spark 4.3 keeps what this reader planned with the frame, and a later query of the same frame without conditions reads
by that plan: it misses rows. So conditions are taken over only where a query asks for that (option ``pushFilters``).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.payload.typed_rows import TypedRows
from pyromq.pipeline.reading.filters import IS_IN, IS_THERE, Condition, condition_of, passing, with_tags
from pyromq.pipeline.spark.batch_reader import BatchReader

_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"
_COMPARISONS: Final[dict[type[Filter], str]] = {
    EqualTo: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    In: IS_IN,
    IsNotNull: IS_THERE,
}


def is_asked_for() -> bool:
    """Whether this process is the worker in which Spark hands filters over."""
    return _WORKER in sys.modules


def as_condition(given: Filter) -> Condition | None:
    """None for a filter that Spark has to apply itself."""
    comparison, facts = _COMPARISONS.get(type(given)), vars(given)
    column: tuple[str, ...] = facts.get("attribute", ())
    if comparison is None or len(column) != 1:
        return None
    value: Any = facts.get("value", ())
    values: Sequence[Any] = value if comparison in (IS_IN, IS_THERE) else (value,)
    return condition_of(column[0], comparison, tuple(values))


class FilteringReader(BatchReader):
    """A batch read with conditions."""

    def __init__(self, options: SourceOptions, schema: pa.Schema, typed: TypedRows | None = None) -> None:
        super().__init__(options, schema, typed)
        self._conditions: tuple[Condition, ...] = ()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Those that Spark still has to apply."""
        found = [(each, as_condition(each)) for each in filters]
        self._conditions = tuple(condition for _, condition in found if condition is not None)
        self._options = with_tags(self._options, self._conditions)
        return [each for each, condition in found if condition is None]

    def conditions(self) -> Sequence[Condition]:
        return self._conditions

    def stored_rows(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        return passing(self._conditions, super().stored_rows(partition))
