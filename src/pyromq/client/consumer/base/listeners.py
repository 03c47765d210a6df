"""What an application does with messages: a function or a coroutine, for one message or for several at once.

A parameter that is annotated with something else than the message gets the body, decoded (``pyromq.typed.listeners``).

Coroutines run on the consumer's loop, functions on a pool of threads. Returning nothing is success, as Python code
expects it of a function that did its work; raising is failure. ``ConsumeStatus``, ``BatchResult`` (concurrent) and
``OrderlyStatus``, ``OrderlyResult`` (orderly) say more. Anything else is a mistake, and counts as failure.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NoReturn

from pyromq.client.consumer.base.loop_watch import BLOCKED_S, LoopWatch
from pyromq.client.consumer.rules.orderly_outcome import OrderlyResult, OrderlyStatus
from pyromq.client.consumer.rules.outcome import BatchResult, ConsumeStatus
from pyromq.client.core.callback_threads import EXIT_WAIT_S, CallbackThreads
from pyromq.client.core.options import check_callable
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.core.stack_dump import task_text, thread_text
from pyromq.errors import ConfigError
from pyromq.typed.listeners import batch_reader_for, is_coroutine_function, reader_for, takes_message_too

Verdict = ConsumeStatus | BatchResult | OrderlyStatus | OrderlyResult | None
SyncMessageListener = Callable[[Any], Verdict] | Callable[[Any, ReceivedMessage], Verdict]
"""Its parameter is the ReceivedMessage, or what the body is decoded as by its annotation, perhaps with the message."""
SyncBatchListener = Callable[[list[Any]], Verdict]
MessageListener = (
    SyncMessageListener | Callable[[Any], Awaitable[Verdict]] | Callable[[Any, ReceivedMessage], Awaitable[Verdict]]
)
BatchListener = SyncBatchListener | Callable[[list[Any]], Awaitable[Verdict]]


_IDS_SHOWN: Final = 3


class ListenerCancelledError(Exception):
    """Something that a coroutine waited for was cancelled: its message has failed."""


class Listener:
    """``call(batch)`` gives a result, or an awaitable of one if ``is_coroutine``.

    ``runs`` says what is with a listener right now: a runner that calls ``function`` enters its batch under its
    thread's ident or its task, and takes it out again.
    """

    def __init__(
        self,
        one: MessageListener | None,
        many: BatchListener | None,
        *,
        threads: int,
        name: str,
        exit_wait_s: float = EXIT_WAIT_S,
    ) -> None:
        if one is None and many is None:
            raise ConfigError("a push consumer needs listener=… (for one message) or batch_listener=… (for several)")
        if one is not None and many is not None:
            raise ConfigError("a push consumer has either a listener or a batch_listener, not both")
        function: Callable[..., Any] = many if one is None else one  # type: ignore[assignment]
        self._given = function  # as the application wrote it
        called: Callable[..., Any] = _for_message(function) if one is not None else _for_batch(function)
        self.function = called
        self.takes_one = one is not None
        self.is_coroutine = is_coroutine_function(function)
        self.runs: dict[int | asyncio.Task[Any], list[ReceivedMessage]] = {}
        self.call: Callable[[list[ReceivedMessage]], Any] = called if one is None else lambda batch: called(batch[0])
        self._threads = threads
        self._name = name
        self._exit_wait_s = exit_wait_s
        self.watch = LoopWatch(self.function_name) if self.is_coroutine else None
        self._pool: CallbackThreads | None = None

    def wrap(self, function: Callable[[list[ReceivedMessage]], Any]) -> None:
        """Another function, of the same kind, is called with every batch: it calls the listener."""
        self.function = self.call = function
        self.takes_one = False

    @property
    def pool(self) -> CallbackThreads:
        if self._pool is None:
            name = f"pyromq-{self._name}"
            self._pool = CallbackThreads(self._threads, name, what=self._running, exit_wait_s=self._exit_wait_s)
        return self._pool

    @property
    def function_name(self) -> str:
        """Name of the listener as its author knows it."""
        function = self._given
        while isinstance(function, functools.partial):
            function = function.func
        name = getattr(function, "__qualname__", type(function).__qualname__)
        return f"{getattr(function, '__module__', None) or type(function).__module__}.{name}"

    def _running(self) -> str:
        """What the log says of listeners that do not return."""
        ids = [batch[0].message_id for batch in list(self.runs.values())]
        shown = ", ".join(ids[:_IDS_SHOWN]) + (f" and {len(ids) - _IDS_SHOWN} more" if len(ids) > _IDS_SHOWN else "")
        return f"listener {self.function_name} of group {self._name}, which has message {shown or 'unknown'}"

    def close(self) -> None:
        """Threads that are busy end when their listener returns."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    async def invoke(self, batch: list[ReceivedMessage]) -> Any:
        """Whatever the listener returns or raises; a coroutine's own cancellation counts as an exception."""
        if not self.is_coroutine:
            result, failure = await asyncio.get_running_loop().run_in_executor(self.pool, self._outcome, batch)
            if failure is not None:
                raise failure
            return result
        task = asyncio.current_task()
        assert task is not None
        self.runs[task] = batch
        try:
            return await self.call(batch)
        except asyncio.CancelledError as error:
            raise_unless_ours(error)
        finally:
            del self.runs[task]

    def _outcome(self, batch: list[ReceivedMessage]) -> tuple[Any, Exception | None]:
        """On a thread of the pool; some exceptions (StopIteration) could not travel through a future."""
        ident = threading.get_ident()
        self.runs[ident] = batch
        try:
            return self.call(batch), None
        except BaseException as error:  # whatever the listener raised, the message has failed
            return None, as_failure(error)
        finally:
            del self.runs[ident]

    def took(self, seconds: float) -> None:
        """On the loop, after a call: whether it kept the loop from everything else."""
        if self.watch is not None and seconds > BLOCKED_S:
            self.watch.took(seconds, asyncio.get_running_loop().time())

    def stack_of(self, message: ReceivedMessage) -> str | None:
        """Where the listener is that has this message; None when none has."""
        for runner, batch in list(self.runs.items()):
            if any(message is each for each in batch):
                return thread_text(runner) if isinstance(runner, int) else task_text(runner)
        return None


