"""What a topic contains as pages show it: history as charts, retention, what messages say they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec

from pyromq.charts import Axes, Series, Svg, line_chart
from pyromq.console.desk import Desk
from pyromq.console.history.spans import TimeSpan
from pyromq.errors import MQError, printable
from pyromq.operate.reading.retention import RetentionLimit, TopicRetention
from pyromq.operate.reading.schemas import SeenSchema
from pyromq.operate.reading.topic_history import HistoryStep, TopicHistory

HISTORY_MS: Final = 15_000  # how old a history may be: it costs many requests
ALL: Final = "all"
RANGES: Final = {**{each.value: each.label for each in TimeSpan}, ALL: "all that is kept"}
"""What the field ``range`` may say, and its words."""
_SCHEMA_QUEUES: Final = 8
_BYTES: Final = Axes(unit="bytes")


class ContentsView(msgspec.Struct, frozen=True, kw_only=True):
    """Charts are SVG, empty where there is nothing to draw; ``problem`` is why there are none."""

    span: str
    retention: TopicRetention | None
    forecast: str = ""
    messages: Svg = Svg()
    bytes: Svg = Svg()
    disk: Svg = Svg()
    is_cut: bool = False
    problem: str = ""


async def contents_view(desk: Desk, topic: str, span: str) -> ContentsView:
    """Charts and forecast of a topic; ``span`` is a key of ``RANGES``. Raises TopicNotFoundError."""
    span = span if span in RANGES else TimeSpan.DAY.value
    contents, now_ms = desk.admin.contents, desk.clock.now_ms()
    try:
        kept = await desk.cache.get(("retention", topic), HISTORY_MS, lambda: contents.retention(topic))
        oldest_ms = kept.oldest_ms or now_ms - TimeSpan.DAY.ms
        begin_ms = oldest_ms if span == ALL else now_ms - TimeSpan(span).ms
        begin_ms = min(max(begin_ms, oldest_ms), now_ms - 1_000)  # before the oldest message nothing is to be seen
        found = await desk.cache.get(
            ("history", topic, span), HISTORY_MS, lambda: contents.history(topic, begin_ms=begin_ms, end_ms=now_ms)
        )
    except MQError as error:
        return ContentsView(span=span, retention=None, problem=printable(str(error)))
    return ContentsView(
        span=span,
        retention=kept,
        forecast=forecast_text(kept),
        messages=_chart(found, "Messages a second", lambda step: step.rate),
        bytes=_chart(found, "Bytes a second", _byte_rate, _BYTES),
        disk=disk_chart(found, kept),
        is_cut=found.is_cut,
    )


def forecast_text(kept: TopicRetention) -> str:
    """Say what ends the life of a message, beside how long it is kept."""
    if kept.kept_ms is None:
        return "brokers do not say how long they keep messages"
    return "until the disk is full, at this rate" if kept.limit is RetentionLimit.DISK else "as brokers are configured"


def _byte_rate(step: HistoryStep) -> float | None:
    return None if step.bytes is None else step.bytes * 1000 / max(1, step.end_ms - step.begin_ms)


def _chart(
    history: TopicHistory, title: str, value: Callable[[HistoryStep], float | None], axes: Axes | None = None
) -> Svg:
    points = [((step.begin_ms + step.end_ms) // 2, value(step)) for step in history.steps]
    return line_chart([Series(title, points)], title, axes)


def disk_chart(history: TopicHistory, kept: TopicRetention) -> Svg:
    """What is on disk now by the time it was stored, added up; it ends at the size of today."""
    if kept.bytes is None or any(step.bytes is None for step in history.steps):
        return Svg()
    size = max(0, kept.bytes - sum(step.bytes or 0 for step in history.steps))
    points: list[tuple[int, float | None]] = [(history.steps[0].begin_ms, size)]
    for step in history.steps:
        size += step.bytes or 0
        points.append((step.end_ms, size))
    return line_chart([Series("Bytes", points)], "Bytes on disk, by the time they were stored", _BYTES)


async def topic_schemas(desk: Desk, topic: str) -> list[SeenSchema]:
    """Return what the newest messages of some queues say they are, the most frequent first; none if unreadable."""

    async def load() -> list[SeenSchema]:
        found = await desk.admin.topics.schemas(topic, queues_max=_SCHEMA_QUEUES)
        seen: Counter[tuple[str, str]] = Counter()
        for each in (each for rows in found.values() for each in rows):
            seen[each.content_type, each.schema] += each.messages
        return [SeenSchema(kind, schema, count) for (kind, schema), count in seen.most_common()]

    try:
        return await desk.cache.get(("schemas", topic), HISTORY_MS, load)
    except MQError:
        return []
