"""Looking on while messages are sent and consumed: for tracing, metrics, policies."""

from __future__ import annotations

from collections.abc import Sequence

from pyromq.client.received_message import ReceivedMessage
from pyromq.errors import MQError
from pyromq.model.message import Message, SendReceipt


class SendHook:
    """Subclass it and hand it to a producer. Called on the producer's loop, once per message, so it must not block."""

    def before_send(self, message: Message) -> None:
        """May raise to forbid the send; the caller gets that error."""

    def after_send(self, message: Message, receipt: SendReceipt | None, error: MQError | None, elapsed_ms: int) -> None:
        """Either a receipt or an error. What it raises is logged and changes nothing."""


class ConsumeHook:
    """Looks on while listeners are called. Called on the consumer's loop, so it must not block, nor raise."""

    def before_consume(self, messages: Sequence[ReceivedMessage]) -> object:
        """A listener gets these; what is returned comes back in ``after_consume``."""
        return None

    def after_consume(self, messages: Sequence[ReceivedMessage], began: object, code: int, elapsed_ms: int) -> None:
        """It ended, in one of the ways of ``wire.trace.ConsumeCode``."""
