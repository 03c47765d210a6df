"""One event loop in one thread, for all sync clients of a process.

It runs while any of them is open. uvloop where there is one; asyncio's own loop does as well, because connections read
into a buffer of their own (a loop in a background thread that allocates one per read makes glibc trim and fault in its
heap again and again). Nothing of the application runs on this thread, so a slow callback cannot delay a heartbeat.

A fork takes neither threads nor the right to use the parent's sockets along: a child begins without a loop, and what
was opened in the parent says so when it is used there.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar, cast

from pyromq.errors import ClientClosedError

T = TypeVar("T")

_CALLBACK_THREADS = 4


def new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class Waiter(Generic[T]):
    """A result that one thread waits for and another brings: a lock is all it takes."""

    __slots__ = ("_done", "_error", "_result")

    def __init__(self) -> None:
        self._done = threading.Lock()
        self._done.acquire()
        self._result: T | None = None
        self._error: BaseException | None = None

    def wait(self) -> T:
        """Ctrl-C ends the wait."""
        self._done.acquire()
        if self._error is not None:
            raise self._error
        return cast(T, self._result)

    def settle(self, future: asyncio.Future[T]) -> None:
        if future.cancelled():
            self._error = ClientClosedError("the client was closed before the call was over")
        elif (error := future.exception()) is not None:
            self._error = error
        else:
            self._result = future.result()
        self._done.release()

    def fail(self, error: BaseException) -> None:
        self._error = error
        self._done.release()


class LoopThread:
    """``call`` runs a coroutine on the loop and waits for it; any thread may, but the loop's own."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._users = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._pool: ThreadPoolExecutor | None = None

    # --- life ---

    def acquire(self) -> None:
        """The first user starts the thread."""
        with self._lock:
            self._users += 1
            if self._thread is None:
                started = threading.Event()
                self._thread = threading.Thread(target=self._run, args=(started,), name="pyromq-client", daemon=True)
                self._thread.start()
                started.wait()

    def release(self) -> None:
        """The last one ends it."""
        with self._lock:
            self._users -= 1
            if self._users <= 0:
                self._end()

    def end(self) -> None:
        """At the end of the process, whoever still uses it."""
        with self._lock:
            self._users = 0
            self._end()

    def _end(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None and self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            if thread is not threading.current_thread():
                thread.join()
        if self._pool is not None:
            self._pool.shutdown(wait=False)
            self._pool = None

    def _run(self, started: threading.Event) -> None:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(self._stay(started))

    async def _stay(self, started: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        started.set()
        await self._stop.wait()

    # --- use ---

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Raises what the work raises. When the wait is interrupted, the work is cancelled."""
        waiter: Waiter[T] = Waiter()
        tasks: list[asyncio.Task[T]] = []

        def start() -> None:
            task = asyncio.get_running_loop().create_task(work)
            tasks.append(task)
            task.add_done_callback(waiter.settle)

        try:
            self.soon(start)
        except BaseException:  # it will never be awaited; raised again
            work.close()
            raise
        return self.wait_for(waiter, lambda: [task.cancel() for task in tasks])

    def soon(self, function: Callable[..., object], *arguments: object) -> None:
        """Calls a function on the loop. Raises ClientClosedError."""
        loop = self._loop
        if self._thread is None or loop is None:
            raise ClientClosedError("no client is open in this process")
        if threading.current_thread() is self._thread:
            raise ClientClosedError("a sync client cannot be used on its own loop: it would wait for itself")
        loop.call_soon_threadsafe(function, *arguments)

    def wait_for(self, waiter: Waiter[T], cancel: Callable[[], object]) -> T:
        try:
            return waiter.wait()
        except (KeyboardInterrupt, SystemExit):
            self.soon(cancel)
            raise

    def pool(self) -> ThreadPoolExecutor:
        """Threads for callbacks of the application."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_CALLBACK_THREADS, thread_name_prefix="pyromq-callback")
        return self._pool


_of_this_process = LoopThread()


def loop_thread() -> LoopThread:
    return _of_this_process


def _begin_anew() -> None:
    global _of_this_process
    _of_this_process = LoopThread()


atexit.register(lambda: _of_this_process.end())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
