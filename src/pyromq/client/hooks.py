"""Looking on while messages are sent: for tracing, metrics, policies."""

from __future__ import annotations

from pyromq.errors import MQError
from pyromq.model.message import Message, SendReceipt


class SendHook:
    """Subclass it and hand it to a producer. Called on the producer's loop, once per message, so it must not block."""

    def before_send(self, message: Message) -> None:
        """May raise to forbid the send; the caller gets that error."""

    def after_send(self, message: Message, receipt: SendReceipt | None, error: MQError | None, elapsed_ms: int) -> None:
        """Either a receipt or an error. What it raises is logged and changes nothing."""
