"""Hooks: code of the application that looks on while messages are sent and consumed, for tracing, metrics, policies."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest

from pyromq.client.core.received_message import ReceivedMessage
from pyromq.clock import Clock
from pyromq.errors import MQError
from pyromq.model.message import Message, SendReceipt

logger = logging.getLogger(__name__)


class SendHook:
    """Subclass it and hand it to a producer. Called on the producer's loop, once per message, so it must not block."""

    def before_send(self, message: Message) -> None:
        """May raise to forbid the send; the caller gets that error."""

    def after_send(self, message: Message, receipt: SendReceipt | None, error: MQError | None, elapsed_ms: int) -> None:
        """Either a receipt or an error; a send that was cancelled has one too. What it raises is logged, no more."""


class ConsumeHook:
    """Looks on while listeners are called. Called on the consumer's loop, so it must not block, nor raise."""

    def before_consume(self, messages: Sequence[ReceivedMessage]) -> object:
        """A listener gets these; what is returned comes back in ``after_consume``."""
        return None

    def after_consume(self, messages: Sequence[ReceivedMessage], began: object, code: int, elapsed_ms: int) -> None:
        """It ended, in one of the ways of ``wire.trace.ConsumeCode``."""


class SendHooks:
    """Those of one producer, called in turn."""

    def __init__(self, hooks: Sequence[SendHook], clock: Clock) -> None:
        self._hooks = tuple(hooks)
        self._clock = clock

    def __bool__(self) -> bool:
        return bool(self._hooks)

    @contextmanager
    def around(self, messages: Sequence[Message]) -> Iterator[list[SendReceipt]]:
        """A block that sends and puts receipts into the list, in order; messages without one have failed."""
        for hook in self._hooks:
            for message in messages:
                hook.before_send(message)
        receipts, started_ms = list[SendReceipt](), self._clock.monotonic_ms()
        try:
            yield receipts
        except BaseException as error:  # hooks hear the end of all that they heard the beginning of; raised again
            self._ended(messages, receipts, _told(error), started_ms)
            raise
        self._ended(messages, receipts, None, started_ms)

    def _ended(
        self, messages: Sequence[Message], receipts: Sequence[SendReceipt], error: MQError | None, started_ms: int
    ) -> None:
        elapsed_ms = self._clock.monotonic_ms() - started_ms
        for hook in self._hooks:
            for message, receipt in zip_longest(messages, receipts):
                try:
                    hook.after_send(message, receipt, None if receipt else error, elapsed_ms)
                except Exception:  # a hook's mistake must not turn a stored message into a failed one
                    logger.exception("hook failed after a send: topic=%s", message.topic)


def _told(error: BaseException) -> MQError:
    """Without an error a send that was cancelled would look like one that succeeded."""
    if isinstance(error, MQError):
        return error
    told = MQError(f"the send was given up, so it is not known whether it is stored: {error!r}")
    told.__cause__ = error
    return told
