"""What a report asks, answered by Spark: messages are read once and kept there while the questions are asked."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from pyromq.pipeline.jobs.common.bars import Step
from pyromq.pipeline.jobs.common.selection import Selection
from pyromq.pipeline.jobs.reporting import questions
from pyromq.pipeline.jobs.reporting.lags import lags
from pyromq.pipeline.jobs.reporting.numbers import AttemptCount, DeadCause
from pyromq.pipeline.jobs.reporting.reading import (
    committed_offsets,
    dead_causes,
    messages_frame,
    retried,
    trace_frame,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkFacts:
    """``close`` gives back what Spark keeps of the messages."""

    def __init__(self, spark: SparkSession, reading: Selection, trace_topic: str) -> None:
        self._spark = spark
        self._reading = reading
        self._messages = messages_frame(spark, reading).persist()
        self._trace = trace_frame(spark, reading, trace_topic)
        self.has_trace = self._trace is not None

    def close(self) -> None:
        self._messages.unpersist()

    def about_messages(self, step: Step) -> tuple[dict[str, Any], questions.Span]:
        topics, latencies, span = questions.storing(self._messages)
        step(1, "throughput")
        throughput = questions.throughput(self._messages, topics, span)
        step(2, "duplicates")
        duplicates, duplicate_keys = questions.duplicates(self._messages)
        return {
            "throughput": throughput, "latencies": latencies, "duplicates": duplicates,
            "duplicate_keys": duplicate_keys,
        }, span  # fmt: skip

    def about_consumers(self, topics: Collection[str], span: questions.Span, step: Step) -> dict[str, Any]:
        assert self._trace is not None
        deliveries = questions.deliveries_frame(self._messages, self._trace).persist()
        outcomes = questions.outcomes_frame(deliveries).persist()
        try:
            step(3, "latencies")
            latencies, twice = questions.consuming(deliveries, outcomes)
            attempts, slow_keys = questions.attempts(deliveries), questions.slow_keys(deliveries)
            step(4, "lag")
            committed = committed_offsets(self._reading, sorted({each.group for each in latencies}), topics)
            pairs = {(each.group, each.topic) for each in latencies} | {(each.group, each.topic) for each in committed}
            behind = lags(self._messages, outcomes, sorted(pairs), committed, span) if pairs else ()
        finally:
            outcomes.unpersist()
            deliveries.unpersist()
        return {
            "latencies": latencies, "handled_twice": twice, "attempts": attempts, "slow_keys": slow_keys,
            "lags": behind,
        }  # fmt: skip

    def retried(self, groups: Sequence[str]) -> tuple[AttemptCount, ...]:
        return retried(self._spark, self._reading, groups)

    def dead_causes(self, groups: Collection[str]) -> tuple[DeadCause, ...]:
        return dead_causes(self._spark, self._reading, groups)
