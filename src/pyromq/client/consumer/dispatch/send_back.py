"""Send-back of a consumer's failed messages: the carrier whose copies go to any broker of the group's retry topic.

``rules.send_back_plan`` has the steps. Where no broker takes a message, False is returned and the message is kept.
"""

from __future__ import annotations

import logging

from pyromq.client.consumer.base.broker_calls import BrokerCalls
from pyromq.client.consumer.base.failure_recorder import FailureRecorder
from pyromq.client.consumer.base.send_back import BODY_FLAGS, Begun, Content, SendBackCarrier
from pyromq.client.consumer.rules.send_back_plan import Fate, Step, letter_facts
from pyromq.client.core.client import Client
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.producer.outgoing import OutgoingMessage
from pyromq.errors import MQError, TopicNotFoundError
from pyromq.wire.property_text import join_items

logger = logging.getLogger(__name__)

_TRIES_MAX = 3


class SendBacks(SendBackCarrier[ReceivedMessage]):
    """For one group; ``attempts_max`` None means that of the group. Nothing public here raises MQError.

    ``recorder`` notes on messages why they failed, before they are sent back.
    """

    def __init__(
        self, client: Client, calls: BrokerCalls, group: str, attempts_max: int | None, recorder: FailureRecorder
    ) -> None:
        super().__init__(client, calls, group, attempts_max)
        self.recorder = recorder

    def begin(self, message: ReceivedMessage, delay_level: int) -> Begun | None:
        try:
            return super().begin(message, delay_level)
        except Exception:  # also a mistake of ours: the slow path comes upon it too, and knows what to do
            return None

    async def send_back(self, message: ReceivedMessage, delay_level: int, begun: Begun | None = None) -> bool:
        """To be delivered again, or a dead letter when the level is below 0; False when no broker took it.

        ``begun`` is what the fast path ended with.
        """
        return await self._is_carried(message, Fate(delay_level), begun)

    async def is_counted_by_broker(self, message: ReceivedMessage) -> bool:
        """Whether the broker of a popped message makes it a dead letter at the limit of its group; True if unknown."""
        try:
            return await self._calls.takes_stories(message.broker)
        except MQError:
            return True

    async def send_dead_letter(self, message: ReceivedMessage) -> bool:
        """An orderly consumer gives a message up; False when no broker took it."""
        return await self._is_carried(message, Fate(is_orderly=True))

    async def give_up(self, message: ReceivedMessage, reason: str, stage: str) -> bool:
        """A dead letter at once, with the reason as a property; False when no broker took it."""
        return await self._is_carried(message, Fate(facts=letter_facts(self.recorder.mask(reason), stage)))

    async def _is_carried(self, message: ReceivedMessage, fate: Fate, begun: Begun | None = None) -> bool:
        try:
            await self.carry(message, fate, begun)
            return True
        except MQError as error:
            logger.warning("failed message kept here: id=%s error=%s", message.message_id, error)
            return False

    async def _content(self, message: ReceivedMessage) -> Content:
        """The body travels as it was stored: unpacked it might be larger than a broker takes."""
        properties, flags = join_items(message.properties.items()), message.sys_flag & BODY_FLAGS
        return Content(properties, message.offset_message_id, message.packed_body, flags, message.born_ms)

    async def _send_copies(self, copy: OutgoingMessage, message: ReceivedMessage, step: Step) -> None:
        """To any broker of the retry topic."""
        topic, error = self.retry_topic, None
        route = await self._client.routes.get(topic, timeout_ms=self._client.settings.request_timeout_ms)
        queues = route.publishable_queues(topic)
        self._client.rng.shuffle(queues)
        if step.own_first and (own := [queue for queue in queues if queue.broker == message.broker][:1]):
            queues = [*own, *(queue for queue in queues if queue.broker != message.broker)]
        for queue in queues[:_TRIES_MAX]:
            try:
                return await self._send_copy(copy, queue, message, step)
            except MQError as refusal:
                error = refusal
                logger.warning("copy not taken: id=%s broker=%s error=%s", message.message_id, queue.broker, error)
        raise error or TopicNotFoundError(topic, f"topic {topic} has no queue to write to")
