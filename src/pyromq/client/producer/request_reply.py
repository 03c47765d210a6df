"""Request and reply: messages whose sender waits for what a consumer replies; ``pending_replies`` has the drawing."""

from __future__ import annotations

import asyncio
from random import SystemRandom

from pyromq.client.core.client import Client
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.producer.outgoing import SEND_REPLY
from pyromq.client.producer.pending_replies import PendingReplies, reply_of, request_properties
from pyromq.client.producer.slow_path import SlowPath
from pyromq.client.producer.topic_queues_table import TopicQueuesTable
from pyromq.errors import NoReplyError
from pyromq.model.message import Message, SendReceipt
from pyromq.typed import message as message_of


class RequestReply:
    """Requests of one producer and the replies to them."""

    def __init__(self, client: Client, topic_queues_table: TopicQueuesTable, slow_path: SlowPath) -> None:
        self._client = client
        self._topic_queues_table = topic_queues_table
        self._slow_path = slow_path
        self._replies = PendingReplies(SystemRandom())  # whoever could foresee an id could forge the reply
        self._reported: set[str] = set()  # brokers that heard a heartbeat before a request was sent

    async def ask(self, message: Message, timeout_ms: int) -> ReceivedMessage:
        """Send a request and wait for its reply. Raises NoReplyError, and what sending raises."""
        correlation_id, waiter = self._replies.expect()
        system = request_properties(correlation_id, self._client.id, timeout_ms)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._notify_brokers(message.topic, timeout_ms)
                await self._slow_path.send(message, None, None, timeout_ms, system)
                return await waiter
        except TimeoutError as error:
            raise NoReplyError(f"no reply to a request of topic {message.topic} within {timeout_ms} ms") from error
        finally:
            self._replies.forget(correlation_id)

    async def reply(self, request: ReceivedMessage, value: object, tags: str, timeout_ms: int) -> SendReceipt:
        """Send the reply to a request. Raises MessageRefusedError if it is no request, and what sending raises."""
        topic, system = reply_of(request)
        message = message_of(topic, value, tags=tags)
        return await self._slow_path.send(message, None, None, timeout_ms, system, code=SEND_REPLY)

    def arrived(self, message: ReceivedMessage) -> bool:
        """A reply; False if no request here waits for it."""
        return self._replies.arrived(message)

    def close(self) -> None:
        """Requests that still wait end with ClientClosedError."""
        self._replies.close()

    async def _notify_brokers(self, topic: str, timeout_ms: int) -> None:
        """The reply may come through any broker, so all of them must know this client."""
        await self._topic_queues_table.find(topic, timeout_ms)
        addresses = set(self._client.brokers.addresses(masters_only=True))
        if not addresses <= self._reported:
            await self._client.heartbeat_now()
            self._reported = addresses
