"""Request and reply: messages whose sender waits for what a consumer replies; ``pending_replies`` has the drawing."""

from __future__ import annotations

import asyncio
from random import Random, SystemRandom
from uuid import UUID

from pyromq.client.core.client import Client
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.producer.outgoing import SEND_REPLY
from pyromq.client.producer.slow_path import SlowPath
from pyromq.client.producer.topic_queues_table import REPLY_TOPIC_SUFFIX, TopicQueuesTable
from pyromq.errors import ClientClosedError, MessageRefusedError, NoReplyError
from pyromq.model import property_names as names
from pyromq.model.message import Message, SendReceipt
from pyromq.typed import message as message_of
from pyromq.wire.property_text import join_items


class PendingReplies:
    """Requests and the replies they wait for."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._waiting: dict[str, asyncio.Future[ReceivedMessage]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def expect(self) -> tuple[str, asyncio.Future[ReceivedMessage]]:
        """A new correlation id, and a future of the reply to it; ``forget`` it in any case."""
        correlation_id = str(UUID(int=self._rng.getrandbits(128), version=4))
        waiter: asyncio.Future[ReceivedMessage] = asyncio.get_running_loop().create_future()
        waiter.add_done_callback(_look)
        self._waiting[correlation_id] = waiter
        return correlation_id, waiter

    def forget(self, correlation_id: str) -> None:
        self._waiting.pop(correlation_id, None)

    def arrived(self, message: ReceivedMessage) -> bool:
        """False if no request waits for it."""
        waiter = self._waiting.get(message.get(names.CORRELATION_ID) or "")
        if waiter is None or waiter.done():
            return False
        waiter.set_result(message)
        return True

    def close(self) -> None:
        for waiter in self._waiting.values():
            if not waiter.done():
                waiter.set_exception(ClientClosedError("the producer was closed before a reply came"))


def request_properties(correlation_id: str, client_id: str, timeout_ms: int) -> str:
    return join_items(
        [
            (names.CORRELATION_ID, correlation_id),
            (names.REPLY_TO_CLIENT, client_id),
            (names.TIME_TO_LIVE, str(timeout_ms)),
        ]
    )


def reply_of(request: ReceivedMessage) -> tuple[str, str]:
    """Topic and properties of a reply. Raises MessageRefusedError if the message asks for none."""
    cluster, correlation_id, client_id = map(request.get, (names.CLUSTER, names.CORRELATION_ID, names.REPLY_TO_CLIENT))
    if not (cluster and correlation_id and client_id):
        raise MessageRefusedError(f"message {request.message_id} is no request: it does not ask for a reply")
    properties = [
        (names.MESSAGE_TYPE, "reply"),
        (names.CORRELATION_ID, correlation_id),
        (names.REPLY_TO_CLIENT, client_id),
        (names.TIME_TO_LIVE, request.get(names.TIME_TO_LIVE) or ""),
    ]
    return cluster + REPLY_TOPIC_SUFFIX, join_items(item for item in properties if item[1])


def _look(waiter: asyncio.Future[ReceivedMessage]) -> None:
    """An exception that no caller waited for is no mistake."""
    if not waiter.cancelled():
        waiter.exception()


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
