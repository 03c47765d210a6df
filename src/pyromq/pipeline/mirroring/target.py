"""A queue of the cluster that gets the copies, as a mirror reads it: its newest copy, and the copy of an offset."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from pyromq.client.core.client import Client
from pyromq.client.core.received_message import ReceivedMessage, split_messages
from pyromq.model.queue import QueueId
from pyromq.operate.admin import Admin
from pyromq.pipeline.core.offsets import HeldRange, OffsetRange
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.mirroring.marks import MIRRORED_FROM, MirroredFrom, mirrored_from
from pyromq.pipeline.reading.pulls import RangeReader

_LOOK_BACK: Final = 32
_LOOK_BACK_MAX: Final = 4_096


class Copy(NamedTuple):
    """A copy and where it stands."""

    offset: int
    source: MirroredFrom


class TargetQueue:
    """Reads of one queue; every method asks the broker."""

    def __init__(self, client: Client, options: SourceOptions, queue: QueueId) -> None:
        self.queue = queue
        self._client = client
        self._options = options

    async def held(self) -> HeldRange:
        found = await Admin(client=self._client).offsets.range(self.queue)
        return HeldRange(found.min_offset, found.max_offset)

    async def copies(self, start: int, end: int) -> AsyncIterator[Copy]:
        """Copies among the messages of these offsets."""
        reader = RangeReader(self._client, self._options, OffsetRange(self.queue, start, end))
        while not reader.is_done:
            for message in self._messages(await reader.gather()):
                source = mirrored_from(message.properties.get(MIRRORED_FROM))
                if source is not None and start <= message.offset < end:
                    yield Copy(message.offset, source)

    def _messages(self, parts: list[bytes]) -> list[ReceivedMessage]:
        return split_messages(b"".join(parts), self.queue.broker)

    async def newest(self) -> Copy | None:
        """The last copy of the queue; None where it has none. Messages of others behind it are passed over."""
        held = await self.held()
        end, count = held.end, _LOOK_BACK
        while end > held.first:
            start = max(held.first, end - count)
            found = [copy async for copy in self.copies(start, end)]
            if found:
                return found[-1]
            end, count = start, min(2 * count, _LOOK_BACK_MAX)
        return None

    async def offset_of(self, source: QueueId, offset: int, newest: Copy) -> int:
        """Where a group goes on here that stands at ``offset`` there: at the first copy from that offset on, or behind
        the newest copy."""
        if offset > newest.source.offset:
            return newest.offset + 1
        held = await self.held()
        guess = newest.offset - (newest.source.offset - offset)  # exact where each message has one copy and no others
        if guess >= held.first:
            found = await self._first_copy(source, guess, guess + 1)
            if found is not None and found.source.offset == offset:
                return guess
        low, high = held.first, newest.offset
        while low < high:  # the copies are in the order of their messages
            middle = (low + high) // 2
            copy = await self._first_copy(source, middle, newest.offset + 1) or newest
            if copy.source.offset >= offset:
                high = middle
            else:
                low = copy.offset + 1
        return (await self._first_copy(source, low, newest.offset + 1) or newest).offset

    async def _first_copy(self, source: QueueId, start: int, end: int) -> Copy | None:
        while start < end:
            behind = min(end, start + _LOOK_BACK)
            async for copy in self.copies(start, behind):
                if copy.source.is_of(source):
                    return copy
            start = behind
        return None
