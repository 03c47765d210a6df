"""Pending sends: each is a future, whose end comes from a response or from a task; no coroutine waits for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

from pyromq.client.core.tasks import TaskOwner
from pyromq.client.producer.fast_path import Begun
from pyromq.client.producer.retrying_sender import RetryingSender
from pyromq.compiled_core import SentFacts
from pyromq.errors import ClientClosedError, TransportError
from pyromq.model.message import SendReceipt
from pyromq.net import TooManyRequestsError
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

SendCallback = Callable[[SendReceipt | None, BaseException | None], None]
Outcome = asyncio.Future[SendReceipt]

_LOOK_S: Final = 0.05
"""Between two looks for cancelled sends, when there is no room: one takes as long as a thousand sends."""


class PendingSends:
    """Those of one producer, ``in_flight_max`` at most. ``tasks`` says which TaskOwner there is now."""

    def __init__(self, retrying_sender: RetryingSender, tasks: Callable[[], TaskOwner], in_flight_max: int) -> None:
        self._retrying_sender = retrying_sender
        self._tasks = tasks
        self._in_flight_max = in_flight_max
        self._receipt_of = retrying_sender.receipt
        self._receipt_of_facts = retrying_sender.receipt_of_facts
        self._outcomes: set[Outcome] = set()  # also those that were cancelled and whose response is not there yet
        self._look_again_s = 0.0  # by the loop's clock
        self._unreported: set[Outcome] = set()  # those whose callback was not called yet, whether they are over or not

    def require_room(self, topic: str) -> None:
        """Check that another send may be begun. Raises TooManyRequestsError."""
        if len(self._outcomes) >= self._in_flight_max:
            now_s = asyncio.get_running_loop().time()
            if now_s >= self._look_again_s:
                self._outcomes = {outcome for outcome in self._outcomes if not outcome.done()}
                self._look_again_s = now_s + _LOOK_S
            if len(self._outcomes) >= self._in_flight_max:
                raise TooManyRequestsError(peer=f"topic {topic}", in_flight_max=self._in_flight_max)

    def add_begun(self, begun: Begun, callback: SendCallback | None) -> Outcome:
        """One that took the fast path and waits for its response."""
        outcome = self._added(callback)
        begun[3].add_done_callback(partial(self._on_response, begun, outcome))
        return outcome

    def add(self, work: Coroutine[Any, Any, SendReceipt], callback: SendCallback | None) -> Outcome:
        """One that takes the slow path, in a task."""
        outcome = self._added(callback)
        self._continue(work, outcome)
        return outcome

    async def close(self, timeout_ms: int) -> None:
        """Waits a while for them, and for their callbacks."""
        if waited_for := self._outcomes | self._unreported:
            await asyncio.wait(waited_for, timeout=timeout_ms / 1000)

    def give_up(self) -> None:
        """Those that are left fail."""
        for outcome in list(self._outcomes):
            if not outcome.done():
                outcome.set_exception(ClientClosedError("the producer was closed before the response came"))

    def _added(self, callback: SendCallback | None) -> Outcome:
        outcome: Outcome = asyncio.get_running_loop().create_future()
        self._outcomes.add(outcome)
        if callback is not None:
            self._unreported.add(outcome)
            outcome.add_done_callback(partial(self._report, callback))
        return outcome

    def _on_response(self, begun: Begun, outcome: Outcome, response: asyncio.Future[Received[Any] | SentFacts]) -> None:
        if outcome.done():
            self._outcomes.discard(outcome)
            return
        if response.cancelled():
            return
        outgoing, queue, connection, _ = begun
        error = response.exception()
        if isinstance(error, TransportError):
            self._continue(self._retrying_sender.after_failure(outgoing, queue, error), outcome)
        elif error is not None:
            self._outcomes.discard(outcome)
            outcome.set_exception(error)
        elif isinstance(received := response.result(), tuple) or received.code == 0:
            self._outcomes.discard(outcome)
            try:
                if isinstance(received, tuple):
                    receipt = self._receipt_of_facts(outgoing, queue, received)
                else:
                    receipt = self._receipt_of(outgoing, queue, received)
            except Exception as unreadable:  # or a defect: nobody else would end this send
                outcome.set_exception(unreadable)
            else:
                outcome.set_result(receipt)
        else:
            self._continue(self._retrying_sender.after_response(outgoing, queue, connection, received), outcome)

    def _continue(self, work: Coroutine[Any, Any, SendReceipt], outcome: Outcome) -> None:
        """The rest of a send, as a task."""
        outcome.add_done_callback(self._over)
        try:
            task = self._tasks().start(_settle(work, outcome), name="send")
        except ClientClosedError as error:
            work.close()
            outcome.set_exception(error)
        else:
            outcome.add_done_callback(lambda done: task.cancel() if done.cancelled() else None)
            task.add_done_callback(partial(_left_behind, outcome))

    def _over(self, outcome: Outcome) -> None:
        self._outcomes.discard(outcome)

    def _report(self, callback: SendCallback, outcome: Outcome) -> None:
        self._unreported.discard(outcome)
        error = asyncio.CancelledError() if outcome.cancelled() else outcome.exception()
        try:
            callback(None if error else outcome.result(), error)
        except Exception:  # the callback is the application's; the send is over either way
            logger.exception("callback of a send failed")


async def _settle(work: Coroutine[Any, Any, SendReceipt], outcome: Outcome) -> None:
    try:
        receipt = await work
    except Exception as error:  # whatever it is, the future reports it (hooks and selectors may raise all)
        if not outcome.done():
            outcome.set_exception(error)
    else:
        if not outcome.done():
            outcome.set_result(receipt)


def _left_behind(outcome: Outcome, task: asyncio.Task[None]) -> None:
    """A client that is closed ends the sends of all its producers, and their futures must report it."""
    if task.cancelled() and not outcome.done():
        outcome.set_exception(ClientClosedError("the client was closed before the response came"))
