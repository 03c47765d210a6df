"""Batches of copies: many messages in one request, for those who send from executors.

A batch is a short cut and nothing else: what brokers take in no batch goes alone, and where a batch is refused or gets
no response, each of its messages is looked for and sent by itself, with the outcome that it would have had alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from pyromq.client.producer.outgoing import SEND_BATCH, OutgoingMessage
from pyromq.client.producer.raw_send import queue_for, send_raw
from pyromq.client.sync.loop_thread import Waiter
from pyromq.errors import MQError, ProtocolError
from pyromq.model.message import SendStatus
from pyromq.model.queue import QueueId
from pyromq.operate.resend.outcomes import ItemOutcome, ItemStatus
from pyromq.operate.resend.outgoing import Item, Outgoing
from pyromq.pipeline.jobs.resending.outgoing import SparkRow
from pyromq.pipeline.jobs.resending.packed import BATCH_BYTES, PackedCopy, PackedRows, sent_as
from pyromq.pipeline.jobs.resending.sending import PRODUCER, PacedSender, lanes_of
from pyromq.wire.headers.producer import SendResponseHeader
from pyromq.wire.send_statuses import SEND_STATUSES

CHUNK: Final = 1024
IN_FLIGHT: Final = 4  # chunks
BATCH_COUNT: Final = 128  # so that messages without a sharding key get to several queues
_SENT: Final = ItemOutcome(offset_message_id="", status=ItemStatus.SENT)
_BEFORE: Final = ItemOutcome(offset_message_id="", status=ItemStatus.SENT_BEFORE)
_DOUBT_S: Final = 0.5  # for what is on its way to arrive before it is looked for


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch that a broker has: how safely, in which queue, and from which offset on if the broker says so."""

    status: SendStatus
    queue: str
    first: int | None

    def placed(self, sent: Iterable[ItemOutcome]) -> Iterator[ItemOutcome]:
        """The messages of the batch, each with its place."""
        for index, each in enumerate(sent):
            offset = None if self.first is None else self.first + index
            yield msgspec.structs.replace(each, stored=self.status, to_queue=self.queue, to_offset=offset)


@dataclass(frozen=True, slots=True)
class ChunkOfRows:
    """Some rows of a record batch; ``found`` is filled while they are sent. ``others`` are those that go alone."""

    rows: PackedRows
    numbers: range
    others: Sequence[tuple[int, Item]]
    found: dict[int, ItemOutcome]

    @classmethod
    def of(
        cls, rows: PackedRows, numbers: range, item_of: Callable[[SparkRow], Item], says_places: bool
    ) -> ChunkOfRows:
        known = {number: rows.sent_before[number] for number in numbers if number in rows.sent_before}
        careful = [number for number in numbers if rows.copies[number] is None and number not in known]
        others = list(zip(careful, map(item_of, rows.rows(careful)), strict=True))
        found = {number: each for number, each in others if isinstance(each, ItemOutcome)}
        for number, mark in known.items():
            found[number] = sent_as(rows.sources[number], mark, _BEFORE.status) if says_places else _BEFORE
        return cls(rows, numbers, others, found)

    @property
    def copies(self) -> list[PackedCopy]:
        return [copy for copy in self.rows.copies[self.numbers.start : self.numbers.stop] if copy is not None]

    @property
    def has_order(self) -> bool:
        """Whether there are messages whose order counts."""
        alone = any(isinstance(each, Outgoing) and each.sharding_key for _, each in self.others)
        return alone or any(copy.key for copy in self.copies)

    @property
    def messages(self) -> int:
        return len(self.numbers) - len(self.found)

    def outcomes(self, waiter: Waiter[None]) -> Iterator[ItemOutcome]:
        """Wait for the outcomes, in the order of the rows."""
        waiter.wait()
        return map(self.found.__getitem__, self.numbers)


