"""Stored messages: found by id, by key, by their place in a queue. No group moves by any of it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Final

from pyromq.client.admin.broker_requests import READ_AT_ONCE, QueuePage
from pyromq.client.admin.requests import AdminRequests
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import BrokerError, NotFoundError, TopicNotFoundError
from pyromq.model import property_names as names
from pyromq.model.queue import QueueId
from pyromq.wire.codes import ResponseCode
from pyromq.wire.headers.consumer import QueryMessageHeader
from pyromq.wire.message_id import MalformedMessageIdError, decode_offset_id

logger = logging.getLogger(__name__)

TIME_MAX: Final = (1 << 63) - 1


class StoredMessages:
    """Reads messages where they are stored."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests
        self._client = requests.client

    async def get(self, topic: str, message_id: str) -> ReceivedMessage:
        """Return a message by either of its ids. Raises NotFoundError."""
        try:
            return await self.by_offset_id(message_id)
        except (MalformedMessageIdError, NotFoundError):
            return await self.by_unique_key(topic, message_id)

    async def by_offset_id(self, message_id: str) -> ReceivedMessage:
        """Return a message by the id that the broker gave. Raises NotFoundError, MalformedMessageIdError.

        An id names the address to ask; only those of brokers that name servers know are asked.
        """
        host, position = decode_offset_id(message_id)
        brokers = {
            address: broker.broker_name
            for broker in (await self._requests.nameservers.cluster()).broker_addr_table.values()
            for address in broker.broker_addrs.values()
        }
        if str(host) not in brokers:
            raise no_message(f"no broker that name servers know has the address {host} of message {message_id}")
        try:
            return await self._requests.brokers.message_at(str(host), brokers[str(host)], position)
        except BrokerError as error:
            raise no_message(f"no message {message_id}: {error.remark}") from error

    async def by_unique_key(self, topic: str, unique_key: str) -> ReceivedMessage:
        """Return a message by the id that its producer gave; the latest of several. Raises NotFoundError."""
        found = await self._query(topic, unique_key, 32, 0, TIME_MAX, is_unique_key=True)
        found = [message for message in found if message.message_id == unique_key]
        if not found:
            raise no_message(f"no message of topic {topic} has the id {unique_key}")
        return max(found, key=lambda message: message.stored_ms)

    async def find(
        self, topic: str, key: str, *, begin_ms: int = 0, end_ms: int = TIME_MAX, count_max: int = 32
    ) -> list[ReceivedMessage]:
        """Return messages that carry a key, oldest first; none if there are none."""
        found = await self._query(topic, key, count_max, begin_ms, end_ms, is_unique_key=False)
        found = [message for message in found if key in message.keys]
        return sorted(found, key=lambda message: message.stored_ms)[:count_max]

    async def at(self, queue: QueueId, offset: int) -> ReceivedMessage:
        """Return the message at an offset of a queue. Raises NotFoundError."""
        stretch = await self.read(queue, offset, count_max=1)
        found = [message for message in stretch.messages if message.offset == offset]
        if not found:
            raise no_message(f"queue {queue.number} of topic {queue.topic} on {queue.broker} has no offset {offset}")
        return found[0]

    async def read(self, queue: QueueId, offset: int, *, count_max: int = READ_AT_ONCE) -> QueuePage:
        """Return messages from an offset on, as many as the broker gives at once."""
        return await self._requests.brokers.read(queue, offset, count_max)

    async def walk(self, queue: QueueId, begin: int, end: int) -> AsyncIterator[ReceivedMessage]:
        """Give the messages of ``[begin, end)`` that are still there, one after the other."""
        offset = begin
        while offset < end:
            stretch = await self.read(queue, offset)
            for message in stretch.messages:
                if message.offset >= end:
                    return
                yield message
            following = max(stretch.next_offset, stretch.messages[-1].offset + 1 if stretch.messages else 0)
            if following <= offset or stretch.first >= stretch.end:
                return
            offset = following

    async def newest(self, topic: str, count: int = 10) -> list[ReceivedMessage]:
        """Return the last messages of a topic over all its queues, oldest first. Raises TopicNotFoundError."""
        found: list[ReceivedMessage] = []
        for queue in await self._requests.directory.queues(topic):
            end = (await self.read(queue, 0, count_max=1)).end
            found += [message async for message in self.walk(queue, max(0, end - count), end)]
        return sorted(found, key=lambda message: (message.stored_ms, message.position))[-count:]

    async def copies(self, topic: str, unique_key: str) -> list[ReceivedMessage]:
        """Return all messages with that id in a topic, oldest first, on any broker.

        The topic is as servers know it, with its namespace; it may have no route.
        """
        header = QueryMessageHeader(
            topic=topic, key=unique_key, max_num=32, begin_timestamp=0, end_timestamp=TIME_MAX, unique_key_query=True
        )
        found: list[ReceivedMessage] = []
        for name, address in (await self._requests.directory.named_masters()).items():
            found += await self._query_broker(address, name, header)
        matching = [message for message in found if message.get(names.UNIQUE_KEY) == unique_key]
        return sorted(matching, key=lambda message: (message.stored_ms, message.position))

    async def _query(
        self, topic: str, key: str, count_max: int, begin_ms: int, end_ms: int, *, is_unique_key: bool
    ) -> list[ReceivedMessage]:
        header = QueryMessageHeader(
            topic=self._client.wire_name(topic),
            key=key,
            max_num=count_max,
            begin_timestamp=begin_ms,
            end_timestamp=end_ms,
            unique_key_query=is_unique_key,
        )
        found: list[ReceivedMessage] = []
        for broker, address in (await self._requests.directory.brokers_of(topic)).items():
            found += await self._query_broker(address, broker, header)
        return found

    async def _query_broker(self, address: str, broker: str, header: QueryMessageHeader) -> list[ReceivedMessage]:
        try:
            found = await self._requests.brokers.messages_by_key(address, broker, header)
        except (NotFoundError, TopicNotFoundError):
            return []
        if found.is_cut:
            logger.warning(
                "older messages may have the key, too many have its hash (ask for an earlier end of the time range): "
                "broker=%s topic=%s key=%s",
                *(broker, header.topic, header.key),
            )
        return found.messages


def no_message(text: str) -> NotFoundError:
    return NotFoundError(code=ResponseCode.NO_MESSAGE, remark=text)
