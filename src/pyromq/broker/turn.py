"""Turns: what arrives together is written together, flushed together and answered together.

    requests of this turn of the loop ─▶ stage, stage, … ─▶ end of turn: one commit
        async flush ─▶ answered at once
        sync flush  ─▶ wait for the running fsync, then for the next one, which serves everybody who waits by then

Owner of everything between a staged message and its answer; runs on the loop, only fsync runs on a worker thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, NamedTuple

from pyromq.broker.refusals import refusal_of
from pyromq.clock import Clock
from pyromq.errors import MQError
from pyromq.net.connection import Connection
from pyromq.store.commit_log import FlushJob
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import Flush
from pyromq.wire.codes import ResponseCode
from pyromq.wire.command import encode_response
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

QueueKey = tuple[str, int]


class PendingSend(NamedTuple):
    """A staged message and whom to tell."""

    connection: Connection
    request: Received[Any]
    answer: bytes  # empty for one-way sends
    end: int  # of its record: durable once the log is flushed up to here
    wait: bool  # the sender wants to know that it is on disk
    since_ms: int


class Turns:
    """Commits at the end of each turn that staged something, and answers when that is safe."""

    def __init__(
        self,
        store: MessageStore,
        flusher: Executor,
        clock: Clock,
        on_visible: Callable[[set[QueueKey]], None],
        *,
        flush_timeout_ms: int = 5_000,
    ) -> None:
        self._store, self._flusher, self._clock, self._on_visible = store, flusher, clock, on_visible
        self._flush_timeout_ms = flush_timeout_ms
        self._sync = store.settings.flush is Flush.SYNC
        self._loop = asyncio.get_running_loop()
        self._staged: list[PendingSend] = []
        self._touched: set[QueueKey] = set()
        self._unseen: set[QueueKey] = set()  # written queues whose readers cannot see it yet
        self._waiting: deque[PendingSend] = deque()
        self._running: FlushJob | None = None
        self._running_since_ms = 0
        self._scheduled = False
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def waiting(self) -> int:
        """Sends that wait for the disk."""
        return len(self._waiting)

    def stuck_ms(self) -> int:
        """For how long the disk has been busy with one flush."""
        return self._clock.monotonic_ms() - self._running_since_ms if self._running else 0

    def oldest_wait_ms(self) -> int:
        """For how long the first of them has waited."""
        return self._clock.monotonic_ms() - self._waiting[0].since_ms if self._waiting else 0

    def staged(self, pending: PendingSend, queue: QueueKey) -> None:
        """Something was staged: it is committed when everything that arrived with it is staged too."""
        self._staged.append(pending)
        self._touched.add(queue)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._end)

    def _end(self) -> None:
        self._scheduled = False
        staged, self._staged = self._staged, []
        touched, self._touched = self._touched, set()
        try:
            self._store.commit()
        except MQError as error:
            logger.error("turn refused: sends=%d reason=%s", len(staged), error)
            for pending in staged:
                self._refuse(pending, error)
            return
        if not self._sync:
            for pending in staged:
                self._answer(pending)
            self._on_visible(touched)
            return
        self._unseen |= touched
        for pending in staged:
            if pending.wait:
                self._waiting.append(pending)
            else:
                self._answer(pending)
        self._flush()

    # --- group commit ---

    def _flush(self) -> None:
        if self._running is not None:
            return
        job = self._store.flush_job()
        if job is None:
            self._idle.set()
            return
        self._running, self._running_since_ms = job, self._clock.monotonic_ms()
        self._idle.clear()
        seen_after, self._unseen = self._unseen, set()
        future = self._loop.run_in_executor(self._flusher, job.run)
        future.add_done_callback(partial(self._flushed, job, seen_after))

    def _flushed(self, job: FlushJob, seen: set[QueueKey], future: asyncio.Future[None]) -> None:
        self._running = None
        if isinstance(error := future.exception(), OSError):
            refusal = self._store.flush_failed(error)
            while self._waiting:
                self._refuse(self._waiting.popleft(), refusal)
            self._idle.set()
            return
        if error is not None:
            raise error
        self._store.flush_done(job)
        while self._waiting and self._waiting[0].end <= job.end:
            self._answer(self._waiting.popleft())
        self._on_visible(seen)
        self._flush()

    def answer_overdue(self) -> None:
        """Senders that waited too long are told that the message is stored, but not that it is on disk."""
        limit = self._clock.monotonic_ms() - self._flush_timeout_ms
        while self._waiting and self._waiting[0].since_ms < limit:
            pending = self._waiting.popleft()
            code, remark = (
                ResponseCode.FLUSH_DISK_TIMEOUT,
                "the message is stored, but the disk did not confirm it in time",
            )
            self._send(pending, code, remark)

    async def drain(self) -> None:
        """Everything staged up to now is written, flushed and answered."""
        while self._staged or self._scheduled or self._waiting or self._running:
            if self._running:
                await self._idle.wait()
            else:
                await asyncio.sleep(0)

    # --- answers ---

    def _answer(self, pending: PendingSend) -> None:
        if pending.answer:
            pending.connection.send(pending.answer)

    def _refuse(self, pending: PendingSend, error: Exception) -> None:
        code, remark = refusal_of(error) if isinstance(error, MQError) else (ResponseCode.SYSTEM_ERROR, str(error))
        self._send(pending, code, remark)

    def _send(self, pending: PendingSend, code: ResponseCode, remark: str) -> None:
        request = pending.request
        if not request.is_oneway:
            answer = encode_response(code, request.correlation_id, remark=remark, serialize_type=request.serialize_type)
            pending.connection.send(answer)