def _for_message(function: Callable[..., Any]) -> Callable[[ReceivedMessage], Any]:
    """A listener as runners call it: with the message. Raises ConfigError.

    Without a frame around the call: what a coroutine function returns is awaited as it is.
    """
    check_callable("listener", function, "a message", also_with="the message beside what is in it")
    read = reader_for(function)
    if read is None:
        check_callable("listener", function, "a message")
        return function
    if takes_message_too(function):
        return lambda message: function(read(message), message)
    return lambda message: function(read(message))


def _for_batch(function: Callable[..., Any]) -> Callable[[list[ReceivedMessage]], Any]:
    check_callable("batch_listener", function, "a list of messages")
    read = batch_reader_for(function)
    return function if read is None else lambda batch: function(read(batch))


def as_failure(error: BaseException) -> Exception:
    """What a listener on a thread raised; whatever it is, the message has failed and the consumer lives."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    try:
        shown = repr(error)
    except Exception:  # it is the application's, and this thread has to live
        shown = type(error).__name__
    failure = RuntimeError(f"the listener raised {shown}")
    failure.__cause__ = error
    return failure


def raise_unless_ours(error: asyncio.CancelledError) -> NoReturn:
    """Raise the cancellation of this task again, and that of something the listener waited for as an Exception."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise error
    raise ListenerCancelledError("something that the listener waited for was cancelled") from error


def checked(result: Any, kinds: Sequence[type[Any]]) -> Any:
    """The result if it is one; raises TypeError for what no listener may return."""
    if isinstance(result, tuple(kinds)):
        return result
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError("the listener returned a coroutine: define it with async def, so that it runs on the loop")
    expected = " or ".join(kind.__name__ for kind in kinds)
    raise TypeError(f"the listener returned {type(result).__name__}; {expected} or nothing was expected")


def verdict_of(result: Any, error: Exception | None, kinds: Sequence[type[Any]]) -> tuple[Any, Exception | None]:
    """Return what a listener decided, or why its messages failed: what it raised, or that its result is none."""
    if error is not None:
        return None, error
    try:
        return checked(result, kinds), None
    except TypeError as none:
        return None, none
