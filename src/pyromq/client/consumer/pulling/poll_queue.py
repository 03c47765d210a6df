"""Poll queue: messages on their way to ``poll``, one batch of each queue after the other, and how far each has come.

    buffer ──take──▶ handed out: ``position`` is behind it ──settle──▶ dealt with: ``done`` is behind it too

Whatever was handed out has left the buffer, for flow control counts what was not handed out yet.
"""

from __future__ import annotations

import asyncio
from collections import deque

from pyromq.client.consumer.base.owned_queue import OwnedQueue
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.model.queue import Offset, QueueId


class PollQueue:
    """One per pull consumer; the loop owns it."""

    def __init__(self, messages_max: int) -> None:
        self._messages_max = messages_max
        self._line: deque[OwnedQueue] = deque()  # queues with messages
        self._listed: set[OwnedQueue] = set()  # those in the line
        self._out: set[OwnedQueue] = set()  # queues whose messages the application works on
        self._repeated: set[OwnedQueue] = set()  # some of what was handed out last is not done, nor ever will be
        self.news = asyncio.Event()

    def listed(self, owned: OwnedQueue) -> None:
        """The queue has messages, or may give them out again."""
        if owned not in self._listed:
            self._listed.add(owned)
            self._line.append(owned)
            self.news.set()

    def next(self, count: int) -> list[ReceivedMessage]:
        """Messages of the next queue in line; empty when there are none."""
        while self._line:
            owned = self._line.popleft()
            batch = owned.take(count) if owned.may_hand_out else []
            if not batch:
                self._listed.discard(owned)
                continue
            self._line.append(owned)
            owned.buffer.consumed(batch)
            owned.position = batch[-1].offset + 1 if len(owned.buffer) else owned.pull.offset
            if owned.is_held:
                owned.made_room(self._messages_max)
            self._out.add(owned)
            self._repeated.discard(owned)
            return batch
        return []

    def settle(self) -> dict[QueueId, int]:
        """What was handed out is dealt with; returns how far that is, for queues that are still ours."""
        settled: dict[QueueId, int] = {}
        for owned in self._out:
            owned.done = owned.position
            if not owned.is_released:
                settled[owned.queue] = owned.done
        self._out.clear()
        return settled

    def reached(self, owned: OwnedQueue, offset: Offset) -> bool:
        """All before was filtered out, or is not in the queue any more; True when what came before is dealt with."""
        if owned in self._repeated:
            return False
        owned.position = offset
        if owned in self._out:
            return False
        owned.done = offset
        return True

    def repeat(self, owned: OwnedQueue, offset: int) -> None:
        """From this offset on, what was handed out of a queue is not dealt with, whatever is filtered out behind it."""
        owned.position = offset
        self._repeated.add(owned)

    def repeat_all(self) -> None:
        """Nothing of what was handed out last is dealt with."""
        self._repeated |= self._out
        self._out.clear()

    def forget(self, owned: OwnedQueue) -> None:
        """The queue goes on elsewhere."""
        self._out.discard(owned)
        self._repeated.discard(owned)
