"""The worker threads of a broker: one for each kind of work that keeps a disk busy, or takes long."""

from __future__ import annotations

import asyncio
import atexit
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Protocol

logger = logging.getLogger(__name__)

Job = Callable[[], None]
Then = Callable[[BaseException | None], None]
"""Hears of the end of a job: None, or what it raised."""


class JobRunner(Protocol):
    """What runs jobs beside the loop, in their order."""

    def run(self, job: Job, then: Then) -> None:
        """``then`` is called on the loop that runs now, never before this returns."""


class OneThread:
    """Runs one job after the other and tells the loop how each ended; ``shutdown`` waits for the last one.

    A flush waits for two hops between threads beside the disk. Through an executor these make two futures and their
    callbacks, 27 µs of CPU; here they are a queue and a call, 11 µs.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[tuple[Job, Then, asyncio.AbstractEventLoop] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_down = False

    def run(self, job: Job, then: Then) -> None:
        if self._is_down:
            raise RuntimeError(f"{self._name} was shut down")
        if self._thread is None:
            thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            thread.start()
            self._thread = thread
            atexit.register(self.shutdown)  # of an owner who never came to it: what runs is finished, then all ends
        self._jobs.put((job, then, asyncio.get_running_loop()))

    def shutdown(self) -> None:
        self._is_down = True
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None
            atexit.unregister(self.shutdown)

    def _work(self) -> None:
        while (next_job := self._jobs.get()) is not None:
            job, then, loop = next_job
            failure: BaseException | None = None
            try:
                job()
            except BaseException as error:  # its owner decides; the thread goes on
                failure = error
            try:
                loop.call_soon_threadsafe(then, failure)
            except RuntimeError:  # the loop is closed: nobody waits any more
                logger.debug("a job ended behind its loop: thread=%s", self._name)
            del next_job, job, then, loop, failure  # what they hold shall not wait for the next job


class Workers:
    """Threads start with their first job; ``shutdown`` waits for the last one."""

    def __init__(self) -> None:
        self.flush = OneThread("pyromq-flush")
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
