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
from contextlib import suppress
from typing import Any, Generic, TypeVar, cast

from pyromq.client.core.callback_threads import CallbackThreads
from pyromq.errors import ClientClosedError

T = TypeVar("T")

_CALLBACK_THREADS = 4
_PENDING = object()


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
        self._result: T | object = _PENDING
        self._error: BaseException | None = None

    @property
    def is_over(self) -> bool:
        """The result, or the error, is there."""
        return self._error is not None or self._result is not _PENDING

    def wait(self) -> T:
        """Wait for the result; Ctrl-C ends the wait."""
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
    """``call`` runs a coroutine on the loop and waits for it; any thread may, but the loop's own.

    Under the lock it is decided who uses which loop, and what was handed to a loop before its end stands before that in
    its line: it begins, and is cancelled. So every call is answered. Threads are waited for outside of the lock.
    """

    name = "pyromq-client"  # of the thread

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None  # while there are users
        self._stop = asyncio.Event()  # of that loop
        self._thread: threading.Thread | None = None  # that runs it
        self._users = 0
        self._lock = threading.Lock()
        self._pool: CallbackThreads | None = None

    # --- life ---

    def acquire(self) -> None:
        """The first user starts the thread. Raises what the system does when it has no files or threads left."""
        with self._lock:
            if self._loop is None:
                self._start()
            self._users += 1

    def _start(self) -> None:
        loop, stop = self._new_loop(), asyncio.Event()
        thread = threading.Thread(target=_run, args=(loop, stop), name=self.name, daemon=True)
        try:
            thread.start()
        except BaseException:  # no thread will run it; raised again
            loop.close()
            raise
        self._loop, self._stop, self._thread = loop, stop, thread

    def _new_loop(self) -> asyncio.AbstractEventLoop:
        return new_event_loop()

    def release(self) -> None:
        """The last one ends it."""
        with self._lock:
            self._users -= 1
            ended = self._end() if self._users <= 0 else None
        _join(ended)

    def end(self) -> None:
        """At the end of the process, also while clients still use it."""
        with self._lock:
            self._users = 0
            ended = self._end()
        _join(ended)

    def _end(self) -> threading.Thread | None:
        loop, thread, pool = self._loop, self._thread, self._pool
        self._loop = self._thread = self._pool = None
        if loop is not None:
            loop.call_soon_threadsafe(self._stop.set)
        if pool is not None:
            pool.shutdown(wait=False)
        return thread

    # --- use ---

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and return its result; an interrupted wait cancels it. Raises what the work
        raises.
        """
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
        with self._lock:
            if self._loop is None:
                raise ClientClosedError("no client is open in this process")
            if threading.current_thread() is self._thread:
                raise ClientClosedError("a sync client cannot be used on its own loop: it would wait for itself")
            self._loop.call_soon_threadsafe(function, *arguments)

    def wait_for(self, waiter: Waiter[T], cancel: Callable[[], object]) -> T:
        try:
            return waiter.wait()
        except (KeyboardInterrupt, SystemExit):
            with suppress(ClientClosedError):  # then there is nothing left to cancel
                self.soon(cancel)
            raise

    def pool(self) -> CallbackThreads:
        """Threads for callbacks of the application."""
        with self._lock:
            if self._pool is None:
                self._pool = CallbackThreads(_CALLBACK_THREADS, "pyromq-callback", what=lambda: "a callback of a send")
            return self._pool


class RunningLoop(LoopThread):
    """The running loop of an asyncio program, for those of its functions that are on other threads."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.current_thread()

    def acquire(self) -> None:
        """Nothing begins: the loop is its program's."""

    def release(self) -> None:
        """Do nothing: the loop belongs to the caller."""

    def end(self) -> None:
        """The loop will run no more of this: calls are refused from now on."""
        with self._lock:
            self._loop = None
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False)


def _run(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(_until(stop))


async def _until(stop: asyncio.Event) -> None:
    await stop.wait()


def _join(thread: threading.Thread | None) -> None:
    if thread is not None and thread is not threading.current_thread():
        thread.join()


_of_this_process = LoopThread()


def loop_thread() -> LoopThread:
    return _of_this_process


def use_loop_thread(thread: LoopThread) -> LoopThread:
    """Clients that are opened from now on live on this one; returns the one before, on which others live on."""
    global _of_this_process
    before, _of_this_process = _of_this_process, thread
    return before


def _begin_anew() -> None:
    global _of_this_process
    _of_this_process = LoopThread()


atexit.register(lambda: _of_this_process.end())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