class CopyBatchSender(PacedSender):
    """Sends copies of rows in chunks at a rate, as batches where they are taken."""

    def send_rows(
        self, packed: Iterable[PackedRows], item_of: Callable[[SparkRow], Item], *, says_places: bool
    ) -> Iterator[ItemOutcome]:
        """Outcomes in order; chunks are on their way together unless one has messages whose order counts.

        ``item_of`` makes messages of rows that go alone. Without ``says_places`` the outcomes of copies that were sent,
        now or before, say no more than that.
        """
        under_way = deque[tuple[ChunkOfRows, Waiter[None]]]()
        for chunk in self._chunks(packed, item_of, says_places):
            most = 0 if chunk.has_order else IN_FLIGHT - 1  # on their way before it
            while len(under_way) > most:
                sent, waiter = under_way.popleft()
                yield from sent.outcomes(waiter)
            self.pace_count(chunk.messages)
            under_way.append((chunk, self.connected.begin(self._send_chunk(chunk, item_of, says_places))))
        for sent, waiter in under_way:
            yield from sent.outcomes(waiter)

    def _chunks(
        self, packed: Iterable[PackedRows], item_of: Callable[[SparkRow], Item], says_places: bool
    ) -> Iterator[ChunkOfRows]:
        size = CHUNK if self._pacer.is_open else self._pacer.chunk
        for rows in packed:
            count = len(rows.copies)
            for start in range(0, count, size):
                yield ChunkOfRows.of(rows, range(start, min(start + size, count)), item_of, says_places)

    async def _send_chunk(self, chunk: ChunkOfRows, item_of: Callable[[SparkRow], Item], says_places: bool) -> None:
        by_key: dict[tuple[str, str], list[PackedCopy]] = {}
        for copy in chunk.copies:
            by_key.setdefault((copy.mark.topic, copy.key), []).append(copy)
        by_queue: dict[QueueId, list[PackedCopy]] = {}
        parts: list[list[PackedCopy]] = []  # to any queue
        for (topic, key), copies in by_key.items():
            try:
                queue = await queue_for(self.connected.client, topic, key) if key else None
            except MQError:  # found again, tried again and reported where they go alone
                queue = None
            if queue is None:
                parts += _parted(copies)
            else:
                by_queue.setdefault(queue, []).extend(copies)

        async def in_order(queue: QueueId, copies: Iterable[PackedCopy]) -> None:
            for part in _parted(sorted(copies, key=lambda each: each.number)):
                await self._send_batch(chunk, part, item_of, says_places, queue)

        await asyncio.gather(
            self.by_lanes(lanes_of(chunk.others), chunk.found),
            *(in_order(queue, copies) for queue, copies in by_queue.items()),
            *(self._send_batch(chunk, part, item_of, says_places) for part in parts),
        )

    async def _send_batch(
        self,
        chunk: ChunkOfRows,
        part: list[PackedCopy],
        item_of: Callable[[SparkRow], Item],
        says_places: bool,
        queue: QueueId | None = None,
    ) -> None:
        try:
            stored = await self._store(queue, part)
        except MQError:
            await self._send_one_by_one(chunk, part, item_of)
            return
        if says_places:
            sent = (sent_as(chunk.rows.sources[copy.number], copy.mark) for copy in part)
            chunk.found.update(zip((copy.number for copy in part), stored.placed(sent), strict=True))
        else:
            chunk.found.update(dict.fromkeys((copy.number for copy in part), _SENT))

    async def _store(self, queue: QueueId | None, part: list[PackedCopy]) -> StoredBatch:
        client = self.connected.client
        queue = queue or await queue_for(client, part[0].mark.topic, part[0].key)
        body = b"".join([each for copy in part for each in copy.parts])
        ready = OutgoingMessage(SEND_BATCH, queue.topic, body, "", "", client.clock.now_ms(), 0)
        response = await send_raw(client, ready, queue, group=PRODUCER)
        with suppress(ProtocolError):  # a broker that does not say where they are has them all the same
            header = response.header_as(SendResponseHeader)
            return StoredBatch(SEND_STATUSES[response.code], f"{queue.broker}:{header.queue_id}", header.queue_offset)
        return StoredBatch(SEND_STATUSES[response.code], queue.broker, None)

    async def _send_one_by_one(
        self, chunk: ChunkOfRows, part: list[PackedCopy], item_of: Callable[[SparkRow], Item]
    ) -> None:
        """Messages of a batch that failed: each is looked for and, where it is not there, sent by itself."""
        await asyncio.sleep(_DOUBT_S)
        numbers = [copy.number for copy in part]
        items = zip(numbers, map(item_of, chunk.rows.rows(numbers)), strict=True)
        again = [(number, replace(each, is_checked=True)) for number, each in items if isinstance(each, Outgoing)]
        await self.by_lanes(lanes_of(again), chunk.found)
        for number in numbers:
            if chunk.found[number].status is ItemStatus.SENT_BEFORE:  # by the batch, of this run
                chunk.found[number] = chunk.found[number].ended(ItemStatus.SENT)


def _parted(copies: Iterable[PackedCopy]) -> Iterator[list[PackedCopy]]:
    part, size = list[PackedCopy](), 0
    for copy in copies:
        if part and (size + copy.size > BATCH_BYTES or len(part) >= BATCH_COUNT):
            yield part
            part, size = [], 0
        part.append(copy)
        size += copy.size
    if part:
        yield part
