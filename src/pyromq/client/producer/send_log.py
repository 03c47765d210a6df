"""Send log: a line for the result of every send, at DEBUG, while somebody wants to read it.

Whether the logger ``pyromq.client.producer.send_log`` is enabled for DEBUG is asked when a producer is made: a producer
that logs sends by the slow path, every other one pays nothing.
"""

from __future__ import annotations

import logging

from pyromq.client.core.hooks import SendHook
from pyromq.errors import MQError
from pyromq.model.message import Message, SendReceipt

results = logging.getLogger(__name__)


class SendLog(SendHook):
    """Ids and places; bodies and keys stay out."""

    def after_send(self, message: Message, receipt: SendReceipt | None, error: MQError | None, elapsed_ms: int) -> None:
        if receipt is None:
            results.debug("send failed: topic=%s elapsed_ms=%d error=%s", message.topic, elapsed_ms, error)
            return
        facts = (message.topic, receipt.message_id, receipt.status.name, receipt.queue, receipt.offset, elapsed_ms)
        results.debug("sent: topic=%s id=%s status=%s queue=%s offset=%d elapsed_ms=%d", *facts)
