"""History of a topic: how many messages and bytes were stored in each stretch of time, from the queues themselves.

Brokers find the offset of a time (29 SEARCH_OFFSET_BY_TIMESTAMP), so what is still stored is also a record of when it
came: no samples have to be kept, and it works on Apache's clusters. What retention deleted is not in it.

    times      t0      t1      t2            offsets of each queue at each time;
    offsets    7 ────▶ 19 ───▶ 19            a step has their differences: 12 messages, then none

Sizes come from entries of consume queues, a few in each step, so bytes are an estimate. Requests are bounded: with many
queues there are fewer steps, and beyond ``QUEUES_MAX`` queues those that were written to last are read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from pyromq.client.admin.requests import AdminRequests
from pyromq.errors import MQError
from pyromq.model.queue import QueueId
from pyromq.wire.headers.admin import QueryConsumeQueueHeader
from pyromq.wire.json.bodies import TopicOffset

STEPS: Final = 60
QUEUES_MAX: Final = 100
_REQUESTS_MAX: Final = 600
_STEPS_MIN: Final = 6
_AT_ONCE: Final = 32
_ENTRIES: Final = 16  # whose sizes are looked at, in each step


class HistoryStep(msgspec.Struct, frozen=True, kw_only=True):
    """What was stored in [begin_ms, end_ms) and is still there; ``bytes`` is None where brokers do not tell sizes."""

    begin_ms: int
    end_ms: int
    messages: int
    bytes: int | None = None

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages * 1000 / max(1, self.end_ms - self.begin_ms)


class TopicHistory(msgspec.Struct, frozen=True, kw_only=True):
    """Steps in order. ``is_cut``: the topic has more queues than were read."""

    topic: str
    steps: tuple[HistoryStep, ...]
    before: int = 0
    """Messages that are older than the first step."""
    is_cut: bool = False


class HistoryReader:
    """Reads histories with requests to brokers, some of them at the same time."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def read(
        self, topic: str, queues: dict[QueueId, TopicOffset], begin_ms: int, end_ms: int, steps: int
    ) -> TopicHistory:
        """Return the history of [begin_ms, end_ms). Raises MQError."""
        filled = {queue: held for queue, held in queues.items() if held.max_offset > held.min_offset}
        newest_first = sorted(filled, key=lambda queue: -filled[queue].last_update_timestamp)
        read = newest_first[:QUEUES_MAX]
        count = max(1, min(steps, max(_STEPS_MIN, _REQUESTS_MAX // max(1, len(read)))))
        times = moments(begin_ms, end_ms, count)
        rows = await asyncio.gather(*[self._offsets(queue, filled[queue], times) for queue in read])
        offsets = dict(zip(read, rows, strict=True))
        found = await asyncio.gather(*[self._step(times, number, offsets) for number in range(count)])
        before = sum(row[0] - filled[queue].min_offset for queue, row in offsets.items())
        return TopicHistory(topic=topic, steps=tuple(found), before=before, is_cut=len(read) < len(filled))

    async def _offsets(self, queue: QueueId, held: TopicOffset, times: Sequence[int]) -> list[int]:
        """Return the first offset of each time or later, never less than the one before."""
        found = await asyncio.gather(*[self._offset(queue, held, time_ms) for time_ms in times])
        rising, least = [], held.min_offset
        for offset in found:
            least = max(least, min(offset, held.max_offset))
            rising.append(least)
        return rising

    async def _offset(self, queue: QueueId, held: TopicOffset, time_ms: int) -> int:
        if held.last_update_timestamp and time_ms > held.last_update_timestamp:
            return held.max_offset
        async with self._turns:
            return await self._requests.brokers.offset_at(queue, time_ms)

    async def _step(self, times: Sequence[int], number: int, offsets: dict[QueueId, list[int]]) -> HistoryStep:
        counts = {queue: row[number + 1] - row[number] for queue, row in offsets.items()}
        messages = sum(counts.values())
        step = HistoryStep(begin_ms=times[number], end_ms=times[number + 1], messages=messages, bytes=0)
        if not messages:
            return step
        fullest = max(counts, key=lambda queue: counts[queue])
        size = await self.entry_bytes(fullest, offsets[fullest][number], counts[fullest])
        return msgspec.structs.replace(step, bytes=None if size is None else round(messages * size))

    async def entry_bytes(self, queue: QueueId, offset: int, count: int) -> float | None:
        """Return the mean size in the log of messages from an offset on; None where the broker does not tell."""
        header = QueryConsumeQueueHeader(
            topic=queue.topic, queue_id=queue.number, index=offset, count=max(1, min(count, _ENTRIES))
        )
        try:
            async with self._turns:
                entries = (await self._requests.brokers.queue_entries(queue.broker, header)).queue_data
        except MQError:
            return None
        return sum(each.physic_size for each in entries) / len(entries) if entries else None


def moments(begin_ms: int, end_ms: int, count: int) -> list[int]:
    """Return ``count + 1`` moments that part a stretch of time evenly."""
    end_ms = max(end_ms, begin_ms + count)
    return [begin_ms + (end_ms - begin_ms) * number // count for number in range(count + 1)]
