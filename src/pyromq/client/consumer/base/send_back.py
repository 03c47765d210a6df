"""Send-back: a failed message on its way back to a broker, or a copy of it to the group's retry topic.

    the broker takes no stories   a copy, in which the story is                    the same
    36 CONSUMER_SEND_MSG_BACK ──▶ stored (``send_statuses``)                       the message may be finished
         │ what then?             consumers (dispatch.send_back)                   Spark (pipeline.consuming.send_back)
         ├─ refused               a copy, to any broker of the retry topic         a copy, to the same broker
         └─ no response           the same                                         once more, within ``retryTimeout``
    the copy is not taken         the message is kept and tried again here         once more, within ``retryTimeout``

Both send by this class; ``rules.retry_copy`` says what is in a request. A group of Spark has no members, so its retry
topic may not exist: brokers create it with the first copy, and that is why the copy goes to the broker of the row.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from pyromq.client.consumer.base.broker_calls import SEND_BACK_MS, BrokerCalls
from pyromq.client.consumer.rules.retry_copy import FailedMessage, send_back_header
from pyromq.client.core.client import Client
from pyromq.client.core.errors import error_of
from pyromq.client.producer.outgoing import SEND, OutgoingMessage
from pyromq.model.names import DEFAULT_TOPIC, retry_topic
from pyromq.model.queue import QueueId
from pyromq.wire.fast.send_request import header_fields
from pyromq.wire.flags import COMPRESSION_MASK, SysFlag
from pyromq.wire.headers.consumer import SendBackHeader
from pyromq.wire.received import Received
from pyromq.wire.send_statuses import STORED_CODES

Begun = asyncio.Future[Received[Any]]
"""A message that was sent back and waits for the response."""

BODY_FLAGS: Final = SysFlag.COMPRESSED | COMPRESSION_MASK
"""What of a message's flags says how its body is compressed."""
_INNER_PRODUCER: Final = "CLIENT_INNER_PRODUCER"


def is_taken(begun: Begun) -> bool:
    """Whether the response says so; ``send_back`` finds out why not."""
    return not begun.cancelled() and begun.exception() is None and begun.result().code in STORED_CODES


class SendBackCalls:
    """For one group; ``attempts_max`` None means that of the group, as the broker knows it."""

    def __init__(self, client: Client, calls: BrokerCalls, group: str, attempts_max: int | None) -> None:
        self._client = client
        self._calls = calls
        self._group = group
        self._attempts_max = attempts_max
        self.retry_topic = retry_topic(group)

    async def takes_story(self, message: FailedMessage) -> bool:
        """Whether a send-back tells all there is to tell; with False a copy is to be sent. Raises TransportError."""
        return message.untold_story is None or await self._calls.takes_stories(message.broker)

    def begin(self, message: FailedMessage, delay_level: int) -> Begun | None:
        """The fast path: a request without a task. None when there is no connection that would take it at once."""
        return self._calls.begin_send_back(message.broker, self._header(message, delay_level))

    async def send_back(self, message: FailedMessage, delay_level: int, begun: Begun | None = None) -> None:
        """To be delivered again, or a dead letter when the level is below 0.

        ``begun`` is what the fast path ended with. Raises BrokerError when the broker refuses it, TransportError when
        it gives no response.
        """
        response = await (begun or self._calls.send_back(message.broker, self._header(message, delay_level)))
        if response.code not in STORED_CODES:
            raise error_of(response)

    def _header(self, message: FailedMessage, delay_level: int) -> SendBackHeader:
        topic = self._client.wire_name(message.stored_topic)
        return send_back_header(message, self._group, delay_level, topic=topic, attempts_max=self._attempts_max)

    def copy_of(
        self, message: FailedMessage, properties: str, body: bytes, sys_flag: int = 0, *, born_ms: int | None = None
    ) -> OutgoingMessage:
        """A copy for the retry topic; ``sys_flag`` says how the body is compressed, ``born_ms`` None means now."""
        return OutgoingMessage(
            code=SEND,
            topic=self.retry_topic,
            body=body,
            properties=properties,
            unique_ids="",
            born_ms=self._client.clock.now_ms() if born_ms is None else born_ms,
            deadline_ms=0,
            flag=message.flag,
            sys_flag=sys_flag,
        )

    async def send_copy(
        self, copy: OutgoingMessage, queue: QueueId, delivery_attempt: int, attempts_max: int | None
    ) -> None:
        """The copy counts this failure: with more than ``attempts_max`` then, it is a dead letter. Raises MQError."""
        fields = header_fields(copy, queue, _INNER_PRODUCER, DEFAULT_TOPIC, "1")
        fields["j"] = str(delivery_attempt + 1)
        if attempts_max is not None:
            fields["l"] = str(attempts_max)
        signed = self._client.signer.signed(fields, copy.body)
        link = self._client.master_link(queue.broker)
        response = await link.request(SEND, signed, copy.body, timeout_ms=SEND_BACK_MS)
        if response.code not in STORED_CODES:
            raise error_of(response)
