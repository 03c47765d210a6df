"""Failed messages on their way back: to the broker that has them, or else as a copy to the group's retry topic.

36 CONSUMER_SEND_MSG_BACK ──refused, unreachable──▶ SEND to %RETRY%group, any broker ──▶ False: keep the message
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from pyromq.client.consumer.base.broker_calls import SEND_BACK_MS, BrokerCalls
from pyromq.client.consumer.rules.retry_copy import ATTEMPT, ATTEMPTS_MAX, UNLIMITED, resend_properties
from pyromq.client.core.client import Client
from pyromq.client.core.errors import error_of
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.producer.outgoing import SEND, OutgoingMessage
from pyromq.errors import MQError
from pyromq.model.names import DEFAULT_TOPIC, retry_topic
from pyromq.model.queue import QueueId
from pyromq.wire.codes import ResponseCode
from pyromq.wire.fast.send_request import header_fields
from pyromq.wire.flags import COMPRESSION_MASK, SysFlag
from pyromq.wire.headers.consumer import SendBackHeader
from pyromq.wire.property_text import join_items
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

Begun = asyncio.Future[Received[Any]]
"""A message that was sent back and waits for the answer."""

INNER_PRODUCER: Final = "CLIENT_INNER_PRODUCER"
_TRIES_MAX: Final = 3
_BODY_FLAGS: Final = SysFlag.COMPRESSED | COMPRESSION_MASK
_STORED: Final = frozenset(
    (
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
    )
)


def is_taken(begun: Begun) -> bool:
    """Whether the answer says so; ``give_back`` finds out why not."""
    return not begun.cancelled() and begun.exception() is None and begun.result().code == ResponseCode.SUCCESS


class SendBacks:
    """For one group; ``attempts_max`` None means no limit. Nothing here raises MQError."""

    def __init__(self, client: Client, calls: BrokerCalls, group: str, attempts_max: int | None) -> None:
        self._client = client
        self._calls = calls
        self._group = group
        self._attempts_max = attempts_max

    def begin(self, message: ReceivedMessage, delay_level: int) -> Begun | None:
        """The short way: a request without a task. None when there is no connection that would take it at once."""
        try:
            return self._calls.begin_send_back(message.broker, self._header(message, delay_level))
        except Exception:  # also a mistake of ours: the long way comes upon it too, and knows what to do
            return None

    async def give_back(self, message: ReceivedMessage, delay_level: int, begun: Begun | None = None) -> bool:
        """To be delivered again, or buried when the level is below 0; False when no broker took it.

        ``begun`` is what the short way ended with.
        """
        try:
            response = await (begun or self._calls.send_back(message.broker, self._header(message, delay_level)))
            if response.code == ResponseCode.SUCCESS:
                return True
            raise error_of(response)
        except MQError as error:
            logger.info("not sent back, sending a copy: id=%s error=%s", message.message_id, error)
        limit = message.delivery_attempt if delay_level < 0 else self._attempts_max
        return await self._send_copy(message, limit, delay_level)

    def _header(self, message: ReceivedMessage, delay_level: int) -> SendBackHeader:
        return SendBackHeader(
            position=message.position,
            group=self._group,
            delay_level=delay_level,
            origin_msg_id=message.message_id,
            origin_topic=message.stored_topic,
            max_reconsume_times=UNLIMITED if self._attempts_max is None else self._attempts_max,
        )

    async def bury(self, message: ReceivedMessage) -> bool:
        """An orderly consumer gives a message up; False when no broker took it."""
        return await self._send_copy(message, self._attempts_max, 0)

    async def _send_copy(self, message: ReceivedMessage, attempts_max: int | None, delay_level: int) -> bool:
        """The copy counts this failure; one that has more than ``attempts_max`` then is a dead letter."""
        topic = retry_topic(self._group)
        try:
            properties = resend_properties(
                message,
                stored_topic=message.stored_topic,
                message_id=message.offset_message_id,
                attempts_max=attempts_max,
                delay_level=delay_level,
            )
            counts = {"j": properties.pop(ATTEMPT), "l": properties.pop(ATTEMPTS_MAX)}
            letter = self._letter(topic, message, join_items(properties.items()))
            route = await self._client.routes.get(topic, timeout_ms=self._client.settings.request_timeout_ms)
            queues = route.publishable_queues(topic)
        except MQError as error:
            logger.warning("failed message kept here: id=%s error=%s", message.message_id, error)
            return False
        self._client.rng.shuffle(queues)
        for queue in queues[:_TRIES_MAX]:
            try:
                await self._send(letter, queue, counts)
                return True
            except MQError as error:
                logger.warning("copy not taken: id=%s broker=%s error=%s", message.message_id, queue.broker, error)
        return False

    def _letter(self, topic: str, message: ReceivedMessage, properties: str) -> OutgoingMessage:
        """The body travels as it was stored: unpacked it might be larger than a broker takes."""
        return OutgoingMessage(
            code=SEND,
            topic=topic,
            body=message.packed_body,
            properties=properties,
            unique_ids="",
            born_ms=self._client.clock.now_ms(),
            deadline_ms=0,
            flag=message.flag,
            sys_flag=message.sys_flag & _BODY_FLAGS,
        )

    async def _send(self, letter: OutgoingMessage, queue: QueueId, counts: dict[str, str]) -> None:
        fields = {**header_fields(letter, queue, INNER_PRODUCER, DEFAULT_TOPIC, "1"), **counts}
        link = self._client.master_link(queue.broker)
        signed = self._client.signer.signed(fields, letter.body)
        response = await link.request(SEND, signed, letter.body, timeout_ms=SEND_BACK_MS)
        if response.code not in _STORED:
            raise error_of(response)
