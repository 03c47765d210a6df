"""Jobs on worker threads, counted: virtual time must not pass while one of them runs.

Counted is what the loop, or a counted job, hands to a pool: fsyncs, saves, listeners, callbacks. A job that waits for
the loop itself (a listener that sends with a sync producer) does not count as running.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from pyromq.broker.base.workers import Job, OneThread, Then
from pyromq.client.core.callback_threads import CallbackThreads
from pyromq.client.sync.loop_thread import Waiter


class ThreadJobs:
    """``on_change`` is called, on any thread, whenever a job ends or begins to wait."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._jobs: set[Hashable] = set()
        self._calls: set[tuple[Waiter[Any], bool]] = set()  # sync calls that wait for the loop; True for those of jobs
        self._here = threading.local()
        self._loop_thread = 0

    @property
    def any(self) -> bool:
        return bool(self._jobs)

    @property
    def is_running(self) -> bool:
        """Some job goes on that does not wait for the loop."""
        return len(self._jobs) > sum(is_job and not waiter.is_over for waiter, is_job in list(self._calls))

    @property
    def has_callers(self) -> bool:
        """Some thread waits for the loop in a sync call."""
        return any(not waiter.is_over for waiter, _ in list(self._calls))

    @contextmanager
    def calling(self, waiter: Waiter[Any]) -> Iterator[None]:
        call = (waiter, getattr(self._here, "is_job", False))
        self._calls.add(call)
        self._on_change()
        try:
            yield
        finally:
            self._calls.discard(call)

    def count_jobs_of(self, loop: asyncio.AbstractEventLoop) -> None:
        """What the loop awaits of an executor counts until the loop has heard of its end."""
        plain = loop.run_in_executor

        def run_in_executor(executor: Any, function: Any, *arguments: Any) -> asyncio.Future[Any]:
            future = plain(executor, function, *arguments)
            self._jobs.add(future)
            future.add_done_callback(self._jobs.discard)
            return future

        loop.run_in_executor = run_in_executor  # type: ignore[method-assign, assignment]

    def entered(self) -> None:
        """This thread runs the loop."""
        self._loop_thread = threading.get_ident()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Inside the block jobs that are handed to pools directly count, too."""
        with self._counted_in(ThreadPoolExecutor), self._counted_in(CallbackThreads), self._counted_flushes():
            yield

    @contextmanager
    def _counted_in(self, pools: type[Executor]) -> Iterator[None]:
        plain = pools.submit

        def submit(pool: Executor, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
            if threading.get_ident() != self._loop_thread and not getattr(self._here, "is_job", False):
                return plain(pool, function, *arguments, **named)  # an application's own
            future: Future[Any] = plain(pool, self._run, function, arguments, named)
            self._jobs.add(future)
            future.add_done_callback(self._over)
            return future

        pools.submit = submit  # type: ignore[method-assign]
        try:
            yield
        finally:
            pools.submit = plain  # type: ignore[method-assign]

    @contextmanager
    def _counted_flushes(self) -> Iterator[None]:
        """A job counts until the loop has heard of its end."""
        plain = OneThread.run

        def run(thread: OneThread, job: Job, then: Then) -> None:
            if threading.get_ident() != self._loop_thread:  # another loop's
                plain(thread, job, then)
                return
            counted = object()

            def hear(error: BaseException | None) -> None:
                self._jobs.discard(counted)
                then(error)

            plain(thread, lambda: self._run(job, (), {}), hear)
            self._jobs.add(counted)

        OneThread.run = run  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            OneThread.run = plain  # type: ignore[method-assign]

    def _run(self, function: Any, arguments: Any, named: Any) -> Any:
        self._here.is_job = True
        try:
            return function(*arguments, **named)
        finally:
            self._here.is_job = False

    def _over(self, future: Future[Any]) -> None:
        self._jobs.discard(future)
        self._on_change()
