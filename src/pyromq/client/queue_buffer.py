"""QueueBuffer: messages of one queue between pull answer and finished listener (RocketMQ: ProcessQueue).

    add ──▶ waiting ──take──▶ taken ──finish / commit_taken──▶ gone
               ▲                 │
               └─── put_back ────┘

Invariant: the offset given out for committing never passes a message that is not gone. When all are gone, it is the
largest offset ever added, plus one.

Owner. The event loop owns a buffer: every method is called from the loop's thread and none of them waits. Listeners on
worker threads get the list that ``take`` made and nothing else; what they return goes back to the loop first.

Times are monotonic milliseconds. A consume timeout counts from ``take``, so take only when a worker is free.
Every call costs O(1) per message, amortised; a sort of what waits is the price of messages that come out of order, or
are put back behind others that wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from operator import attrgetter, lt
from typing import Final, Generic, NamedTuple

from pyromq.client.pulled import PulledT
from pyromq.client.queue_lock import QueueLock
from pyromq.clock import Clock
from pyromq.model.queue import Offset

BATCH_MAX: Final = 1024
TIMED_OUT_MAX: Final = 16

_offset_of = attrgetter("offset")
_size_of = attrgetter("size_bytes")


class BufferState(NamedTuple):
    """A snapshot for reports; offsets are 0 where there is no message, as RocketMQ reports them."""

    message_count: int
    size_bytes: int
    first_offset: int
    last_offset: int
    taken_count: int
    taken_first_offset: int
    taken_last_offset: int


class QueueBuffer(Generic[PulledT]):
    """One life of a queue at this member: a queue that is given up and granted again gets a new buffer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._messages: dict[int, PulledT] = {}  # everything that is not gone, by offset
        self._offsets: deque[int] = deque()  # ascending; those that are gone leave when they reach the front
        self._waiting: deque[PulledT] = deque()  # ascending; may hold messages that went without being taken
        self._taken: dict[int, int] = {}  # offset → when
        self._more_attempts: dict[int, int] = {}  # offset → failures here, beyond what the broker counted
        self._last_offset = -1
        self._size_bytes = 0
        self._in_turn = False
        self.lock = QueueLock(clock)
        self.dropped = False  # set once, by whoever gives the queue up; from then on there is nothing to commit
        self.last_consumed_ms = clock.monotonic_ms()

    # --- filling ---------------------------------------------------------------------------------------------------

    def add(self, messages: Sequence[PulledT]) -> int:
        """Messages of one pull answer; returns how many are new, as what is here already is passed over."""
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

    def _add_out_of_order(self, messages: Sequence[PulledT]) -> list[PulledT]:
        """A broker that answers twice, or backwards: rare enough for a sort."""
        fresh = {message.offset: message for message in messages if message.offset not in self._messages}
        self._messages.update(fresh)
        self._offsets = deque(sorted(self._messages))
        self._waiting = deque(self._messages[offset] for offset in self._offsets if offset not in self._taken)
        self._last_offset = max(self._last_offset, self._offsets[-1])
        return list(fresh.values())

    # --- handing out -----------------------------------------------------------------------------------------------

    def take(self, count_max: int) -> list[PulledT]:
        """The next messages for a listener, in order of their offsets; empty when none wait.

        Concurrent consumers take again while earlier batches are out. An orderly consumer takes within a turn, and
        ends what it took with ``commit_taken``, ``roll_back_taken`` or ``put_back``.
        """
        assert 1 <= count_max <= BATCH_MAX, "batches have 1 to 1024 messages"
        waiting, messages, taken = self._waiting, self._messages, self._taken
        self.last_consumed_ms = now_ms = self._clock.monotonic_ms()
        batch: list[PulledT] = []
        while waiting and len(batch) < count_max:
            message = waiting.popleft()
            offset = message.offset
            if offset in messages:
                taken[offset] = now_ms
                batch.append(message)
        return batch

    def begin_turn(self) -> bool:
        """True when messages wait and nobody consumes the queue in order: the caller does from now on."""
        if self._in_turn or not self._waiting:
            return False
        self._in_turn = True
        return True

    def end_turn(self) -> None:
        """``take`` gave nothing, or the queue rests: the next ``begin_turn`` may succeed."""
        self._in_turn = False

    def put_back(self, messages: Iterable[PulledT], *, failed: bool = True) -> None:
        """Taken messages wait again, before all that follow them; ``failed`` counts one more attempt for each."""
        again = [message for message in messages if self._taken.pop(message.offset, None) is not None]
        if failed:
            for message in again:
                self._more_attempts[message.offset] = self._more_attempts.get(message.offset, 0) + 1
        again.sort(key=_offset_of)
        if again and self._waiting and self._waiting[0].offset < again[-1].offset:
            self._waiting = deque(sorted((*again, *self._waiting), key=_offset_of))
        else:
            self._waiting.extendleft(reversed(again))

    def delivery_attempt(self, message: PulledT) -> int:
        """How often the message was delivered before, counting the failures that only this member knows."""
        return message.delivery_attempt + self._more_attempts.get(message.offset, 0)

    # --- finishing -------------------------------------------------------------------------------------------------

    def finish(self, messages: Iterable[PulledT]) -> Offset | None:
        """The messages are done with, here or because the broker has them again.

        Returns the offset to commit; None when the buffer was empty already, or the queue was dropped. Unknown messages
        are passed over: a listener may return after its message timed out and was sent back.
        """
        unfinished, taken, more_attempts = self._messages, self._taken, self._more_attempts
        if not unfinished:
            return None
        freed = 0
        for message in messages:
            offset = message.offset
            if unfinished.pop(offset, None) is not None:
                taken.pop(offset, None)
                freed += message.size_bytes
                if more_attempts:
                    more_attempts.pop(offset, None)
        self._size_bytes -= freed
        return self.commit_offset()

    def commit_taken(self) -> Offset | None:
        """An orderly consumer is done with all it took.

        Returns the offset behind the last of them; None when it took none, or when the queue was dropped.
        """
        if not self._taken:
            return None
        last = max(self._taken)
        self.finish([self._messages[offset] for offset in self._taken])
        return None if self.dropped else Offset(last + 1)

    def roll_back_taken(self) -> None:
        """An orderly consumer starts again with everything it took and did not commit."""
        self.put_back([self._messages[offset] for offset in self._taken], failed=False)

    def clear(self) -> None:
        """Forget all messages, without a word about how far consuming came: a seek, or a queue that was dropped."""
        self._messages.clear()
        self._offsets.clear()
        self._waiting.clear()
        self._taken.clear()
        self._more_attempts.clear()
        self._size_bytes, self._last_offset, self._in_turn = 0, -1, False

    # --- looking ---------------------------------------------------------------------------------------------------

    def commit_offset(self) -> Offset | None:
        """The smallest offset that is not finished, or one behind the largest when all are.

        None before the first message, and when the queue was dropped: somebody else may own it by now.
        """
        if self.dropped:
            return None
        first = self._first_offset()
        if first is not None:
            return Offset(first)
        return Offset(self._last_offset + 1) if self._last_offset >= 0 else None

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    @property
    def waiting_count(self) -> int:
        return len(self._messages) - len(self._taken)

    @property
    def has_taken(self) -> bool:
        return bool(self._taken)

    @property
    def span(self) -> int:
        """How far the first and the last unfinished message are apart; large when one of them is stuck."""
        first = self._first_offset()
        return 0 if first is None else self._last_unfinished() - first

    def still_out(self, batch: Sequence[PulledT]) -> list[PulledT]:
        """Those whose listener's verdict still counts: none of a dropped queue, none that timed out meanwhile."""
        return [] if self.dropped else [message for message in batch if message.offset in self._taken]

    def timed_out(self, timeout_ms: int, count_max: int = TIMED_OUT_MAX) -> list[PulledT]:
        """The messages that hold up the commit offset because a listener has had them for too long.

        Only the first ones count, up to the first message that is in time. Each should be sent back, then finished.
        """
        late: list[PulledT] = []
        taken_before_ms = self._clock.monotonic_ms() - timeout_ms
        self._first_offset()
        for offset in self._offsets:
            if offset not in self._messages:
                continue
            taken_ms = self._taken.get(offset)
            if taken_ms is None or taken_ms >= taken_before_ms or len(late) == count_max:
                break
            late.append(self._messages[offset])
        return late

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
