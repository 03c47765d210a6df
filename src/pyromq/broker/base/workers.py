"""The worker threads of a broker: one for each kind of work that keeps a disk busy, or takes long."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

logger = logging.getLogger(__name__)


class Workers:
    """Threads start with their first job; ``shutdown`` waits for the last one."""

    def __init__(self) -> None:
        self.flush = ThreadPoolExecutor(1, thread_name_prefix="pyromq-flush")
        self.seal = ThreadPoolExecutor(1, thread_name_prefix="pyromq-seal")
        self.save = ThreadPoolExecutor(1, thread_name_prefix="pyromq-save")  # a seal of many queues takes minutes
        self.encode = ThreadPoolExecutor(1, thread_name_prefix="pyromq-encode")  # of long responses

    def start_maintenance(self, job: Callable[[], None]) -> None:
        """For jobs of the store's maintenance that keep a disk busy for long and can be repeated."""
        future = asyncio.get_running_loop().run_in_executor(self.save, job)
        future.add_done_callback(_log_failure)

    def shutdown(self) -> None:
        for worker in (self.flush, self.seal, self.save, self.encode):
            worker.shutdown()


def _log_failure(future: asyncio.Future[None]) -> None:
    if (error := future.exception()) is not None:
        logger.error("maintenance job failed: reason=%s", error)
