"""Worker pools for listeners: tasks for coroutines, threads for functions. Both are bounded.

``next_batch()`` gives an owner and messages, or None; ``over(owner, batch, result, error, seconds)`` takes the outcome.
Both are called on the loop only.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Generic, NamedTuple, TypeVar

from pyromq.client.consumer.base.hook_runner import HookRunner
from pyromq.client.consumer.base.listeners import Listener, ListenerCancelledError, as_failure, raise_unless_ours
from pyromq.client.consumer.base.loop_watch import BLOCKED_S
from pyromq.client.consumer.base.settings import PushConsumerSettings
from pyromq.client.consumer.dispatch.send_back import SendBacks
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.core.tasks import TaskOwner, this_task
from pyromq.clock import Clock
from pyromq.waiting import set_within

OwnerT = TypeVar("OwnerT")  # what a batch belongs to: its queue, or in pop mode the counters of its topic
Work = tuple[OwnerT, list[ReceivedMessage]]
Over = Callable[[OwnerT, list[ReceivedMessage], Any, Exception | None, float], None]

logger = logging.getLogger(__name__)

_NO_THREAD_S: Final = 1.0  # until it is tried again
_SLICE_S: Final = 0.005  # how long coroutines that never wait may keep the loop from everything else


class ServiceParts(NamedTuple):
    """What the services of a push consumer are made of."""

    listener: Listener
    settings: PushConsumerSettings
    tasks: TaskOwner
    send_backs: SendBacks
    hook_runner: HookRunner
    clock: Clock


class ListenerRunner(ABC, Generic[OwnerT]):
    """Calls listeners with the batches that its service has next."""

    def __init__(self, parts: ServiceParts, next_batch: Callable[[], Work[OwnerT] | None], over: Over[OwnerT]) -> None:
        self._listener = parts.listener
        self._tasks = parts.tasks
        self._now_s = parts.clock.monotonic_s
        self._next_batch = next_batch
        self._over = over

    @abstractmethod
    def wake(self) -> None:
        """There may be a batch."""

    @abstractmethod
    async def close(self, timeout_ms: int) -> bool:
        """Wait for listeners that run; False when some still do."""


class CoroutineRunner(ListenerRunner[OwnerT]):
    """A worker takes batches until none wait, and calls another one to help before it waits itself.

    So listeners that never wait are run by one task in a row, and others by as many as may run at once.
    """

    def __init__(self, parts: ServiceParts, next_batch: Callable[[], Work[OwnerT] | None], over: Over[OwnerT]) -> None:
        super().__init__(parts, next_batch, over)
        self._workers_max = parts.settings.concurrency_max
        self._workers: set[asyncio.Task[Any]] = set()
        self._is_coming = False  # a worker was called and has not begun

    def wake(self) -> None:
        if not self._is_coming and len(self._workers) < self._workers_max:
            self._is_coming = True
            worker = self._tasks.start(self._work(), name="listener")
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    async def _work(self) -> None:
        self._is_coming = False
        try:
            await self._consume()
        finally:
            self._listener.runs.pop(this_task(), None)
            self._workers.discard(this_task())  # at once: what arrives before the task counts as done needs another

    async def _consume(self) -> None:
        function, takes_one = self._listener.function, self._listener.takes_one
        over, clock = self._over, self._now_s
        runs, me = self._listener.runs, this_task()
        began = slice_began = clock()
        while (work := self._next_batch()) is not None:
            owned, batch = work
            if not self._is_coming:
                self.wake()
            runs[me] = batch
            result: Any = None
            failure: Exception | None = None
            try:
                result = await function(batch[0] if takes_one else batch)
            except Exception as error:  # the listener is the application's: its messages have failed
                failure = error
            except asyncio.CancelledError as error:
                try:
                    raise_unless_ours(error)
                except ListenerCancelledError as translated:
                    failure = translated
            ended = clock()
            if ended - began > BLOCKED_S:
                self._listener.took(ended - began)
            over(owned, batch, result, failure, ended - began)
            if ended - slice_began > _SLICE_S:
                await asyncio.sleep(0)
                slice_began = ended = clock()
            began = ended

    async def close(self, timeout_ms: int) -> bool:
        """Waits for those that run; False when some still do."""
        if not self._workers:
            return True
        return not (await asyncio.wait(self._workers, timeout=timeout_ms / 1000))[1]


class ThreadRunner(ListenerRunner[OwnerT]):
    """A thread takes batches until none wait, and calls another one to help before it begins with its own.

    So listeners that return at once are run by one thread in a row, without waking others for each message, and
    those that block by as many as the pool has. No more batches are out than there are threads. Outcomes come back to
    the loop in bunches.
    """

    def __init__(self, parts: ServiceParts, next_batch: Callable[[], Work[OwnerT] | None], over: Over[OwnerT]) -> None:
        super().__init__(parts, next_batch, over)
        self._threads = parts.settings.threads
        self._busy = 0  # batches that are out
        self._ready: deque[Work[OwnerT]] = deque()  # those that no thread has begun with
        self._is_coming = False  # a thread was called and has not begun
        self._outcomes: deque[tuple[OwnerT, list[ReceivedMessage], Any, Exception | None, float]] = deque()
        self._is_reported = False  # the loop will look at the outcomes
        self._idle = asyncio.Event()
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def wake(self) -> None:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        while self._busy < self._threads and (work := self._next_batch()) is not None:
            self._busy += 1
            self._ready.append(work)
        if self._ready:
            self._call_thread()

    def _call_thread(self) -> None:
        """Unless one is on its way already; that two may be called at once does no harm."""
        if not self._is_coming:
            self._is_coming = True
            try:
                self._listener.pool.submit(self._work)
            except RuntimeError as error:
                if not self._is_closed and not self._listener.pool.is_closed:  # else the batches were given up already
                    self._no_thread(error)

    def _no_thread(self, error: RuntimeError) -> None:
        """The system gives none; what waits would wait for ever, for nothing else may arrive."""
        logger.error("no thread for a listener, trying again: batches_waiting=%d error=%s", len(self._ready), error)
        self._is_coming = False
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._loop.call_later, _NO_THREAD_S, self.wake)

    def _work(self) -> None:
        """On a thread of the pool."""
        self._is_coming = False  # first: a caller that still sees True has added its work already
        ident = threading.get_ident()
        try:
            self._consume(ident)
        finally:
            self._listener.runs.pop(ident, None)

    def _consume(self, ident: int) -> None:
        function, takes_one = self._listener.function, self._listener.takes_one
        ready, runs, clock, pool = self._ready, self._listener.runs, self._now_s, self._listener.pool
        while ready and not pool.is_closed:
            try:
                owned, batch = ready.popleft()
            except IndexError:  # another thread was quicker
                return
            if ready:
                self._call_thread()
            runs[ident] = batch
            began, result, failure = clock(), None, None
            try:
                result = function(batch[0] if takes_one else batch)
            except BaseException as error:  # whatever the listener raised, the thread and the others' messages live
                failure = as_failure(error)
            self._outcomes.append((owned, batch, result, failure, clock() - began))
            if not self._is_reported:
                self._is_reported = True
                self._report()

    def _report(self) -> None:
        assert self._loop is not None
        with suppress(RuntimeError):  # the loop is gone, and with it the consumer
            self._loop.call_soon_threadsafe(self._collect)

    def _collect(self) -> None:
        self._is_reported = False  # first: a thread that still sees True has its outcome in already
        outcomes, over = self._outcomes, self._over
        while outcomes:
            self._busy -= 1
            over(*outcomes.popleft())
        self.wake()
        if not self._busy:
            self._idle.set()

    async def close(self, timeout_ms: int) -> bool:
        """Waits for those that run; False when some still do."""
        self._is_closed = True
        self._idle.clear()
        if self._busy:
            await set_within(self._idle, timeout_ms / 1000)
        return not self._busy
