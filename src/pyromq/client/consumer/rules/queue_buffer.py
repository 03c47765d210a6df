"""QueueBuffer: messages of one queue between pull response and finished listener (RocketMQ: ProcessQueue).

    add ──▶ waiting ──take──▶ taken ──consumed / commit_taken──▶ gone
               ▲                │                                 ▲
               ├── put_back ────┤                                 │
               └── put_back ── leaving (failed or too late) ── finish

Invariant: the offset given out for committing never passes a message that is not gone. When all are gone, it is where
pulling stands: behind the largest offset ever added, and behind what was filtered out after that.

A verdict counts as long as its message is taken, and the same object as when it was taken: a listener that was given up
on says nothing any more, even if the message was put back meanwhile and another listener has it.

Owner. The event loop owns a buffer: every method is called from the loop's thread and none of them waits. Listeners on
worker threads get the list that ``take`` made and nothing else; what they return goes back to the loop first.

Times are monotonic milliseconds. A consume timeout counts from ``take``, so take only when a worker is free.
Every call costs O(1) per message, amortised; a sort of what waits is the price of messages that come out of order, or
are put back behind others that wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from operator import attrgetter, lt
from typing import Final, Generic

from pyromq.client.consumer.rules.buffer_state import BufferState, Head, Stage
from pyromq.client.consumer.rules.message_protocol import PulledT
from pyromq.clock import Clock
from pyromq.model.queue import Offset

BATCH_MAX: Final = 1024

_offset_of = attrgetter("offset")
_size_of = attrgetter("size_bytes")


class QueueBuffer(Generic[PulledT]):
    """One life of a queue at this member: a queue that is given up and granted again gets a new buffer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._messages: dict[int, PulledT] = {}  # everything that is not gone, by offset
        self._offsets: deque[int] = deque()  # ascending; those that are gone leave when they reach the front
        self._waiting: deque[PulledT] = deque()  # ascending; may hold messages that went without being taken
        self._taken: dict[int, int] = {}  # offset → when; the oldest first
        self._leaving: set[int] = set()  # on their way back to a broker, or resting before they wait again
        self._last_offset = -1
        self._reached = 0  # what lies before it was added, or is not wanted
        self._size_bytes = 0
        self._is_closed = False  # the queue was released: there is nothing to commit from then on
        self.last_consumed_ms = clock.monotonic_ms()

    # --- filling ---------------------------------------------------------------------------------------------------

    def add(self, messages: Sequence[PulledT]) -> int:
        """Messages of one pull response; returns how many are new, as what is here already is passed over."""
        offsets = list(map(_offset_of, messages))
        if not offsets:
            return 0
        if offsets[0] > self._last_offset and all(map(lt, offsets, offsets[1:])):
            self._messages.update(zip(offsets, messages, strict=True))
            self._waiting.extend(messages)
            self._offsets.extend(offsets)
            self._last_offset = offsets[-1]
        else:
            messages = self._add_out_of_order(messages)
        self._size_bytes += sum(map(_size_of, messages))
        return len(messages)

    def reach(self, offset: int) -> None:
        """Everything before this offset was added, or filtered out."""
        self._reached = offset

    def _add_out_of_order(self, messages: Sequence[PulledT]) -> list[PulledT]:
        """A broker that answers twice, or backwards: rare enough for a sort."""
        fresh = {message.offset: message for message in messages if message.offset not in self._messages}
        self._messages.update(fresh)
        self._offsets = deque(sorted(self._messages))
        self._waiting = deque(self._messages[offset] for offset in self._offsets if self._is_waiting(offset))
        self._last_offset = max(self._last_offset, self._offsets[-1])
        return list(fresh.values())

    # --- handing out -----------------------------------------------------------------------------------------------

    def take(self, count_max: int) -> list[PulledT]:
        """The next messages for a listener, in order of their offsets; empty when none wait.

        Concurrent consumers take again while earlier batches are out. An orderly consumer takes within a run, and
        ends what it took with ``commit_taken``, ``roll_back_taken`` or ``put_back``.
        """
        assert 1 <= count_max <= BATCH_MAX, "batches have 1 to 1024 messages"
        waiting, messages, taken = self._waiting, self._messages, self._taken
        self.last_consumed_ms = now_ms = self._clock.monotonic_ms()
        if (
            count_max == 1 and waiting and (offset := waiting[0].offset) in messages
        ):  # most listeners take them one by one
            taken[offset] = now_ms
            return [waiting.popleft()]
        batch: list[PulledT] = []
        while waiting and len(batch) < count_max:
            message = waiting.popleft()
            offset = message.offset
            if offset in messages:
                taken[offset] = now_ms
                batch.append(message)
        return batch

    def put_back(self, messages: Iterable[PulledT], *, failed: bool = True) -> None:
        """Taken messages wait again, before all that follow them; ``failed`` counts one more attempt for each."""
        again = [message for message in messages if self._take_back(message.offset)]
        if failed:
            again = [message.after_failure() for message in again]
            self._messages.update((message.offset, message) for message in again)
        again.sort(key=_offset_of)
        if again and self._waiting and self._waiting[0].offset < again[-1].offset:
            self._waiting = deque(sorted((*again, *self._waiting), key=_offset_of))
        else:
            self._waiting.extendleft(reversed(again))

    def _take_back(self, offset: int) -> bool:
        if offset in self._leaving:
            self._leaving.discard(offset)
            return True
        return self._taken.pop(offset, None) is not None

    def begin_leaving(self, messages: Iterable[PulledT]) -> list[PulledT]:
        """A listener failed or is given up on; returns those whose verdict counted until now.

        They hold up the commit offset until ``finish`` (a broker has them) or ``put_back``.
        """
        leaving = [] if self._is_closed else [message for message in messages if self._counts(message)]
        for message in leaving:
            del self._taken[message.offset]
            self._leaving.add(message.offset)
        return leaving

    def _counts(self, message: PulledT) -> bool:
        return message.offset in self._taken and self._messages.get(message.offset) is message

    # --- finishing -------------------------------------------------------------------------------------------------

    def consumed(self, messages: Iterable[PulledT]) -> int:
        """Listeners did their work; returns how many of them came too late, so that their word counts for nothing."""
        unfinished, taken = self._messages, self._taken
        freed = late = 0
        for message in messages:
            offset = message.offset
            if unfinished.get(offset) is message and taken.pop(offset, None) is not None:
                del unfinished[offset]
                freed += message.size_bytes
            else:
                late += 1
        self._size_bytes -= freed
        return late

    def finish(self, messages: Iterable[PulledT]) -> Offset | None:
        """The messages are done with, wherever they are: taken, leaving or waiting.

        Returns the offset to commit; None when the buffer was empty already, or closed. Unknown messages
        are passed over.
        """
        unfinished, taken, leaving = self._messages, self._taken, self._leaving
        if not unfinished:
            return None
        freed = 0
        for message in messages:
            offset = message.offset
            if unfinished.pop(offset, None) is not None:
                taken.pop(offset, None)
                freed += message.size_bytes
                if leaving:
                    leaving.discard(offset)
        self._size_bytes -= freed
        return self.commit_offset()

    def commit_taken(self) -> Offset | None:
        """An orderly consumer is done with all it took.

        Returns the offset behind the last of them; None when it took none, or when the buffer is closed.
        """
        if not self._taken:
            return None
        last = max(self._taken)
        self.finish([self._messages[offset] for offset in self._taken])
        return None if self._is_closed else Offset(last + 1)

    def roll_back_taken(self) -> None:
        """An orderly consumer starts again with everything it took and did not commit."""
        self.put_back([self._messages[offset] for offset in self._taken], failed=False)

    def close(self) -> None:
        """The queue was released, and another member may own it by now: there is nothing to commit any more."""
        self._is_closed = True

    def clear(self) -> None:
        """Forget all messages, without a word about how far consuming came: a seek."""
        self._messages.clear()
        self._offsets.clear()
        self._waiting.clear()
        self._taken.clear()
        self._leaving.clear()
        self._size_bytes = 0
        self._last_offset = -1
        self._reached = 0

    # --- looking ---------------------------------------------------------------------------------------------------

    def commit_offset(self) -> Offset | None:
        """The smallest offset that is not finished, or where pulling stands when all are.

        None before the first message, and when the buffer is closed.
        """
        if self._is_closed:
            return None
        first = self._first_offset()
        if first is not None:
            return Offset(first)
        return Offset(max(self._last_offset + 1, self._reached)) if self._last_offset >= 0 else None

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    @property
    def has_waiting(self) -> bool:
        """Whether ``take`` may find something; False is certain."""
        return bool(self._waiting)

    @property
    def waiting_count(self) -> int:
        return len(self._messages) - len(self._taken) - len(self._leaving)

    def _is_waiting(self, offset: int) -> bool:
        return offset not in self._taken and offset not in self._leaving

    @property
    def span(self) -> int:
        """How far the first and the last unfinished message are apart; large when one of them is stuck."""
        first = self._first_offset()
        return 0 if first is None else self._last_unfinished() - first

    @property
    def taken_ms(self) -> Mapping[int, int]:
        """Since when listeners have which offsets; a view, that any thread may look up one offset in."""
        return self._taken

    @property
    def oldest_taken_ms(self) -> int | None:
        """When the listener began that runs longest; None when none does."""
        return next(iter(self._taken.values()), None)

    def timed_out(self, timeout_ms: int) -> list[PulledT]:
        """The messages that listeners have had for that long, the oldest first."""
        taken_until_ms = self._clock.monotonic_ms() - timeout_ms
        late = takewhile(lambda taken: taken[1] <= taken_until_ms, self._taken.items())
        return [self._messages[offset] for offset, _ in late]

    def head(self) -> Head[PulledT] | None:
        """The first unfinished message; None when there is none."""
        first = self._first_offset()
        if first is None:
            return None
        if first in self._leaving:
            return Head(self._messages[first], Stage.LEAVING, 0)
        taken_ms = self._taken.get(first)
        return Head(self._messages[first], Stage.WAITING if taken_ms is None else Stage.CONSUMING, taken_ms or 0)

    def state(self) -> BufferState:
        first, taken = self._first_offset(), self._taken
        return BufferState(
            message_count=len(self._messages),
            size_bytes=self._size_bytes,
            first_offset=first or 0,
            last_offset=0 if first is None else self._last_unfinished(),
            taken_count=len(taken),
            taken_first_offset=min(taken, default=0),
            taken_last_offset=max(taken, default=0),
        )

    def _first_offset(self) -> int | None:
        offsets, unfinished = self._offsets, self._messages
        while offsets and offsets[0] not in unfinished:
            offsets.popleft()
        return offsets[0] if offsets else None

    def _last_unfinished(self) -> int:
        offsets, unfinished = self._offsets, self._messages
        while offsets[-1] not in unfinished:
            offsets.pop()
        return offsets[-1]
