"""Streaming queries of jobs: triggers, ends, interrupts, counts, errors in words."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException

from pyromq.pipeline.jobs.common.errors import FormatMissingError, JobFailedError
from pyromq.pipeline.jobs.common.queries import drain, drain_all, offsets_read, rows_read, translated, trigger_of


def test_errors_of_spark_are_told_in_their_own_words() -> None:
    raised = "pyromq.client.core.errors.TopicNotFoundError: no topic t"
    trace = f"[X] Y\nTraceback (most recent call last):\n  File x\n{raised}\n at z"
    assert str(translated(trace)) == "no topic t"
    alone = (
        f"[PYTHON_DATA_SOURCE_ERROR] Failed when Python data source instance raises an error: {raised}\n SQLSTATE: 1"
    )
    assert str(translated(alone)) == "no topic t"
    assert isinstance(translated("[UNRESOLVED] nothing\nat x"), JobFailedError)
    assert str(translated("[UNRESOLVED] nothing\nat x")) == "[UNRESOLVED] nothing"
    missing = translated("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta. Make sure")
    assert isinstance(missing, FormatMissingError) and "io.delta" in str(missing)


class RunningQuery:
    """A query that goes on until it is stopped; Ctrl-C comes at the third look."""

    def __init__(self) -> None:
        self.isActive, self.looks = True, 0

    @property
    def recentProgress(self) -> list[dict[str, Any]]:  # noqa: N802
        return [{"batchId": number, "numInputRows": 10} for number in range(self.looks)]

    def awaitTermination(self, timeout: float) -> bool:  # noqa: N802
        self.looks += 1
        if self.looks == 3:
            raise KeyboardInterrupt
        return False

    def stop(self) -> None:
        self.isActive = False


def test_an_interrupt_ends_an_endless_query_in_order_and_any_other_with_the_interrupt() -> None:
    endless, other = RunningQuery(), RunningQuery()
    told: list[int] = []
    assert drain(cast(Any, endless), lambda done, total=None, text="": told.append(done), endless=True) == 30
    assert told == [10, 20, 30] and not endless.isActive
    with pytest.raises(KeyboardInterrupt):
        drain(cast(Any, other))
    assert not other.isActive


def test_an_interrupt_ends_all_endless_queries() -> None:
    queries = RunningQuery(), RunningQuery()
    assert drain_all(cast(Any, queries), endless=True) == [30, 20]
    assert not any(query.isActive for query in queries)


def test_a_query_that_fails_beside_an_endless_one_is_told_and_stops_it() -> None:
    class FailingQuery(RunningQuery):
        def awaitTermination(self, timeout: float) -> bool:  # noqa: N802
            self.isActive = False
            raise PySparkException("[X] no room left")

    endless = RunningQuery()
    with pytest.raises(JobFailedError, match="no room left"):
        drain_all(cast(Any, [endless, FailingQuery()]), endless=True)
    assert not endless.isActive and endless.looks == 1


def test_rows_and_messages_of_a_batch_are_counted_as_every_spark_tells_them() -> None:
    start, end = {"t": {"b": {"0": 3, "1": 5}}}, {"t": {"b": {"0": 7, "1": 5, "2": 9}}}  # queue 2 was only noted
    source = {"numInputRows": 2, "startOffset": start, "endOffset": json.dumps(end)}
    here, there = {"numInputRows": 4, "sources": [source]}, {"numInputRows": None, "sources": [source, source]}
    assert (rows_read(here), rows_read(there)) == (4, 4)
    assert offsets_read(here) == 4
    assert offsets_read({"sources": [{"startOffset": None, "endOffset": "7"}]}) == 0, "not our source"


def test_a_query_ends_unless_it_follows() -> None:
    assert trigger_of(None) == {"availableNow": True}
    assert trigger_of(0.5) == {"processingTime": "500 milliseconds"}
