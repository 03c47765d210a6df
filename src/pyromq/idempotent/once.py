"""Listeners that do nothing the second time.

A message that was consumed counts as success at once. One that is being consumed elsewhere does not, because that may
still fail: it is raised as InProgressError, and comes again later. A listener that fails gives its claim back.

Not for orderly listeners that commit themselves: what they call success may be rolled back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, cast, overload

from pyromq.client.consumer.base.listeners import Verdict
from pyromq.client.consumer.rules.orderly_outcome import OrderlyResult, OrderlyStatus
from pyromq.client.consumer.rules.outcome import BatchResult, ConsumeStatus
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import ConfigError
from pyromq.idempotent.keys import Key, message_key
from pyromq.idempotent.leases import Claim
from pyromq.idempotent.marks import MarkedMeanwhileError, Marks
from pyromq.typed.listeners import (
    UndecodableError,
    batch_reader_for,
    is_coroutine_function,
    reader_for,
    takes_messages,
)
from pyromq.typed.listeners import (
    listener as of_message,
)

Single = Callable[[Any], Verdict]  # of a message, or of what it is decoded as
SingleCoroutine = Callable[[Any], Awaitable[Verdict]]
Several = Callable[[list[Any]], Verdict]
SeveralCoroutine = Callable[[list[Any]], Awaitable[Verdict]]

_GOOD = (None, ConsumeStatus.SUCCESS, OrderlyStatus.SUCCESS, OrderlyStatus.COMMIT)


@overload
def once(listener: Single, marks: Marks, *, key: Key = ...) -> Single: ...
@overload
def once(listener: SingleCoroutine, marks: Marks, *, key: Key = ...) -> SingleCoroutine: ...
def once(listener: Any, marks: Marks, *, key: Key = message_key) -> Any:
    """A listener of single messages, function or coroutine, that is not called for what was consumed before.

    It may take what the message is decoded as, like any listener.
    """
    handle_message = of_message(listener)

    def call(messages: list[ReceivedMessage]) -> Any:
        return handle_message(messages[0])

    batch = _for_batch(call, marks, key, is_coroutine=is_coroutine_function(listener))
    if is_coroutine_function(listener):

        async def handle_soon(message: ReceivedMessage) -> Verdict:
            return cast(Verdict, await batch([message]))

        return takes_messages(wraps(listener)(handle_soon))
    return takes_messages(wraps(listener)(lambda message: batch([message])))


@overload
def once_for_batch(listener: Several, marks: Marks, *, key: Key = ...) -> Several: ...
@overload
def once_for_batch(listener: SeveralCoroutine, marks: Marks, *, key: Key = ...) -> SeveralCoroutine: ...
def once_for_batch(listener: Any, marks: Marks, *, key: Key = message_key) -> Any:
    """A batch listener that gets only those messages which were not consumed before.

    When one of them is being consumed elsewhere, the whole batch comes again later.
    """
    read = batch_reader_for(listener)
    call = listener if read is None else lambda messages: listener(read(messages))
    batch = _for_batch(call, marks, key, is_coroutine=is_coroutine_function(listener))
    return takes_messages(wraps(listener)(batch))


def once_in_transaction(listener: Callable[[Any, Any], Verdict], marks: Marks, *, key: Key = message_key) -> Single:
    """``listener(message, connection)`` writes with that connection: mark and effect are committed together.

    The connection is one of ``marks``'s database, which has to be the one that the effect is in. A listener that raises
    or says other than success leaves neither. In transactions of your own use ``Marks.first_time``.
    """
    if is_coroutine_function(listener):
        text = "once_in_transaction runs functions; in a coroutine use your own transaction"
        raise ConfigError(f"{text} and await session.run_sync(marks.first_time, message)")

    read = reader_for(listener)

    @takes_messages
    @wraps(listener)
    def handle(message: ReceivedMessage) -> Verdict:
        value = message if read is None else read(message)
        marks.prune_sometimes()
        try:
            with marks.database.begin() as connection:
                if not marks.first_time(connection, key(message)):
                    marks.note_skips([message])
                    return None
                result = listener(value, connection)
                if not succeeded(result):
                    raise _UndoneError(result)
                return result
        except MarkedMeanwhileError:  # and committed, or our row would not have been refused
            marks.note_skips([message])
            return None
        except _UndoneError as undo:
            return undo.result

    return handle


class _UndoneError(Exception):
    """Rolls back on the way out."""

    def __init__(self, result: Verdict) -> None:
        self.result = result


# --- claims around a batch -----------------------------------------------------------------------------------------


def _for_batch(listener: Callable[..., Any], marks: Marks, key: Key, *, is_coroutine: bool) -> Callable[..., Any]:
    def handle(messages: list[ReceivedMessage]) -> Any:
        work = _Work(marks, key, messages)
        work.claim()
        work.note_skips()
        if not work.fresh:
            return None
        try:
            result = listener(work.fresh)
        except UndecodableError as error:
            work.release()
            raise work.in_the_batch(error) from error
        except BaseException:  # however it ended, others may have its messages; raised again
            work.release()
            raise
        return work.settle(result)

    async def handle_soon(messages: list[ReceivedMessage]) -> Any:
        work = _Work(marks, key, messages)
        try:
            await _on_thread(work.claim)
            work.note_skips()
            if not work.fresh:
                return None
            result = await listener(work.fresh)
        except UndecodableError as error:
            await _on_thread(work.release)
            raise work.in_the_batch(error) from error
        except BaseException:  # however it ended, others may have its messages; raised again
            await _on_thread(work.release)
            raise
        return await _on_thread(work.settle, result)

    return handle_soon if is_coroutine else handle


async def _on_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """To its end, even if the caller is cancelled: a claim that no listener holds would be renewed for ever."""
    work = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise


class _Work:
    """The messages of a batch that are ours to consume."""

    def __init__(self, marks: Marks, key: Key, messages: Sequence[ReceivedMessage]) -> None:
        self._marks = marks
        self._key = key
        self._messages = messages
        self._claims: list[Claim] = []
        self._places: list[int] = []  # of the fresh ones within the batch
        self._skipped: list[ReceivedMessage] = []
        self.fresh: list[ReceivedMessage] = []

    def claim(self) -> None:
        """All, or none: raises InProgressError."""
        places: dict[str, int] = {}
        for place, message in enumerate(self._messages):
            places.setdefault(self._key(message), place)  # the same twice in one batch is handed on once
        for place, claim in zip(places.values(), self._marks.claim_all(list(places)), strict=True):
            if claim is not None:
                self._claims.append(claim)
                self._places.append(place)
                self.fresh.append(self._messages[place])
        if len(self._places) < len(self._messages):
            fresh = frozenset(self._places)
            self._skipped = [each for place, each in enumerate(self._messages) if place not in fresh]

    def note_skips(self) -> None:
        """Those that are not ours to consume, where the listener is called: who listens there hears it."""
        if self._skipped:
            self._marks.note_skips(self._skipped)

    def release(self) -> None:
        if self._claims:
            self._marks.release(*self._claims)

    def in_the_batch(self, error: UndecodableError) -> UndecodableError:
        """Move the places of decoding errors from the claimed part to the whole batch."""
        return UndecodableError({self._places[at]: reason for at, reason in error.reasons.items()})

    def settle(self, result: Any) -> Any:
        """Marks what succeeded; the result, counted in places of the whole batch."""
        done = done_count(result, len(self.fresh))
        try:
            if done:
                self._marks.finish(*self._claims[:done])
        finally:
            if done < len(self._claims):
                self._marks.release(*self._claims[done:])
        if not isinstance(result, BatchResult):
            return result
        levels = {self._places[at]: level for at, level in result.delay_levels.items() if at < len(self._places)}
        if result.ack_index is None or done == len(self.fresh):
            return replace(result, ack_index=None, delay_levels=levels)
        return replace(result, ack_index=self._places[done] - 1, delay_levels=levels)


def done_count(result: Any, count: int) -> int:
    """How many of so many messages succeeded, from the first on."""
    if isinstance(result, BatchResult) and result.status is ConsumeStatus.SUCCESS and result.ack_index is not None:
        return max(0, min(result.ack_index + 1, count))
    return count if succeeded(result) else 0


def succeeded(result: Any) -> bool:
    status = result.status if isinstance(result, BatchResult | OrderlyResult) else result
    return status in _GOOD
