"""Check-backs: brokers ask how transactions ended, and the application's ``check`` answers.

A coroutine runs on the loop, a function on a pool of threads; so many at a time, and so many waiting. What does not fit
is not answered: the broker asks again. It also asks again while the outcome is being found out, each time about a newer
copy of the prepared message, and an outcome for an older one too would make two messages of it; so one question per
transaction waits, and the outcome goes to the newest.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias, cast

import msgspec

from pyromq.client.consumer.base.listeners import as_failure, raise_unless_ours
from pyromq.client.core.callback_threads import CallbackThreads
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.core.tasks import TaskOwner
from pyromq.client.core.transaction import PreparedPlace, TransactionOutcome, outcome_of
from pyromq.errors import ConfigError
from pyromq.net import Connection
from pyromq.typed.listeners import is_coroutine_function

logger = logging.getLogger(__name__)

Check: TypeAlias = (
    Callable[[ReceivedMessage], TransactionOutcome | None]
    | Callable[[ReceivedMessage], Awaitable[TransactionOutcome | None]]
)


class Question(msgspec.Struct, frozen=True):
    """A broker's, with the way back."""

    message: ReceivedMessage
    place: PreparedPlace
    connection: Connection


class CheckBacks:
    """``answer(question, outcome)`` is called on the loop, once for every transaction that was asked about."""

    def __init__(
        self,
        check: Check,
        response: Callable[[Question, TransactionOutcome], None],
        *,
        workers: int,
        waiting_max: int,
        name: str,
    ) -> None:
        if not callable(check):
            raise ConfigError(f"check is a function or a coroutine function, not {type(check).__name__}")
        if workers < 1 or waiting_max < 1:
            raise ConfigError("check_workers and checks_max must be positive")
        self._check = check
        self._respond = response
        self._name = name
        self._is_coroutine = is_coroutine_function(check)
        self._workers_max = workers
        self._waiting_max = waiting_max
        self._newest: dict[str, Question] = {}  # by transaction, those that wait and those in work
        self._order: deque[str] = deque()  # those that wait
        self._workers: set[asyncio.Task[None] | None] = set()
        self._pool: CallbackThreads | None = None

    def ask(self, question: Question, tasks: TaskOwner) -> None:
        key = question.place.transaction_id
        if key in self._newest:
            self._newest[key] = question
            return
        if len(self._newest) >= self._waiting_max:
            logger.warning(
                "check-back left to the broker's next try: group=%s waiting=%d", self._name, len(self._order)
            )
            return
        self._newest[key] = question
        self._order.append(key)
        if len(self._workers) < self._workers_max:
            self._workers.add(tasks.start(self._work(), name="check"))

    async def _work(self) -> None:
        worker = asyncio.current_task()
        try:
            while self._order:
                key = self._order.popleft()
                outcome = await self._outcome(self._newest[key].message)
                self._respond(self._newest.pop(key), outcome)
        finally:
            self._workers.discard(
                worker
            )  # in the same step that saw no more work: later is too late for a check that comes now

    async def _outcome(self, message: ReceivedMessage) -> TransactionOutcome:
        try:
            return outcome_of(await self._result(message))
        except Exception:  # the check is the application's: the broker will ask again
            logger.exception("check failed, outcome stays unknown: transaction=%s", message.transaction_id)
            return TransactionOutcome.UNKNOWN

    async def _result(self, message: ReceivedMessage) -> TransactionOutcome | None:
        if not self._is_coroutine:
            if self._pool is None:
                name = self._name
                what = f"the check of transactions of group {name}"
                self._pool = CallbackThreads(self._workers_max, f"pyromq-check-{name}", what=lambda: what)
            result, failure = await asyncio.get_running_loop().run_in_executor(self._pool, self._called, message)
            if failure is not None:
                raise failure
            return result
        try:
            return cast(TransactionOutcome | None, await self._check(message))  # type: ignore[misc]
        except asyncio.CancelledError as error:
            raise_unless_ours(error)

    def _called(self, message: ReceivedMessage) -> tuple[TransactionOutcome | None, Exception | None]:
        """On a thread of the pool; some exceptions (StopIteration) could not travel through a future."""
        try:
            return self._check(message), None  # type: ignore[return-value]
        except BaseException as error:  # whatever the check raised, the worker lives
            return None, as_failure(error)

    async def close(self, timeout_ms: int) -> None:
        """Waits a while for checks that have begun; those that wait are dropped."""
        for key in self._order:
            del self._newest[key]
        self._order.clear()
        if self._workers:
            await asyncio.wait([worker for worker in self._workers if worker], timeout=timeout_ms / 1000)
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
