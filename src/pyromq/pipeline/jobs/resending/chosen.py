"""Rows that ``replay`` and ``redrive`` send again, read by Spark or, where they are few, by this process alone.

Both give the same rows in the same order: by ``ORDER``, the time they were stored first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from pyromq.model import failure
from pyromq.model import property_names as names
from pyromq.operate.letter_filter import LetterFilter
from pyromq.operate.resend.outgoing import REDRIVEN_FROM, origin_topic
from pyromq.pipeline.jobs.common.selection import ORDER, Selection, in_order
from pyromq.pipeline.jobs.resending.outgoing import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REPLAY: Final = "REPLAY"
_NEIGHBOURS: Final = 256
_COLUMNS: Final = tuple(dict.fromkeys((*COLUMNS, *ORDER)))


class ChosenRows(Protocol):
    """Rows of messages that will be sent again; every reading gives the same ones."""

    def count(self) -> int: ...

    def first(self, count: int) -> Sequence[Any]:
        """The first so many of them."""
        ...

    def in_order(self, count: int) -> Iterator[Any]:
        """All of them; ``count`` is about how many there are."""
        ...

    def letters(self) -> Sequence[Any]:
        """Dead letters by ids and places, with ``origin_topic`` and ``redriven_from``."""
        ...


def chosen_rows(
    spark: SparkSession | None, selection: Selection, *, errors: Collection[str] = (), without_replay: str = ""
) -> ChosenRows:
    """The rows of a selection: dead letters with one of some errors, messages that no replay of a name sent.

    Without a Spark they are in memory. Raises what the source raises, and TooLargeForMemoryError.
    """
    if spark is None:
        return RowsInMemory(selection, errors, without_replay)
    return RowsBySpark(spark, selection, errors, without_replay)


class RowsBySpark:
    """A DataFrame of the rows."""

    def __init__(self, spark: SparkSession, selection: Selection, errors: Collection[str], without_replay: str) -> None:
        from pyspark.sql import functions as F  # noqa: N812

        which = LetterFilter.of({"errors": tuple(errors)}).sql()
        where = " AND ".join(f"({part})" for part in (selection.where, which) if part)
        frame = msgspec.structs.replace(selection, where=where).frame(spark).select(*_COLUMNS)
        if without_replay:
            frame = frame.where(~F.col("properties").getItem(REPLAY).eqNullSafe(without_replay))
        self._frame: DataFrame = frame

    def count(self) -> int:
        return self._frame.count()

    def first(self, count: int) -> Sequence[Any]:
        return self._frame.orderBy(*ORDER).limit(count).collect()

    def in_order(self, count: int) -> Iterator[Any]:
        return in_order(self._frame, count)

    def in_parts(self, parts: int, count_max: int = 0) -> DataFrame:
        """A frame of as many partitions, sorted: all of a sharding key in one, and neighbours of a queue together."""
        from pyspark.sql import functions as F  # noqa: N812

        frame = self._frame.orderBy(*ORDER).limit(count_max) if count_max else self._frame
        neighbours = F.concat_ws(":", "broker", "queue_id", (F.col("queue_offset") / _NEIGHBOURS).cast("long"))
        key = F.nullif(F.col("properties").getItem(names.SHARDING_KEY), F.lit(""))
        return frame.repartition(parts, F.coalesce(key, neighbours)).sortWithinPartitions(*ORDER).select(*COLUMNS)

    def letters(self) -> Sequence[Any]:
        from pyspark.sql import functions as F  # noqa: N812

        properties = F.col("properties")
        origin = F.coalesce(properties.getItem(names.RETRY_TOPIC), properties.getItem(names.DLQ_ORIGIN_TOPIC))
        copied = properties.getItem(REDRIVEN_FROM)
        marks = (*ORDER, "offset_message_id", "message_id", origin.alias("origin_topic"), copied.alias("redriven_from"))
        found = self._frame.select(*marks).toArrow()  # Spark would read the letters a second time to sort them
        return found.sort_by([(name, "ascending") for name in ORDER]).to_pylist()  # type: ignore[no-any-return]


class RowsInMemory:
    """The rows as dictionaries."""

    def __init__(self, selection: Selection, errors: Collection[str], without_replay: str) -> None:
        from pyromq.pipeline.jobs.common.plain_rows import rows_of

        found = (
            row
            for row in rows_of(selection, *_COLUMNS)
            if (not errors or _has_error(row["properties"] or {}, errors))
            and not (without_replay and (row["properties"] or {}).get(REPLAY) == without_replay)
        )
        self._rows = sorted(found, key=lambda row: tuple(row[name] for name in ORDER))

    def count(self) -> int:
        return len(self._rows)

    def first(self, count: int) -> Sequence[Any]:
        return self._rows[:count]

    def in_order(self, count: int) -> Iterator[Any]:
        return iter(self._rows)

    def letters(self) -> Sequence[Any]:
        return [
            {
                **row,
                "origin_topic": origin_topic(row["properties"] or {}),
                "redriven_from": (row["properties"] or {}).get(REDRIVEN_FROM),
            }
            for row in self._rows
        ]


def _has_error(properties: Mapping[str, str], errors: Collection[str]) -> bool:
    """What ``LetterFilter.sql`` asks of a row: a class with or without its module, a stack hash, or a whole text."""
    error_class, text = properties.get(failure.CLASS) or "", properties.get(failure.TEXT) or ""
    reason = properties.get(names.DLQ_ERROR) or text
    stack = properties.get(failure.STACK)
    return any(error in (stack, error_class, reason, text) or error_class.endswith(f".{error}") for error in errors)
