"""Lag of groups: over time where consumers wrote a trace, else now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyromq.pipeline.jobs.reporting.numbers import Lag, Point, filled, lag_of
from pyromq.pipeline.jobs.reporting.questions import GROUP, Span, per_bucket
from pyromq.pipeline.jobs.reporting.reading import Committed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def lags(
    messages: DataFrame,
    outcomes: DataFrame,
    pairs: Sequence[tuple[str, str]],
    committed: Sequence[Committed],
    span: Span,
) -> tuple[Lag, ...]:
    """Lag over time of groups in the topics they consume, up to the last message stored or handled, whichever is later.

    It is not known when a message was handled that a group has passed and the trace does not know of: traces may be
    lost, and messages that a group gave up are not behind either. Such messages do not count.
    """
    from pyspark.sql import functions as F  # noqa: N812

    done = outcomes.where("done_ms IS NOT NULL")
    both = F.array(
        F.struct(F.lit(True).alias("came"), F.col("stored_ms").alias("at")),
        F.struct(F.lit(False).alias("came"), F.greatest("done_ms", F.lit(span.begin_ms)).alias("at")),
    )
    events = done.select(*GROUP, F.explode(both).alias("event")).select(*GROUP, "event.*")
    waiting = messages.select("*", F.explode(_groups_of_topic(pairs)).alias("group")).where(_is_ahead(committed))
    waiting = waiting.join(done, ["group", "message_id"], "anti")
    events = events.unionByName(waiting.select(*GROUP, F.lit(True).alias("came"), F.col("stored_ms").alias("at")))
    counts = per_bucket(events, span, *GROUP, "came")
    whole = span._replace(end_ms=max([span.end_ms, *(at for buckets in counts.values() for at in buckets)]))

    def points(*of: object) -> tuple[Point, ...]:
        return filled(counts.get(of, {}), *whole)

    return tuple(lag_of(*pair, stored=points(*pair, True), handled=points(*pair, False)) for pair in pairs)


def lags_now(committed: Sequence[Committed]) -> tuple[Lag, ...]:
    """Lag of groups that wrote no trace: brokers know how far they are behind, and not since when."""
    behind: dict[tuple[str, str], int] = {}
    for each in committed:
        behind[each.group, each.topic] = behind.get((each.group, each.topic), 0) + each.behind
    return tuple(Lag(group=group, topic=topic, last=count, max=count) for (group, topic), count in behind.items())


def _groups_of_topic(pairs: Sequence[tuple[str, str]]) -> Column:
    """An array of those that consume the topic of a row; null for none."""
    from pyspark.sql import functions as F  # noqa: N812

    by_topic: dict[str, list[Column]] = {}
    for group, topic in pairs:
        by_topic.setdefault(topic, []).append(F.lit(group))
    entries = (part for topic, groups in by_topic.items() for part in (F.lit(topic), F.array(*groups)))
    return F.create_map(*entries)[F.col("topic")]


def _is_ahead(committed: Sequence[Committed]) -> Column:
    """Whether the group of a row has not passed its message; a group of which brokers know nothing has passed none."""
    from pyspark.sql import functions as F  # noqa: N812

    if not committed:
        return F.lit(True)
    offsets = [F.lit(part) for each in committed for part in (_place(each.group, each.topic, each.place), each.offset)]
    passed = F.create_map(*offsets)[F.concat_ws("\n", "group", "topic", "place")]
    return F.col("queue_offset") >= F.coalesce(passed, F.lit(0))


def _place(*parts: str) -> str:
    return "\n".join(parts)
