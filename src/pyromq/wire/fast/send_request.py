"""Fields of a send request, written out.

The plain form is ``header_to_ext`` of a ``SendV2Header``, at twice the cost; fields are the largest part of what a send
costs its client.
"""

from __future__ import annotations

from typing import Final, Protocol

from pyromq.model.queue import QueueId
from pyromq.wire.codes import RequestCode

_SEND_BATCH: Final = int(RequestCode.SEND_BATCH_MESSAGE)


class SendFacts(Protocol):
    """What is needed of a message on its way out; ``topic`` as servers know it, ``properties`` as one text."""

    code: int
    topic: str
    properties: str
    born_ms: int
    flag: int
    sys_flag: int


def header_fields(
    message: SendFacts, queue: QueueId, group: str, template_topic: str, queue_nums: str
) -> dict[str, str]:
    """The fields of a SendV2Header as they go on the wire."""
    return {
        "a": group,
        "b": message.topic,
        "c": template_topic,
        "d": queue_nums,
        "e": str(queue.number),
        "f": str(message.sys_flag),
        "g": str(message.born_ms),
        "h": str(message.flag),
        "i": message.properties,
        "j": "0",
        "k": "false",
        "m": "true" if message.code == _SEND_BATCH else "false",
        "n": queue.broker,
    }
