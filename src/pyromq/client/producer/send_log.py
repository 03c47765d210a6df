"""Send log: a line for the result of every send, at DEBUG, while somebody wants to read it.

Whether the logger ``pyromq.client.producer.send_log`` is enabled for DEBUG is asked when a producer is made: a producer
that logs sends by the slow path, every other one pays nothing.
"""

from __future__ import annotations

import logging
from typing import Final

from pyromq.client.core.hooks import SendHook
from pyromq.errors import MQError, quoted
from pyromq.model.message import Message, SendReceipt

results = logging.getLogger(__name__)

_KEYS_CHARACTERS_MAX: Final = 200


class SendLog(SendHook):
    """Ids, keys and places; bodies stay out."""

    def after_send(self, message: Message, receipt: SendReceipt | None, error: MQError | None, elapsed_ms: int) -> None:
        what = (message.topic, quoted(" ".join(message.keys), _KEYS_CHARACTERS_MAX))
        if receipt is None:
            results.debug("send failed: topic=%s keys=%s elapsed_ms=%d error=%s", *what, elapsed_ms, error)
            return
        where = (receipt.message_id, receipt.status.name, receipt.queue, receipt.offset, elapsed_ms)
        results.debug("sent: topic=%s keys=%s id=%s status=%s queue=%s offset=%d elapsed_ms=%d", *what, *where)
