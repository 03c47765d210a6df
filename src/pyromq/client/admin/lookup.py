"""Message lookup: by id, by key, by their place in a queue."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import msgspec

from pyromq.client.admin.base import TIME_MAX, AdminBase, no_message
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import BrokerError, NotFoundError, TopicNotFoundError
from pyromq.model import property_names as names
from pyromq.model.queue import QueueId
from pyromq.model.system_names import TOOL_GROUP
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.flags import PullFlag
from pyromq.wire.headers.consumer import (
    PullHeader,
    PullResponseHeader,
    QueryMessageHeader,
    QueryMessageResponseHeader,
    ViewMessageHeader,
)
from pyromq.wire.message_id import MalformedMessageIdError, decode_offset_id

logger = logging.getLogger(__name__)

_READ_AT_ONCE = 32
_FOUND_OR_NOT = (0, 19, 20, 21)


class QueuePage(msgspec.Struct, frozen=True):
    """What one read of a queue gave: messages in order, where to read on, and what the queue holds now."""

    messages: list[ReceivedMessage]
    next_offset: int
    first: int
    end: int


class LookupAdmin(AdminBase):
    """Of ``Admin``: messages."""

    async def message(self, topic: str, message_id: str) -> ReceivedMessage:
        """By either of its ids. Raises NotFoundError."""
        try:
            return await self.message_by_offset_id(message_id)
        except (MalformedMessageIdError, NotFoundError):
            return await self.message_by_unique_key(topic, message_id)

    async def message_by_offset_id(self, message_id: str) -> ReceivedMessage:
        """By the id that the broker gave. Raises NotFoundError, MalformedMessageIdError.

        An id names the address to ask; only those of brokers that name servers know are asked.
        """
        host, position = decode_offset_id(message_id)
        names = {
            address: broker.broker_name
            for broker in (await self.cluster()).broker_addr_table.values()
            for address in broker.broker_addrs.values()
        }
        if str(host) not in names:
            raise no_message(f"no broker that name servers know has the address {host} of message {message_id}")
        try:
            response = await self._ask(str(host), RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageHeader(position=position))
        except BrokerError as error:
            raise NotFoundError(
                code=ResponseCode.NO_MESSAGE, remark=f"no message {message_id}: {error.remark}"
            ) from error
        return self._messages(response, names[str(host)])[0]

    async def message_by_unique_key(self, topic: str, unique_key: str) -> ReceivedMessage:
        """By the id that its producer gave; the latest if there are several. Raises NotFoundError."""
        found = await self._query(topic, unique_key, 32, 0, TIME_MAX, is_unique_key=True)
        found = [message for message in found if message.message_id == unique_key]
        if not found:
            raise no_message(f"no message of topic {topic} has the id {unique_key}")
        return max(found, key=lambda message: message.stored_ms)

    async def messages_by_key(
        self, topic: str, key: str, *, begin_ms: int = 0, end_ms: int = TIME_MAX, count_max: int = 32
    ) -> list[ReceivedMessage]:
        """Messages that carry a key, oldest first; none if there are none."""
        found = await self._query(topic, key, count_max, begin_ms, end_ms, is_unique_key=False)
        found = [message for message in found if key in message.keys]
        return sorted(found, key=lambda message: message.stored_ms)[:count_max]

    async def message_at(self, queue: QueueId, offset: int) -> ReceivedMessage:
        """The message at an offset of a queue. Raises NotFoundError."""
        stretch = await self.read(queue, offset, count_max=1)
        found = [message for message in stretch.messages if message.offset == offset]
        if not found:
            raise no_message(f"queue {queue.number} of topic {queue.topic} on {queue.broker} has no offset {offset}")
        return found[0]

    async def read(self, queue: QueueId, offset: int, *, count_max: int = _READ_AT_ONCE) -> QueuePage:
        """Messages from an offset on, as many as the broker gives at once; no group moves by it."""
        header = PullHeader(
            consumer_group=TOOL_GROUP,
            topic=queue.topic,
            queue_id=queue.number,
            queue_offset=offset,
            max_msg_nums=count_max,
            sys_flag=int(PullFlag.SUBSCRIPTION),
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription="*",
            sub_version=0,
            expression_type="TAG",
        )
        link = self.client.brokers.link(await self._address(queue.broker))
        response = await self.client.ask(link, RequestCode.PULL_MESSAGE, header, expect=_FOUND_OR_NOT)
        told = response.header_as(PullResponseHeader)
        return QueuePage(
            self._messages(response, queue.broker), told.next_begin_offset, told.min_offset, told.max_offset
        )

    async def walk(self, queue: QueueId, begin: int, end: int) -> AsyncIterator[ReceivedMessage]:
        """The messages of ``[begin, end)`` that are still there, one after the other."""
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
        """The last messages of a topic over all its queues, oldest first. Raises TopicNotFoundError."""
        found: list[ReceivedMessage] = []
        for queue in (await self.route(topic)).readable_queues(self.client.wire_name(topic)):
            end = (await self.read(queue, 0, count_max=1)).end
            found += [message async for message in self.walk(queue, max(0, end - count), end)]
        return sorted(found, key=lambda message: (message.stored_ms, message.position))[-count:]

    async def _query(
        self, topic: str, key: str, count_max: int, begin_ms: int, end_ms: int, *, is_unique_key: bool
    ) -> list[ReceivedMessage]:
        header = QueryMessageHeader(
            topic=self.client.wire_name(topic),
            key=key,
            max_num=count_max,
            begin_timestamp=begin_ms,
            end_timestamp=end_ms,
            unique_key_query=is_unique_key,
        )
        found: list[ReceivedMessage] = []
        for broker in (await self.route(topic)).broker_datas:
            found += await self._query_broker(broker.readable_addr() or "", broker.broker_name, header)
        return found

    async def _query_broker(self, address: str, broker: str, header: QueryMessageHeader) -> list[ReceivedMessage]:
        try:
            response = await self._ask(address, RequestCode.QUERY_MESSAGE, header)
        except (NotFoundError, TopicNotFoundError):
            return []
        if response.header_as(QueryMessageResponseHeader).older_unseen:
            logger.warning(
                "older messages may have the key, too many have its hash (ask for an earlier end of the time range): "
                "broker=%s topic=%s key=%s",
                *(broker, header.topic, header.key),
            )
        return self._messages(response, broker)

    async def _copies(self, topic: str, unique_key: str) -> list[ReceivedMessage]:
        """All with that id in a topic, on any broker; the topic as servers know it, also one without a route."""
        header = QueryMessageHeader(
            topic=topic, key=unique_key, max_num=32, begin_timestamp=0, end_timestamp=TIME_MAX, unique_key_query=True
        )
        found: list[ReceivedMessage] = []
        for name, address in (await self._named_masters()).items():
            found += await self._query_broker(address, name, header)
        matching = [message for message in found if message.get(names.UNIQUE_KEY) == unique_key]
        return sorted(matching, key=lambda message: (message.stored_ms, message.position))
