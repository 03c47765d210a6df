"""Callback threads: a pool for code of the application, for which the interpreter's exit waits a bounded time.

``ThreadPoolExecutor`` joins its threads at exit, for ever if one does not return. These threads are daemons; at exit
each pool gets ``exit_wait_s`` for what it runs, and then a line in the log says what did not return.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import Empty, SimpleQueue
from typing import Any, Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger(__name__)

EXIT_WAIT_S: Final = 10.0

_Item = tuple["Future[Any]", Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class CallbackThreads(Executor):
    """At most so many threads, each begun when work comes and none is free.

    ``what()`` says at exit what runs: the name of a function, say.
    """

    def __init__(
        self, threads_max: int, name: str, *, what: Callable[[], str], exit_wait_s: float = EXIT_WAIT_S
    ) -> None:
        self._threads_max = threads_max
        self._name = name
        self._what = what
        self.exit_wait_s = exit_wait_s
        self._work: SimpleQueue[_Item | None] = SimpleQueue()
        self._free = threading.Semaphore(0)  # threads that wait for work
        self._lock = threading.Lock()
        self._threads = 0
        self._busy = 0
        self._quiet = threading.Condition(self._lock)
        self.is_closed = False  # nothing new is begun
        _pools.add(self)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a function on a thread of the pool. Raises RuntimeError after ``shutdown``, and when the system gives no
        thread.
        """
        future: Future[T] = Future()
        with self._lock:
            if self.is_closed:
                raise RuntimeError("cannot begin new work: these threads were shut down")
            if not self._free.acquire(blocking=False) and self._threads < self._threads_max:
                thread = threading.Thread(target=self._run, name=f"{self._name}_{self._threads}", daemon=True)
                thread.start()
                self._threads += 1
            self._busy += 1
            self._work.put((future, fn, args, kwargs))
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        """Threads end when what they run has returned."""
        with self._lock:
            self.is_closed = True
        while cancel_futures:
            try:
                item = self._work.get_nowait()
            except Empty:
                break
            if item is not None:
                item[0].cancel()
                self._done()
        for _ in range(self._threads):
            self._work.put(None)
        if wait:
            self.wait(None)

    def wait(self, timeout_s: float | None) -> bool:
        """Until nothing runs; False when something still does after that time."""
        with self._quiet:
            return self._quiet.wait_for(lambda: not self._busy, timeout_s)

    def at_exit(self, deadline: float) -> None:
        """The interpreter ends: what runs may end until then, nothing else begins."""
        self.shutdown(cancel_futures=True)
        if not self.wait(max(0.0, deadline - time.monotonic())):
            logger.warning("exit does not wait longer for %s", self._what())

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            future, function, args, kwargs = item
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function(*args, **kwargs))
                except BaseException as error:  # the future reports it to whom it concerns
                    future.set_exception(error)
            del item, future, function, args, kwargs  # a thread that waits holds nothing
            self._done()
            self._free.release()

    def _done(self) -> None:
        with self._quiet:
            self._busy -= 1
            if not self._busy:
                self._quiet.notify_all()


_pools: weakref.WeakSet[CallbackThreads] = weakref.WeakSet()


def _wait_at_exit() -> None:
    """All pools wait at the same time."""
    began = time.monotonic()
    for pool in list(_pools):
        pool.shutdown(cancel_futures=True)
    for pool in sorted(_pools, key=lambda pool: pool.exit_wait_s):
        pool.at_exit(began + pool.exit_wait_s)


atexit.register(_wait_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)  # a fork takes no threads along
