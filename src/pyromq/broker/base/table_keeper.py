"""Background saves of tables that change by the way: offsets, topics made by a send, groups made by a consumer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial

from pyromq.clock import Clock
from pyromq.store.tables.config_table import ConfigTable

logger = logging.getLogger(__name__)


class TableKeeper:
    """At most one save every ``interval_ms``, on a worker thread: thousands of new topics cost a few saves."""

    def __init__(self, tables: Sequence[ConfigTable], worker: Executor, clock: Clock, interval_ms: int = 500) -> None:
        self._tables = tables
        self._worker = worker
        self._clock = clock
        self._interval_ms = interval_ms
        self._loop = asyncio.get_running_loop()
        self._started_ms = -interval_ms  # when the last saves began
        self._busy = 0  # saves under way

    def tick(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._busy or now_ms - self._started_ms < self._interval_ms:
            return
        for table in self._tables:
            if table.unsaved:
                self._started_ms = now_ms
                self._busy += 1
                future = self._loop.run_in_executor(self._worker, table.save_job())
                future.add_done_callback(partial(self._saved, table))

    def _saved(self, table: ConfigTable, future: asyncio.Future[None]) -> None:
        self._busy -= 1
        if (error := future.exception()) is not None:
            logger.error("table not saved, will be tried again: file=%s reason=%s", table.file_name, error)

    def save_now(self) -> None:
        """At the end, on this thread; also empty tables: a file that is missing after a clean stop was lost."""
        for table in self._tables:
            if table.unsaved or not table.found:
                try:
                    table.save()
                except OSError as error:
                    logger.error("table not saved: file=%s reason=%s", table.file_name, error)
