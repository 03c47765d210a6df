"""OwnedQueue: a queue from the moment it is taken to its release, with its buffer and where pulling stands.

Its states and what may follow what are tables in ``rules.queue_state`` (read that first: it defines the terms). This
class is the only writer of them. Each event is a method; this is what reports it:

    event            told by                                                          changes
    (made)           OwnedQueues, when a rebalance took the queue                     OWNED
    lock.granted     OwnedQueues, when it is taken and at every renewal               lock HELD
    lock.lost        OwnedQueues, when a renewal is refused or late                   lock LOST
    revoke, keep     OwnedQueues, for the Rebalancer                                  OWNED ⇄ REVOKED
    abandon          OwnedQueues: lock lost, or the offset was moved                  ABANDONED
    release          OwnedQueues, when no listener works on it; at the end            RELEASED
    pause, resume    the consumer, for the application                                paused
    begin_run, rest, end_run, end_rest      OrderlyService                            RUNNING, RESTING, IDLE
"""

from __future__ import annotations

import asyncio
from typing import Final

from pyromq.client.consumer.base.consume_stats import TopicCounts
from pyromq.client.consumer.rules.pull_state import PullSettings, PullState
from pyromq.client.consumer.rules.queue_buffer import QueueBuffer
from pyromq.client.consumer.rules.queue_lock import QueueLock
from pyromq.client.consumer.rules.queue_state import (
    COUNTS_VERDICTS,
    HANDS_OUT,
    OWNERSHIP,
    RUN,
    Ownership,
    OwnershipEvent,
    RunEvent,
    RunState,
    after,
)
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.clock import Clock
from pyromq.model.queue import QueueId
from pyromq.waiting import set_within

_BUNCH: Final = 32


class OwnedQueue:
    """One life of a queue at this member; granted again it is a new one. The loop owns it."""

    def __init__(self, queue: QueueId, start: int, clock: Clock, settings: PullSettings, counts: TopicCounts) -> None:
        self.queue = queue
        self.counts = counts
        self.lock = QueueLock(clock)  # stays free where a consumer uses no locks
        self.ownership = Ownership.OWNED
        self.run_state = RunState.IDLE
        self.is_paused = False  # by the application
        # what follows from the three above, kept beside them because it is asked for every batch; ``_derive`` writes it
        self.may_hand_out = True
        self.is_ours = True  # verdicts of listeners count
        self.is_released = False

        self.buffer: QueueBuffer[ReceivedMessage] = QueueBuffer(clock)  # as of the last ``settle``
        self.take = self.buffer.take  # the next messages for a listener
        self._finished: list[ReceivedMessage] = []  # the buffer hears of them at the next ``settle``

        self.pull = PullState(start, clock, settings)
        self._pulling: asyncio.Task[None] | None = None  # the pull loop
        self.pulled_at: str | None = None  # the address that was asked last; the puller writes it
        self.is_held = False  # the pull loop waits
        self._changed = asyncio.Event()  # ends its wait
        self.newest_ms = clock.now_ms()  # when the newest message that was seen here was stored; the puller writes it

        self.run: asyncio.Task[None] | None = None  # of an orderly consumer, while it is RUNNING
        self.unlocks_tried = 0  # how often a listener that was still busy kept the queue from being released
        self.position = start  # of a pull consumer: handed out up to here; PollQueue writes it
        self.done = start  # of a pull consumer: known to be dealt with up to here; PollQueue writes it

    def __repr__(self) -> str:
        return f"<OwnedQueue {self.queue.topic} {self.queue.broker} {self.queue.number} {self.ownership.value}>"

    # --- ownership ---

    def revoke(self) -> None:
        """Another member shall have it: nothing more is handed out, what listeners have may end."""
        self._own(OwnershipEvent.REVOKED)

    def keep(self) -> None:
        """Keep a queue that was to be revoked."""
        self._own(OwnershipEvent.KEPT)
        self.changed()

    def abandon(self) -> None:
        """It is given up for good: what listeners say of its messages does not count any more."""
        self._own(OwnershipEvent.ABANDONED)

    def release(self) -> None:
        """It is not ours any more: nothing is committed from now on, and pulling ends."""
        self.settle().close()
        self._own(OwnershipEvent.RELEASED)
        self.stop_pulling()
        self.changed()

    def note_busy(self) -> None:
        """It was to be released, and its listener is not done."""
        self.unlocks_tried += 1

    def _own(self, event: OwnershipEvent) -> None:
        self.ownership = after(OWNERSHIP, self.ownership, event)
        self._derive()

    def _derive(self) -> None:
        self.may_hand_out = self.ownership in HANDS_OUT and not self.is_paused
        self.is_ours = self.ownership in COUNTS_VERDICTS
        self.is_released = self.ownership is Ownership.RELEASED

    # --- pausing ---

    def pause(self) -> None:
        self.is_paused = True
        self._derive()

    def resume(self) -> None:
        self.is_paused = False
        self._derive()
        self.changed()

    # --- runs of an orderly consumer ---

    def begin_run(self, run: asyncio.Task[None]) -> None:
        self.run_state = after(RUN, self.run_state, RunEvent.BEGUN)
        self.run = run

    def rest(self) -> None:
        """A message failed: the run ends, and no other begins before ``end_rest``."""
        self.run_state = after(RUN, self.run_state, RunEvent.FAILED)

    def end_run(self) -> None:
        """The task is done, whether the queue rests now or not."""
        self.run = None
        if self.run_state is not RunState.RESTING:
            self.run_state = after(RUN, self.run_state, RunEvent.ENDED)

    def end_rest(self) -> None:
        self.run_state = after(RUN, self.run_state, RunEvent.RESTED)

    # --- messages ---

    def settle(self) -> QueueBuffer[ReceivedMessage]:
        """Tells the buffer what listeners have finished, and returns it: up to date from now on."""
        if self._finished:
            finished, self._finished = self._finished, []
            if late := self.buffer.consumed(finished):
                self.counts.ok -= late
                self.counts.late += late
        return self.buffer

    def succeeded(self, messages: list[ReceivedMessage], seconds: float, messages_max: int) -> None:
        """A listener is done with these: noted in bunches, as that costs half."""
        counts, count, finished = self.counts, len(messages), self._finished
        counts.ok += count
        counts.consume_s += seconds * count
        finished += messages
        if len(finished) >= _BUNCH or len(finished) * 4 >= messages_max:
            self.made_room(messages_max)

    # --- pulling ---

    def pulled_by(self, task: asyncio.Task[None]) -> None:
        """From now on this is its pull loop."""
        self._pulling = task

    def stop_pulling(self) -> None:
        """A response that is on its way is not looked at any more."""
        if self._pulling is not None:
            self._pulling.cancel()

    def seek(self, offset: int) -> None:
        """Goes on elsewhere, as soon as there is a pull loop again; what was pulled is forgotten."""
        self.stop_pulling()
        self.settle().clear()
        self.pull.seek(offset)
        self.position = offset
        self.done = offset

    async def hold(self, wait_ms: int) -> None:
        """The pull loop waits until something changes, but not longer."""
        self.is_held = True
        self._changed.clear()
        try:
            await set_within(self._changed, wait_ms / 1000)
        finally:
            self.is_held = False

    def changed(self) -> None:
        """Kept, resumed, released: a pull loop that holds looks again."""
        self._changed.set()

    def made_room(self, messages_max: int) -> None:
        """Messages left the buffer; a pull that flow control held back goes on at half of what is allowed."""
        if len(self.settle()) * 2 <= messages_max and self.is_held:
            self._changed.set()
