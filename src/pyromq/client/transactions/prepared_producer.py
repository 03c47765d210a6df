"""The producer inside a transaction producer: it sends prepared messages, and brokers know it before it has sent any.

Brokers ask those producers of a group for outcomes whose heartbeats they hear. One that was just started, perhaps
because its predecessor died, has to be among them; so it finds the brokers of its topics and greets them first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.producer.producer import Producer
from pyromq.client.producer.selectors import QueueSelector
from pyromq.errors import MessageRefusedError, MQError
from pyromq.model.message import Message, SendReceipt
from pyromq.model.queue import QueueId
from pyromq.model.route import TopicRoute
from pyromq.net import Connection
from pyromq.wire.flags import SysFlag
from pyromq.wire.headers.callback import CheckTransactionHeader

logger = logging.getLogger(__name__)

OnCheck = Callable[[ReceivedMessage, CheckTransactionHeader, Connection], None]


class PreparedProducer(Producer):
    """``on_check(message, header, connection)`` is called when a broker asks."""

    _sends_prepared = True

    def __init__(
        self, topics: frozenset[str], on_check: OnCheck, nameservers: str | Sequence[str], **given: Any
    ) -> None:
        super().__init__(nameservers, **given)
        self._own_topics = topics
        self._on_check = on_check
        self._is_registered = False

    async def send_prepared(
        self,
        message: Message,
        system: str,
        queue: QueueId | None,
        selector: QueueSelector | None,
        timeout_ms: int | None,
    ) -> SendReceipt:
        self._require_open()
        if message.priority is not None:
            raise MessageRefusedError("priority in a transaction: brokers drop it; send one without the other")
        return await self._slow_path.send(message, queue, selector, timeout_ms, system, sys_flag=SysFlag.PREPARED.value)

    async def register(self) -> None:
        """What cannot be reached now is tried again by the client, with its routes and heartbeats."""
        timeout_ms = self.client.settings.request_timeout_ms
        topics = sorted(self._own_topics)
        found = [self._topic_queues_table.find(topic, timeout_ms) for topic in topics]
        for topic, outcome in zip(topics, await asyncio.gather(*found, return_exceptions=True), strict=True):
            if isinstance(outcome, MQError):
                logger.warning("not known to the brokers of a topic yet: topic=%s error=%s", topic, outcome)
            elif isinstance(outcome, BaseException):
                raise outcome
        await self.client.heartbeat_now()
        self._is_registered = True

    def topics(self) -> list[str]:
        return sorted({*super().topics(), *map(self.client.wire_name, self._own_topics)})

    def route_changed(self, topic: str, route: TopicRoute) -> None:
        super().route_changed(topic, route)
        if self._is_registered and self.client.is_open:
            self.client.tasks.start(self.client.heartbeat_now(), name="heartbeat")

    def check_transaction(
        self, message: ReceivedMessage, header: CheckTransactionHeader, connection: Connection
    ) -> bool:
        self._on_check(message, header, connection)
        return True
