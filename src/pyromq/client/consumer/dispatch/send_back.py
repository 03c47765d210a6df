"""Send-back of a consumer's failed messages: to the broker that has them, or else as a copy to the group's retry topic.

failed       36 CONSUMER_SEND_MSG_BACK ──refused, unreachable──▶ SEND to %RETRY%group, any broker ──▶ False: keep it
   Apache    SEND to %RETRY%group, its own broker first, with the story ──not taken──▶ 36, without ──▶ False: keep it
dead letter  SEND to %RETRY%group, with the reason ──not taken──▶ 36, level −1 ──▶ False: keep it

Apache's brokers have no place for the story of a failure in 36, so a copy carries it: with the attempts, the delay and
the origin that the broker itself would have given it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from pyromq.client.consumer.base.broker_calls import BrokerCalls
from pyromq.client.consumer.base.failure_recorder import FailureRecorder
from pyromq.client.consumer.base.send_back import BODY_FLAGS, Begun, SendBackCalls
from pyromq.client.consumer.rules.outcome import DEAD_LETTER_LEVEL, NO_REASON
from pyromq.client.consumer.rules.retry_copy import copy_level, copy_properties
from pyromq.client.core.client import Client
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.producer.outgoing import OutgoingMessage
from pyromq.errors import MQError
from pyromq.model import property_names as names
from pyromq.typed.body_errors import one_line
from pyromq.wire.property_text import join_items

logger = logging.getLogger(__name__)

REASON_CHARACTERS_MAX: Final = 1_000
_TRIES_MAX: Final = 3
_NOTHING: Final[Mapping[str, str]] = {}
_WITHOUT_MARKS: Final = str.maketrans({names.NAME_END: " ", names.ITEM_END: " "})


class SendBacks:
    """For one group; ``attempts_max`` None means that of the group. Nothing here raises MQError.

    ``recorder`` notes on messages why they failed, before they are sent back.
    """

    def __init__(
        self, client: Client, calls: BrokerCalls, group: str, attempts_max: int | None, recorder: FailureRecorder
    ) -> None:
        self.recorder = recorder
        self.group = group
        self._client = client
        self._broker_calls = calls
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
        limit = message.delivery_attempt if delay_level < 0 else self._attempts_max
        is_copied = False
        try:
            if begun is None and not await self._calls.takes_story(message):
                is_copied = True
                if await self._send_copy(message, limit, delay_level, own_first=True):
                    return True
            await self._calls.send_back(message, delay_level, begun)
            return True
        except MQError as error:
            logger.info("not sent back: id=%s error=%s", message.message_id, error)
        return not is_copied and await self._send_copy(message, limit, delay_level)

    async def is_counted_by_broker(self, message: ReceivedMessage) -> bool:
        """Whether the broker of a popped message makes it a dead letter at the limit of its group; True if unknown."""
        try:
            return await self._broker_calls.takes_stories(message.broker)
        except MQError:
            return True

    async def send_dead_letter(self, message: ReceivedMessage) -> bool:
        """An orderly consumer gives a message up; False when no broker took it."""
        return await self._send_copy(message, self._attempts_max, 0)

    async def give_up(self, message: ReceivedMessage, reason: str, stage: str) -> bool:
        """A dead letter at once, with the reason as a property; False when no broker took it.

        The copy has one attempt more than it may have. Without the reason it goes where no copy is taken, as when the
        properties would be too long.
        """
        text = one_line(self.recorder.mask(reason).translate(_WITHOUT_MARKS), REASON_CHARACTERS_MAX)
        facts = {names.DLQ_ERROR: text or NO_REASON, names.DLQ_STAGE: stage}
        if await self._send_copy(message, message.delivery_attempt, None, facts):
            return True
        try:
            await self._calls.send_back(message, DEAD_LETTER_LEVEL)
            return True
        except MQError as error:
            logger.warning("dead letter kept here: id=%s error=%s", message.message_id, error)
            return False

    async def _send_copy(
        self,
        message: ReceivedMessage,
        attempts_max: int | None,
        delay_level: int | None,
        facts: Mapping[str, str] = _NOTHING,
        *,
        own_first: bool = False,
    ) -> bool:
        """The copy counts this failure; one that has more than ``attempts_max`` then is a dead letter."""
        topic = self._calls.retry_topic
        try:
            copy = self._copy_of(message, delay_level, facts)
            route = await self._client.routes.get(topic, timeout_ms=self._client.settings.request_timeout_ms)
            queues = route.publishable_queues(topic)
        except MQError as error:
            logger.warning("failed message kept here: id=%s error=%s", message.message_id, error)
            return False
        self._client.rng.shuffle(queues)
        if own_first and (own := [queue for queue in queues if queue.broker == message.broker][:1]):
            queues = [*own, *(queue for queue in queues if queue.broker != message.broker)]
        for queue in queues[:_TRIES_MAX]:
            try:
                await self._calls.send_copy(copy, queue, message.delivery_attempt, attempts_max)
                return True
            except MQError as error:
                logger.warning("copy not taken: id=%s broker=%s error=%s", message.message_id, queue.broker, error)
        return False

    def _copy_of(self, message: ReceivedMessage, delay_level: int | None, facts: Mapping[str, str]) -> OutgoingMessage:
        """The body travels as it was stored: unpacked it might be larger than a broker takes."""
        level = 0 if delay_level is None else copy_level(delay_level, message.delivery_attempt)
        properties = copy_properties(
            join_items(message.properties.items()),
            topic=message.stored_topic,
            message_id=message.offset_message_id,
            delay_level=level,
            story=message.untold_story,
            more=facts,
        )
        flags = message.sys_flag & BODY_FLAGS
        return self._calls.copy_of(message, properties, message.packed_body, flags, born_ms=message.born_ms)
