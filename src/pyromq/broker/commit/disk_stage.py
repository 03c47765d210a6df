"""Disk stage: commits wait here until they are on this broker's disk, where the store promises that.

    async flush ─▶ passed on at once; ``store.maintenance`` says when the next fsync is due
    sync flush  ─▶ wait for the running fsync, then for the next one, which serves all commits that wait by then

Runs on the loop, only fsync runs on a worker thread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import Protocol

from pyromq.broker.base.request_times import RequestTimes
from pyromq.broker.base.workers import JobRunner
from pyromq.broker.commit.acknowledger import Acknowledger
from pyromq.broker.commit.commit import Commit, CommitStage
from pyromq.broker.commit.send_gate import SendGate
from pyromq.broker.commit.touched import NO_QUEUES, Touched
from pyromq.clock import Clock
from pyromq.store.log.flushes import FlushJob
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import Flush
from pyromq.wire.codes import ResponseCode


class Shipper(Protocol):
    """Sends what is on disk to other brokers, or says so."""

    def durable(self) -> None:
        """More of the log is on disk."""


class DiskStage:
    """Owner of the commits that wait for an fsync, and of the fsync that is under way."""

    # named, because Python finds the attributes of objects with more than thirty of them in a slower way
    __slots__ = (
        "_acknowledger",
        "_asked_again",
        "_behind_bytes",
        "_clock",
        "_flush_timeout_ms",
        "_flusher",
        "_gate",
        "_idle",
        "_next",
        "_pressure",
        "_running",
        "_running_since_s",
        "_shipper",
        "_store",
        "_sync",
        "_times",
        "_unseen",
        "_waiting",
        "waits",
    )

    def __init__(
        self,
        store: MessageStore,
        flusher: JobRunner,
        gate: SendGate,
        next_stage: CommitStage,
        acknowledger: Acknowledger,
        clock: Clock,
        times: RequestTimes,
        *,
        flush_timeout_ms: int,
    ) -> None:
        self._store = store
        self._flusher = flusher
        self._gate = gate
        self._pressure = gate.pressure
        self._behind_bytes = gate.pressure.behind_bytes
        self._acknowledger = acknowledger
        self._clock = clock
        self._times = times
        self._flush_timeout_ms = flush_timeout_ms
        self._shipper: Shipper | None = None
        self._sync = store.settings.flush is Flush.SYNC  # a send is answered when it is on disk
        self.pass_on_to(next_stage)
        self._waiting: deque[Commit] = deque()  # oldest first
        self._unseen = Touched()  # written queues whose readers cannot see it yet
        self._running: FlushJob | None = None  # the fsync that is under way
        self._running_since_s = 0.0
        self._asked_again = False  # while it runs, someone asked for what it does not cover
        self._idle = asyncio.Event()  # no fsync is under way
        self._idle.set()

    def pass_on_to(self, stage: CommitStage) -> None:
        """Give that stage what is on disk; sends wait (``waits``) if either of the two makes them."""
        self._next, self.waits = stage, self._sync or stage.waits

    def ship_to(self, shipper: Shipper) -> None:
        """Let this one know of every flush."""
        self._shipper = shipper

    def oldest_wait_ms(self) -> int:
        """For how long the first send that waits for the disk has waited."""
        since_ms = next((commit.since_ms for commit in self._waiting if commit.sends), None)
        return self._clock.monotonic_ms() - since_ms if since_ms is not None else 0

    def take(self, commit: Commit) -> None:
        """A commit is written: pass it on when it is on disk, or at once with async flush."""
        if self._sync:
            self._unseen.add_all(commit.queues)
            commit.queues = NO_QUEUES  # they follow those of the whole flush
            if not commit.is_answered:
                self._waiting.append(commit)
                if commit.send_count:
                    self._pressure.waiting_for_disk += commit.send_count
                    self._gate.update_pressure()
            self._flush()
            return
        self._next.take(commit)
        if self._store.unflushed_bytes >= self._behind_bytes:
            self.flush_soon()
            self._gate.update_pressure()
        elif self._next.flushes_early:
            self.flush_soon()

    def take_copied(self, queues: Touched) -> None:
        """Take records that a replica appended to these queues, which shall be on disk soon."""
        if self._sync:
            self._unseen.add_all(queues)
        else:
            self._show(self._store.end_position, queues)
        self.flush_soon()

    # --- flushing ---

    def flush_soon(self) -> None:
        """Bring what is written to disk, although no send waits for it: at once, or after the running flush."""
        self._asked_again = True
        self._flush()

    def _flush(self) -> None:
        if self._running is not None:
            return
        job = self._store.flushes.start()
        if job is None:
            self._nothing_to_flush()
            return
        self._running, self._asked_again = job, False
        self._pressure.flushing_since_ms = self._clock.monotonic_ms()
        self._running_since_s = self._clock.monotonic_s()
        self._idle.clear()
        seen_after, self._unseen = self._unseen, Touched()
        self._flusher.run(job.run, partial(self._flushed, job, seen_after))

    def _flushed(self, job: FlushJob, seen: Touched, error: BaseException | None) -> None:
        self._running = self._pressure.flushing_since_ms = None
        self._times.flushes.observe(self._clock.monotonic_s() - self._running_since_s)
        if error is not None:
            self._store.flushes.fail(error if isinstance(error, Exception) else RuntimeError(str(error)))
        elif not self._store.flushes.finish(job):
            error = self._store.health.error()
        if error is not None:
            self._nothing_to_flush()
            return
        self._pass_on(job.end)
        self._gate.update_pressure()
        self._show(job.end, seen)
        if self._shipper is not None:
            self._shipper.durable()
        if self._sync or self._asked_again:
            self._flush()
        elif self._running is None:  # sends that waited at the gate may have started the next one
            self._idle.set()  # the next one comes when it is due: else each would start the next, hundreds a second

    def _nothing_to_flush(self) -> None:
        """Everything is on disk, or nothing can be trusted to be: either way nothing waits any longer."""
        self._idle.set()
        if not self._store.health.trusted:
            refused, self._waiting = self._waiting, deque()
            self._pressure.waiting_for_disk = 0
            self._acknowledger.refuse(self._store.health.error(), *refused)
            return
        self._pass_on(self._store.flushed_position)
        seen, self._unseen = self._unseen, Touched()
        self._show(self._store.flushed_position, seen)

    def _pass_on(self, end: int) -> None:
        """The log is on disk up to there."""
        while self._waiting and self._waiting[0].end <= end:
            commit = self._waiting.popleft()
            self._pressure.waiting_for_disk -= commit.send_count
            self._next.take(commit)

    def _show(self, end: int, queues: Touched) -> None:
        """Readers may see more of these queues, as far as the next stage allows."""
        self._next.take(Commit(end, [], 0, [], queues))

    def answer_overdue(self) -> None:
        """Senders that waited too long hear that the message is stored, but not that it is on disk."""
        self._gate.update_pressure()
        if self._waiting and self._running is None:
            self._flush()
        limit_ms, kept = self._clock.monotonic_ms() - self._flush_timeout_ms, list[Commit]()
        while self._waiting and self._waiting[0].since_ms < limit_ms:
            commit = self._waiting.popleft()
            self._pressure.waiting_for_disk -= commit.send_count
            if commit.internal:  # these have no time-out
                kept.append(Commit(commit.end, [], 0, commit.internal, NO_QUEUES, commit.since_ms))
                commit.internal = []
            self._acknowledger.release_unconfirmed(commit, ResponseCode.FLUSH_DISK_TIMEOUT)
        self._waiting.extendleft(reversed(kept))

    async def drain(self) -> None:
        """No flush runs, and with sync flush everything that was taken is on disk."""
        await self._next.drain()
        while self._waiting or self._running:
            if self._running:
                await self._idle.wait()
            else:
                await asyncio.sleep(0)
            await self._next.drain()  # while replicas are waited for, more may be taken
