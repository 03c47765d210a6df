"""Failed messages on their way back: to the broker that has them, or else as a copy to the group's retry topic.

36 CONSUMER_SEND_MSG_BACK ──refused, unreachable──▶ SEND to %RETRY%group, any broker ──▶ False: keep the message
"""

from __future__ import annotations

import logging
from typing import Final

from pyromq.client.client import Client
from pyromq.client.errors import error_of
from pyromq.client.group_calls import SEND_BACK_MS, GroupCalls
from pyromq.client.letters import SEND, Letter, header_fields, system_text
from pyromq.client.received_message import ReceivedMessage
from pyromq.client.resend import ATTEMPT, ATTEMPTS_MAX, UNLIMITED, resend_properties
from pyromq.errors import MQError
from pyromq.model.names import DEFAULT_TOPIC, retry_topic
from pyromq.wire.codes import ResponseCode
from pyromq.wire.headers.consumer import SendBackHeader

logger = logging.getLogger(__name__)

INNER_PRODUCER: Final = "CLIENT_INNER_PRODUCER"
_TRIES_MAX: Final = 3
_STORED: Final = frozenset(
    (
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
    )
)


class Returns:
    """``attempt`` is how often a message was delivered before, as this member counts; nothing here raises MQError."""

    def __init__(self, client: Client, calls: GroupCalls, group: str, attempts_max: int | None) -> None:
        self._client, self._calls, self._group, self._attempts_max = client, calls, group, attempts_max

    async def give_back(self, message: ReceivedMessage, delay_level: int, attempt: int) -> bool:
        """To be delivered again, or buried when the level is below 0; False when no broker took it."""
        header = SendBackHeader(
            position=message.position,
            group=self._group,
            delay_level=delay_level,
            origin_msg_id=message.message_id,
            origin_topic=message.stored_topic,
            max_reconsume_times=UNLIMITED if self._attempts_max is None else self._attempts_max,
        )
        try:
            await self._calls.send_back(message.broker, header)
            return True
        except MQError as error:
            logger.info("not sent back, sending a copy: id=%s error=%s", message.message_id, error)
        is_dead = delay_level < 0
        return await self._send_copy(message, attempt, attempt if is_dead else self._attempts_max, counts=True)

    async def bury(self, message: ReceivedMessage, attempt: int) -> bool:
        """An orderly consumer gives a message up; False when no broker took it."""
        return await self._send_copy(message, attempt, self._attempts_max, counts=False)

    async def _send_copy(
        self, message: ReceivedMessage, attempt: int, attempts_max: int | None, *, counts: bool
    ) -> bool:
        topic = retry_topic(self._group)
        timeout_ms = self._client.settings.request_timeout_ms
        try:
            properties = resend_properties(
                message,
                stored_topic=message.stored_topic,
                message_id=message.offset_message_id,
                attempt=attempt,
                attempts_max=attempts_max,
                counts=counts,
            )
            attempts, limit = properties.pop(ATTEMPT), properties.pop(ATTEMPTS_MAX)
            letter = Letter(
                code=SEND,
                topic=topic,
                body=message.body,
                properties=system_text(properties.items()),
                unique_ids="",
                born_ms=self._client.clock.now_ms(),
                deadline_ms=0,
                flag=message.flag,
            )
            route = await self._client.routes.get(topic, timeout_ms=timeout_ms)
            queues = route.publishable_queues(topic)
        except MQError as error:
            logger.warning("failed message kept here: id=%s error=%s", message.message_id, error)
            return False
        self._client.rng.shuffle(queues)
        for queue in queues[:_TRIES_MAX]:
            fields = header_fields(letter, queue, INNER_PRODUCER, DEFAULT_TOPIC, "1")
            fields["j"], fields["l"] = attempts, limit
            try:
                link = self._client.master_link(queue.broker)
                signed = self._client.signer.signed(fields, letter.body)
                answer = await link.request(SEND, signed, letter.body, timeout_ms=SEND_BACK_MS)
                if answer.code in _STORED:
                    return True
                raise error_of(answer)
            except MQError as error:
                logger.warning("copy not taken: id=%s broker=%s error=%s", message.message_id, queue.broker, error)
        return False
