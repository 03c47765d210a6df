"""Send-back of a consumer's failed messages: to the broker that has them, or else as a copy to the group's retry topic.

36 CONSUMER_SEND_MSG_BACK ──refused, unreachable──▶ SEND to %RETRY%group, any broker ──▶ False: keep the message
"""

from __future__ import annotations

import logging
from typing import Final

from pyromq.client.consumer.base.broker_calls import BrokerCalls
from pyromq.client.consumer.base.send_back import BODY_FLAGS, Begun, SendBackCalls
from pyromq.client.consumer.rules.retry_copy import copy_level, copy_properties
from pyromq.client.core.client import Client
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.producer.outgoing import OutgoingMessage
from pyromq.errors import MQError
from pyromq.wire.property_text import join_items

logger = logging.getLogger(__name__)

_TRIES_MAX: Final = 3


class SendBacks:
    """For one group; ``attempts_max`` None means that of the group. Nothing here raises MQError."""

    def __init__(self, client: Client, calls: BrokerCalls, group: str, attempts_max: int | None) -> None:
        self._client = client
        self._calls = SendBackCalls(client, calls, group, attempts_max)
        self._attempts_max = attempts_max

    def begin(self, message: ReceivedMessage, delay_level: int) -> Begun | None:
        """The fast path: a request without a task. None when there is no connection that would take it at once."""
        try:
            return self._calls.begin(message, delay_level)
        except Exception:  # also a mistake of ours: the slow path comes upon it too, and knows what to do
            return None

    async def send_back(self, message: ReceivedMessage, delay_level: int, begun: Begun | None = None) -> bool:
        """To be delivered again, or a dead letter when the level is below 0; False when no broker took it.

        ``begun`` is what the fast path ended with.
        """
        try:
            await self._calls.send_back(message, delay_level, begun)
            return True
        except MQError as error:
            logger.info("not sent back, sending a copy: id=%s error=%s", message.message_id, error)
        limit = message.delivery_attempt if delay_level < 0 else self._attempts_max
        return await self._send_copy(message, limit, delay_level)

    async def send_dead_letter(self, message: ReceivedMessage) -> bool:
        """An orderly consumer gives a message up; False when no broker took it."""
        return await self._send_copy(message, self._attempts_max, 0)

    async def _send_copy(self, message: ReceivedMessage, attempts_max: int | None, delay_level: int) -> bool:
        """The copy counts this failure; one that has more than ``attempts_max`` then is a dead letter."""
        topic = self._calls.retry_topic
        try:
            copy = self._copy_of(message, delay_level)
            route = await self._client.routes.get(topic, timeout_ms=self._client.settings.request_timeout_ms)
            queues = route.publishable_queues(topic)
        except MQError as error:
            logger.warning("failed message kept here: id=%s error=%s", message.message_id, error)
            return False
        self._client.rng.shuffle(queues)
        for queue in queues[:_TRIES_MAX]:
            try:
                await self._calls.send_copy(copy, queue, message.delivery_attempt, attempts_max)
                return True
            except MQError as error:
                logger.warning("copy not taken: id=%s broker=%s error=%s", message.message_id, queue.broker, error)
        return False

    def _copy_of(self, message: ReceivedMessage, delay_level: int) -> OutgoingMessage:
        """The body travels as it was stored: unpacked it might be larger than a broker takes."""
        properties = copy_properties(
            join_items(message.properties.items()),
            topic=message.stored_topic,
            message_id=message.offset_message_id,
            delay_level=copy_level(delay_level, message.delivery_attempt),
        )
        return self._calls.copy_of(message, properties, message.packed_body, message.sys_flag & BODY_FLAGS)
