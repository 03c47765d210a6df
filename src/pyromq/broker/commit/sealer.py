"""Seals beside the running broker: the long part on a worker thread, the decisions on the loop.

start ─▶ queues are gathered, some at each tick ─▶ they and the index are synced (worker)
      ─▶ wait until the log is flushed that far ─▶ the seal is saved (worker)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from pyromq.errors import StoreReadOnlyError
from pyromq.store.message_store import QUEUES_AT_ONCE, MessageStore
from pyromq.store.sealing.seal_job import SealJob

logger = logging.getLogger(__name__)


class Sealer:
    """At most one seal at a time."""

    def __init__(self, store: MessageStore, worker: Executor, flush_soon: Callable[[], None]) -> None:
        self._store = store
        self._worker = worker
        self._flush_soon = flush_soon
        self._loop = asyncio.get_running_loop()
        self._job: SealJob | None = None  # the seal under way
        self._is_gathered = False  # its queues are known
        self._waits_for_log = False  # they are synced, the log is not flushed far enough yet

    @property
    def busy(self) -> bool:
        return self._job is not None

    def start(self) -> None:
        if self._job is None:
            self._job, self._is_gathered = self._store.seals.begin(), False
            self.advance()

    def _gather(self, job: SealJob) -> None:
        try:
            self._is_gathered = self._store.seals.gather(job, QUEUES_AT_ONCE)
        except StoreReadOnlyError as error:
            logger.error("seal failed: reason=%s", error)
            self._end()
            return
        if self._is_gathered:
            self._loop.run_in_executor(self._worker, job.sync).add_done_callback(self._synced)

    def _synced(self, future: asyncio.Future[None]) -> None:
        if not self._failed(future):
            self._waits_for_log = True
            self._flush_soon()
            self.advance()

    def advance(self) -> None:
        """Gather some more, or go on if the log is flushed far enough; called now and then."""
        job = self._job
        if job is None:
            return
        if not self._is_gathered:
            self._gather(job)
        elif not self._waits_for_log:
            return
        elif not self._store.health.trusted:
            self._end()
        elif job.seal is not None and self._store.flushed_position >= job.seal.durable_end:
            self._waits_for_log = False
            self._loop.run_in_executor(self._worker, job.save).add_done_callback(self._saved)

    def _saved(self, future: asyncio.Future[bool]) -> None:
        if not self._failed(future):
            assert self._job is not None
            if future.result():  # else a topic was deleted meanwhile: the next seal knows of it
                self._store.seals.finish(self._job, None)
            self._end()

    def _failed(self, future: asyncio.Future[Any]) -> bool:
        error = future.exception()
        if error is None:
            return False
        assert self._job is not None
        logger.error("seal failed: reason=%s", error)
        cause = error if isinstance(error, OSError) else OSError(str(error))
        self._store.seals.finish(self._job, cause)
        self._end()
        return True

    def _end(self) -> None:
        self._job, self._waits_for_log = None, False
