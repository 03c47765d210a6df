"""Replica gate: what is on the disk of a sync master waits here until replicas have it, too.

    on disk here ─▶ too few replicas in sync? ─▶ answered at once                     [SLAVE_NOT_AVAILABLE]
                    └ enough ─▶ waits ─▶ confirmed                                    [SUCCESS]
                                      ├ those it waits for stall, or go               [SLAVE_NOT_AVAILABLE]
                                      └ not within ``confirm_timeout_ms``             [FLUSH_SLAVE_TIMEOUT]

Each of the three means that the message is stored here, with its offset. A sender that wants two copies for certain
looks at the status. Whole commits wait, not messages; without replicas, or with an async master, there is no gate.

Internal writes (due messages, committed ones) wait likewise. They hear that they are stored in each of the three cases.

Consumers see what waits here when it is answered, and not before (``curtain``).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from pyromq.broker.base.lease import Lease
from pyromq.broker.base.queue_key import QueueKey
from pyromq.broker.base.request_times import SUCCESS, RequestTimes
from pyromq.broker.commit.curtain import Curtain
from pyromq.broker.commit.group_commit import (
    OnStored,
    PendingSend,
    WaitingCommit,
    respond,
    respond_unconfirmed,
    tell,
)
from pyromq.clock import Clock
from pyromq.errors import MQError
from pyromq.replication.leader import Leader
from pyromq.replication.replicas import Standing
from pyromq.wire.codes import ResponseCode

_NO_REPLICA: Final = "the message is stored here, but too few replicas are in sync to have it as well"
_LATE_REPLICA: Final = "the message is stored here, but replicas did not confirm it in time"


class ReplicaGate:
    """Owner of the commits that wait for replicas, on the loop."""

    def __init__(
        self,
        leader: Leader,
        clock: Clock,
        *,
        timeout_ms: int,
        times: RequestTimes | None = None,
        curtain: Curtain | None = None,
    ) -> None:
        """``curtain`` hides from consumers what waits."""
        self._leader = leader
        self._curtain = curtain or Curtain(None)
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._times = times or RequestTimes()
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[int, WaitingCommit]] = deque()  # since when each waits here; oldest first
        self._internal: deque[tuple[int, int, list[OnStored]]] = deque()  # end, since when, whom to tell; likewise
        self._emptied = asyncio.Event()
        self.waiting = 0  # sends that wait
        self._timer: asyncio.TimerHandle | None = None  # looks again when the oldest is late
        # since the start
        self.late = 0  # sends answered FLUSH_SLAVE_TIMEOUT
        self.alone = 0  # sends answered SLAVE_NOT_AVAILABLE
        leader.on_report = self.look
        # under a failover agent
        self.lease: Lease | None = None
        self.required: Callable[[], int | None] = lambda: None  # how far the replicas are that the lease names
        self.refuse: Callable[[list[PendingSend], MQError], None] = lambda sends, error: None

    async def drain(self) -> None:
        while not self.is_empty:
            self._emptied.clear()
            await self._emptied.wait()

    @property
    def is_empty(self) -> bool:
        return not self._waiting and not self._internal

    def hold(self, commit: WaitingCommit) -> None:
        if self.is_empty:
            self._curtain.close()
        self._waiting.append((self._clock.monotonic_ms(), commit))
        self.waiting += commit.send_count
        self.look()

    def hold_internal(self, end: int, internal: list[OnStored]) -> None:
        if self.is_empty:
            self._curtain.close()
        self._internal.append((end, self._clock.monotonic_ms(), internal))
        self.look()

    def look(self) -> None:
        """A replica has more, came or went, or time has passed: answer what can be answered."""
        if self._curtain.is_shut and self.lease is not None and self.lease.is_open:
            self._curtain.open_if_ready()
        if self.is_empty:
            if self._curtain.is_hiding:
                self._reveal()
            return
        if self.lease is not None and not self.lease.is_open:
            self._refuse_all(self.lease.doubt())  # and what was refused stays hidden until there is a lease again
            self._emptied.set()
            return
        self._answer()
        self._reveal()

    def _answer(self) -> None:
        end, required = self._leader.end, self.required()
        replicas = self._leader.replicas
        replicas.notice_stalls(self._clock.monotonic_ms())
        are_few = replicas.standing(end) is Standing.TOO_FEW
        if are_few and required is None:
            self._answer_all()
            self._emptied.set()
            return
        confirmed = replicas.confirmed(end)
        if required is not None:  # who could take over, until the lease names it no more
            confirmed = required if are_few else min(confirmed, required)
        self._curtain.safe(confirmed)
        late_ms = self._clock.monotonic_ms() - self._timeout_ms
        sends: list[PendingSend] = []
        while self._waiting and self._waiting[0][1].end <= confirmed:
            if are_few:
                self._answer_alone()
                continue
            commit = self._next()
            if self.lease is not None:
                self.lease.admits(commit.end)  # it did a moment ago; this notes how far
            sends += commit.sends
        # of all commits that one report confirms, a connection gets its responses in one write, and in their order
        sends.sort(key=lambda send: id(send[0]))
        respond(sends)
        while self._internal and (self._internal[0][0] <= confirmed or self._internal[0][1] <= late_ms):
            position, _, internal = self._internal.popleft()
            self._curtain.safe(position)
            tell(internal, None)
        while self._waiting and self._waiting[0][0] <= late_ms:
            commit = self._next(ResponseCode.FLUSH_SLAVE_TIMEOUT)
            self._curtain.safe(commit.end)
            self.late += commit.send_count
            respond_unconfirmed(commit.sends, ResponseCode.FLUSH_SLAVE_TIMEOUT, _LATE_REPLICA)
        self._look_again()

    # --- what consumers see ---

    def on_visible(self, tell_readers: Callable[[set[QueueKey]], None]) -> None:
        self._curtain.on_visible = tell_readers

    def show(self, queues: set[QueueKey]) -> None:
        self._curtain.add(queues)
        self._reveal()

    def _reveal(self) -> None:
        is_master = self.lease is None or self.lease.is_open
        self._curtain.reveal(everything=self.is_empty and is_master)

    def _next(self, response: int = SUCCESS) -> WaitingCommit:
        """The oldest, which is answered now; its time counts from its commit on."""
        _, commit = self._waiting.popleft()
        self.waiting -= commit.send_count
        waited_ms = self._clock.monotonic_ms() - commit.since_ms
        self._times.answered(commit.code, commit.send_count, waited_ms, response)
        return commit

    def _refuse_all(self, error: MQError) -> None:
        while self._internal:
            tell(self._internal.popleft()[2], error)
        while self._waiting:
            _, commit = self._waiting.popleft()
            self.waiting -= commit.send_count
            self.refuse(commit.sends, error)  # which counts it

    def _answer_all(self) -> None:
        while self._internal:
            tell(self._internal.popleft()[2], None)
        while self._waiting:
            self._answer_alone()

    def _answer_alone(self) -> None:
        commit = self._next(ResponseCode.SLAVE_NOT_AVAILABLE)
        if self.lease is not None:
            self.lease.admits(commit.end)  # who joins has to have it
        self.alone += commit.send_count
        respond_unconfirmed(commit.sends, ResponseCode.SLAVE_NOT_AVAILABLE, _NO_REPLICA)

    def _look_again(self) -> None:
        """When the oldest is late, or a replica stalls."""
        if self.is_empty:
            self._emptied.set()
        if self._timer is not None or self.is_empty:
            return
        since = [self._waiting[0][0]] if self._waiting else []
        since += [self._internal[0][1]] if self._internal else []
        now_ms = self._clock.monotonic_ms()
        in_ms = min(min(since) + self._timeout_ms, self._leader.replicas.next_stall_ms(now_ms)) - now_ms
        self._timer = self._loop.call_later(max(1, in_ms) / 1_000, self._time_passed)

    def _time_passed(self) -> None:
        self._timer = None
        self.look()
