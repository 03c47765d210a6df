"""A queue while it is ours: its buffer, where pulling stands, and what keeps its messages from being handed out."""

from __future__ import annotations

import asyncio
from typing import Final

from pyromq.client.consumer.base.consume_stats import TopicCounts
from pyromq.client.consumer.rules.pull_state import PullSettings, PullState
from pyromq.client.consumer.rules.queue_buffer import QueueBuffer
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.clock import Clock
from pyromq.model.queue import QueueId

_BUNCH: Final = 32


class OwnedQueue:
    """From the grant of a queue to its release; granted again it is a new one. The loop owns it."""

    def __init__(self, queue: QueueId, start: int, clock: Clock, settings: PullSettings, counts: TopicCounts) -> None:
        self.queue = queue
        self.counts = counts
        self._buffer: QueueBuffer[ReceivedMessage] = QueueBuffer(clock)
        self.take = self._buffer.take  # the next messages for a listener
        self._finished: list[ReceivedMessage] = []  # the buffer hears of them when somebody looks at it
        self.pull = PullState(start, clock, settings)
        self.pulling: asyncio.Task[None] | None = None
        self.paused = False  # by the application
        self.stopping = False  # to be released as soon as the listeners that have its messages are done
        self.abandoned = False  # the same, but for good
        self.is_listed = False  # in the line of queues with messages; the line's owner sets it
        self.batches_out = 0  # with listeners
        self.run: asyncio.Task[None] | None = None  # of an orderly consumer
        self.is_resting = False  # an orderly listener failed
        self.start_offset = self.position = self.done = start  # handed out up to; known to be dealt with up to
        self.newest_ms = clock.now_ms()  # when the newest message that was seen here was stored
        self._changed = asyncio.Event()
        self.is_held = False  # the pull loop waits

    def __repr__(self) -> str:
        return f"<OwnedQueue {self.queue.topic} {self.queue.broker} {self.queue.number}>"

    @property
    def is_silent(self) -> bool:
        """Whether its messages must stay where they are."""
        return self.paused or self.stopping or self.abandoned or self._buffer.dropped

    # --- messages ---

    @property
    def buffer(self) -> QueueBuffer[ReceivedMessage]:
        """Up to date whenever it is looked at."""
        if self._finished:
            finished, self._finished = self._finished, []
            if late := self._buffer.consumed(finished):
                self.counts.ok -= late
                self.counts.late += late
        return self._buffer

    def succeeded(self, messages: list[ReceivedMessage], seconds: float, messages_max: int) -> None:
        """A listener is done with these: noted in bunches, as that costs half."""
        self.batches_out -= 1
        counts, count, finished = self.counts, len(messages), self._finished
        counts.ok += count
        counts.consume_s += seconds * count
        finished += messages
        if len(finished) >= _BUNCH or len(finished) * 4 >= messages_max:
            self.made_room(messages_max)

    def drop(self) -> None:
        """Nothing is committed from now on, and pulling ends."""
        self.buffer.dropped = True
        self.stop_pulling()
        self.changed()

    def stop_pulling(self) -> None:
        """An answer that is on its way is not looked at any more."""
        if self.pulling is not None:
            self.pulling.cancel()

    # --- waiting of the pull loop ---

    async def hold(self, wait_ms: int) -> None:
        """Until something changes, but not longer."""
        self.is_held = True
        self._changed.clear()
        try:
            async with asyncio.timeout(wait_ms / 1000):
                await self._changed.wait()
        except TimeoutError:
            pass
        finally:
            self.is_held = False

    def changed(self) -> None:
        """Paused, resumed, seeked: whoever holds looks again."""
        self._changed.set()

    def made_room(self, messages_max: int) -> None:
        """Messages left the buffer; a pull that flow control held back goes on at half of what is allowed."""
        if len(self.buffer) * 2 <= messages_max and self.is_held:
            self._changed.set()
