"""Batches of copies: many messages in one request, for those who send from executors.

A batch is a short cut and nothing else: what brokers take in no batch goes alone, and where a batch is refused or gets
no response, each of its messages is looked for and sent by itself, with the outcome that it would have had alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from pyromq.client.producer.outgoing import SEND_BATCH, OutgoingMessage
from pyromq.client.producer.raw_send import queue_for, send_raw
from pyromq.client.sync.loop_thread import Waiter
from pyromq.errors import MQError, ProtocolError
from pyromq.model import property_names as names
from pyromq.model.names import RETRY_PREFIX
from pyromq.model.queue import QueueId
from pyromq.operate.resend.outcomes import ItemOutcome, ItemStatus
from pyromq.operate.resend.outgoing import Item, Outgoing
from pyromq.pipeline.jobs.common.bars import Tell, silent
from pyromq.pipeline.jobs.resending.sending import PRODUCER, Lane, PacedSender, chunks, lanes_of
from pyromq.wire.batch import ITEM_OVERHEAD_BYTES, BatchItem, encode_batch
from pyromq.wire.headers.producer import SendResponseHeader
from pyromq.wire.properties import PROPERTIES_BYTES_MAX
from pyromq.wire.property_text import encode_text, join_items
from pyromq.wire.send_statuses import SEND_STATUSES

CHUNK: Final = 1024
IN_FLIGHT: Final = 4  # chunks
BATCH_BYTES: Final = 256 << 10
BATCH_COUNT: Final = 128  # so that messages without a sharding key get to several queues
_DOUBT_S: Final = 0.5  # for what is on its way to arrive before it is looked for


@dataclass(frozen=True, slots=True)
class ChunkUnderWay:
    """A chunk that is being sent; ``found`` is filled meanwhile."""

    chunk: Sequence[Item]
    found: dict[int, ItemOutcome]
    waiter: Waiter[None] | None

    def outcomes(self) -> Iterator[ItemOutcome]:
        """Wait for the outcomes, in the order of the items."""
        if self.waiter is not None:
            self.waiter.wait()
        for number, each in enumerate(self.chunk):
            yield each if isinstance(each, ItemOutcome) else self.found[number]


class BatchSender(PacedSender):
    """Sends copies in chunks at a rate, as batches where they are taken."""

    @property
    def chunk(self) -> int:
        return CHUNK if self._pacer.is_open else self._pacer.chunk

    def send_all(
        self,
        messages: Iterable[Item],
        *,
        done: int = 0,
        total: int | None = None,
        tell: Tell = silent,
    ) -> Iterator[ItemOutcome]:
        """Outcomes in order; chunks are on their way together unless one has messages whose order counts."""
        under_way = deque[ChunkUnderWay]()
        for chunk in chunks(messages, self.chunk):
            waits = any(isinstance(each, Outgoing) and each.sharding_key for each in chunk)
            while under_way and (waits or len(under_way) >= IN_FLIGHT):
                yield from under_way.popleft().outcomes()
            self.pace(chunk)
            under_way.append(self._begun(chunk))
            done += len(chunk)
            tell(done, total)
        while under_way:
            yield from under_way.popleft().outcomes()

    def _begun(self, chunk: Sequence[Item]) -> ChunkUnderWay:
        found: dict[int, ItemOutcome] = {}
        lanes = lanes_of(enumerate(chunk))
        return ChunkUnderWay(chunk, found, self.connected.begin(self._send_lanes(lanes, found)) if lanes else None)

    async def _send_lanes(self, lanes: Iterable[Lane], found: dict[int, ItemOutcome]) -> None:
        alone: list[Lane] = []
        by_queue: dict[tuple[str, QueueId | None], Lane] = {}
        for lane in lanes:
            if not all(_fits_batches(message) for _, message in lane):
                alone.append(lane)
                continue
            message = lane[0][1]
            try:
                key = message.sharding_key
                queue = await queue_for(self.connected.client, message.topic, key) if key else None
            except MQError:  # found again, tried again and told where it goes alone
                alone.append(lane)
                continue
            by_queue.setdefault((message.topic, queue), []).extend(lane)
        await asyncio.gather(
            self.by_lanes(alone, found),
            *(self._send_to(queue, messages, found) for (_, queue), messages in by_queue.items()),
        )

    async def _send_to(self, queue: QueueId | None, messages: Lane, found: dict[int, ItemOutcome]) -> None:
        """To a queue in order, one request after the other; to any queue all at once."""
        if queue is None:
            await asyncio.gather(*(self._ship(queue, part, found) for part in _parted(messages)))
            return
        for part in _parted(sorted(messages, key=lambda each: each[0])):
            await self._ship(queue, part, found)

    async def _ship(self, queue: QueueId | None, part: Lane, found: dict[int, ItemOutcome]) -> None:
        try:
            found.update(await self._send_batch(queue, part))
        except MQError:
            await asyncio.sleep(_DOUBT_S)
            again = [(number, replace(message, is_checked=True)) for number, message in part]
            await self.by_lanes(lanes_of(again), found)
            for number, _ in part:
                if found[number].status is ItemStatus.SENT_BEFORE:  # by the batch, of this run
                    found[number] = found[number].ended(ItemStatus.SENT)

    async def _send_batch(self, queue: QueueId | None, part: Lane) -> dict[int, ItemOutcome]:
        client = self.connected.client
        queue = queue or await queue_for(client, part[0][1].topic)
        body = encode_batch(
            BatchItem(message.body, encode_text(join_items(message.properties)), message.flag) for _, message in part
        )
        ready = OutgoingMessage(SEND_BATCH, queue.topic, body, "", "", client.clock.now_ms(), 0)
        response = await send_raw(client, ready, queue, group=PRODUCER)
        stored, first = SEND_STATUSES[response.code], None
        place = queue.broker
        with suppress(ProtocolError):  # a broker that does not say where they are has them all the same
            told = response.header_as(SendResponseHeader)
            place, first = f"{queue.broker}:{told.queue_id}", told.queue_offset
        return {
            number: msgspec.structs.replace(
                message.source, status=ItemStatus.SENT, stored=stored, to_queue=place,
                to_offset=None if first is None else first + index,
            )
            for index, (number, message) in enumerate(part)
        }  # fmt: skip


def _fits_batches(message: Outgoing) -> bool:
    """Whether a message may travel with others: not one that is looked for first, nor what brokers take alone only."""
    return not (
        message.is_checked
        or message.sys_flag
        or message.topic.startswith(RETRY_PREFIX)
        or any(name == names.PRIORITY for name, _ in message.properties)
        or _item_bytes(message) > min(BATCH_BYTES, PROPERTIES_BYTES_MAX + len(message.body))
    )


def _item_bytes(message: Outgoing) -> int:
    texts = sum(len(name) + len(value) + 2 for name, value in message.properties)
    return ITEM_OVERHEAD_BYTES + len(message.body) + 3 * texts  # as UTF-8 at most


def _parted(messages: Lane) -> Iterator[Lane]:
    part, size = Lane(), 0
    for number, message in messages:
        more = _item_bytes(message)
        if part and (size + more > BATCH_BYTES or len(part) >= BATCH_COUNT):
            yield part
            part, size = Lane(), 0
        part.append((number, message))
        size += more
    if part:
        yield part
