"""Replica stage: what is on the disk of a sync master waits here until replicas have it, too.

    on disk here ─▶ too few replicas in sync? ─▶ answered at once                     [SLAVE_NOT_AVAILABLE]
                    └ enough ─▶ waits ─▶ confirmed                                    [SUCCESS]
                                      ├ those it waits for stall, or go               [SLAVE_NOT_AVAILABLE]
                                      └ not within ``confirm_timeout_ms``             [FLUSH_SLAVE_TIMEOUT]

Each of the three means that the message is stored here, with its offset. A sender that wants two copies for certain
looks at the status. Whole commits wait, not messages. Internal writes (due messages, committed ones) wait likewise, and
hear that they are stored in each of the three cases.

Consumers see what waits here when it is answered, and not before (``high_watermark``). Brokers that are no sync masters
have ``NoReplicas`` in its place.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sized
from dataclasses import dataclass

from pyromq.broker.base.authority import Authority, outcome_unknown
from pyromq.broker.commit.acknowledger import Acknowledger
from pyromq.broker.commit.commit import Commit
from pyromq.broker.commit.high_watermark import HighWatermark
from pyromq.broker.commit.pressure import Pressure
from pyromq.broker.commit.readers import Readers
from pyromq.broker.commit.touched import NO_QUEUES, Touched
from pyromq.clock import Clock
from pyromq.replication.replicas import Replicas, Standing
from pyromq.store.message_store import MessageStore
from pyromq.wire.codes import ResponseCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """The replicas of a master, as its write path sees them."""

    replicas: Replicas
    required: Callable[[], int | None] = lambda: None  # how far those are that the lease names; None: it names none
    on_open: Callable[[], None] | None = None  # the log is shut at first, and this runs when it may be read


class NoReplicas:
    """Stage of a broker whose sends wait for no replica."""

    waits = flushes_early = False

    def __init__(self, acknowledger: Acknowledger, readers: Readers) -> None:
        self._acknowledger = acknowledger
        self._readers = readers

    def take(self, commit: Commit) -> None:
        """Answer it, and wake the readers of its queues."""
        if commit.sends or commit.internal:
            self._acknowledger.release(commit)
        if commit.queues is not NO_QUEUES:
            self._readers.wake(commit.queues)

    def release_confirmed(self) -> None:
        """Release nothing, because nothing waits here."""

    async def drain(self) -> None:
        return


class AsyncReplicas(NoReplicas):
    """Stage of an async master: replicas that are connected get what is on disk, and nothing waits for them."""

    def __init__(self, acknowledger: Acknowledger, readers: Readers, replicas: Sized) -> None:
        super().__init__(acknowledger, readers)
        self._replicas = replicas

    @property
    def flushes_early(self) -> bool:  # type: ignore[override]
        return len(self._replicas) > 0


class ReplicaStage:
    """Owner of the commits that wait for replicas, on the loop."""

    waits = flushes_early = True

    def __init__(
        self,
        store: MessageStore,
        copies: Copies,
        authority: Authority,
        acknowledger: Acknowledger,
        readers: Readers,
        pressure: Pressure,
        clock: Clock,
        *,
        timeout_ms: int,
    ) -> None:
        self._store = store
        self._replicas = copies.replicas
        self._authority = authority
        self._acknowledger = acknowledger
        self._readers = readers
        self._pressure = pressure
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._required = copies.required
        self._on_open = copies.on_open
        self.watermark = HighWatermark(store, is_shut=copies.on_open is not None)
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[int, Commit]] = deque()  # since when each waits here; oldest first
        self._emptied = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None  # set for when the oldest is late
        # since the start
        self.late = 0  # sends answered FLUSH_SLAVE_TIMEOUT
        self.alone = 0  # sends answered SLAVE_NOT_AVAILABLE

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    @property
    def waiting(self) -> int:
        """Sends that wait for replicas."""
        return self._pressure.waiting_for_replicas

    async def drain(self) -> None:
        while self._waiting:
            self._emptied.clear()
            await self._emptied.wait()

    def take(self, commit: Commit) -> None:
        """Answer it when replicas have it, or need not be waited for; show its queues to readers then."""
        if not commit.is_answered:
            if not self._waiting:
                self.watermark.hide_new()
            self._waiting.append((self._clock.monotonic_ms(), commit))
            self._pressure.waiting_for_replicas += commit.send_count
        if commit.queues:
            self.watermark.add(commit.queues.names())
        if not commit.is_answered:
            self.release_confirmed()
        elif commit.queues:
            self._advance()

    def release_confirmed(self) -> None:
        """Answer what can be answered: a replica has more, came or went, the lease has changed, or time has passed."""
        is_master = self._authority.wait_left_ms() > 0
        if self.watermark.is_shut and is_master and self.watermark.open_if_ready(self._required()):
            assert self._on_open is not None
            self._on_open()
        if self._waiting:
            if is_master:
                self._answer()
            else:  # what is refused stays hidden until there is a lease again
                self._acknowledger.refuse(outcome_unknown(), *self._pop_all())
            if not self._waiting:
                self._emptied.set()
            if not is_master:
                return
        elif not self.watermark.is_hiding:
            return
        self._advance()

    def _answer(self) -> None:
        now_ms, end, required = self._clock.monotonic_ms(), self._store.flushed_position, self._required()
        self._replicas.notice_stalls(now_ms)
        standing, confirmed = self._replicas.agreement(end)
        are_few = standing is Standing.TOO_FEW
        if are_few and required is None:
            self._answer_alone(self._pop_all())
            return
        if required is not None:  # who could take over, until the lease names it no more
            confirmed = required if are_few else min(confirmed, required)
        self.watermark.confirm(confirmed)
        ready = self._pop_while(lambda since_ms, commit: commit.end <= confirmed)
        if are_few:
            self._answer_alone(ready)
        elif ready:
            self._acknowledger.release_together(ready)
        for commit in self._pop_while(lambda since_ms, commit: since_ms <= now_ms - self._timeout_ms):
            self.watermark.confirm(commit.end)
            self.late += commit.send_count
            self._acknowledger.release_unconfirmed(commit, ResponseCode.FLUSH_SLAVE_TIMEOUT)
        self._set_timer(now_ms)

    def _answer_alone(self, commits: list[Commit]) -> None:
        for commit in commits:
            self.alone += commit.send_count
            self._acknowledger.release_unconfirmed(commit, ResponseCode.SLAVE_NOT_AVAILABLE)

    def _pop_while(self, is_due: Callable[[int, Commit], bool]) -> list[Commit]:
        found: list[Commit] = []
        while self._waiting and is_due(*self._waiting[0]):
            found.append(self._waiting.popleft()[1])
            self._pressure.waiting_for_replicas -= found[-1].send_count
        return found

    def _pop_all(self) -> list[Commit]:
        return self._pop_while(lambda since_ms, commit: True)

    def _advance(self) -> None:
        """Readers see what is safe by now."""
        everything = not self._waiting and self._authority.wait_left_ms() > 0
        visible = self.watermark.advance(self._required(), everything=everything)
        self._authority.note_shown(self.watermark.end)
        if visible:
            self._readers.wake(Touched(visible))

    def _set_timer(self, now_ms: int) -> None:
        """Come back when the oldest is late, or a replica stalls."""
        if self._timer is None and self._waiting:
            at_ms = min(self._waiting[0][0] + self._timeout_ms, self._replicas.next_stall_ms(now_ms))
            self._timer = self._loop.call_later(max(1, at_ms - now_ms) / 1_000, self._time_passed)

    def _time_passed(self) -> None:
        self._timer = None
        self.release_confirmed()
