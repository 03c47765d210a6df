"""Requests of the driver: which queues there are and what they hold, where a group stands.

Failures are retried for ``retryTimeout``, because an exception would end the query. Names are those on the wire.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from pyromq.client.consumer.base.broker_calls import BrokerCalls
from pyromq.client.consumer.base.expression_check import ExpressionCheck
from pyromq.client.consumer.rules.subscription import subscribe_sql
from pyromq.client.core.roles import ConsumerRole
from pyromq.clock import Clock, SystemClock
from pyromq.errors import GroupNotFoundError, MQError, NoPermissionError, TopicNotFoundError
from pyromq.model.names import RETRY_PREFIX, retry_topic
from pyromq.model.queue import QueueId
from pyromq.model.system_names import kind_of_topic, names_of_servers
from pyromq.operate.admin import Admin
from pyromq.pipeline.arrow.layout import record_starts
from pyromq.pipeline.core.connections import Connected, connect
from pyromq.pipeline.core.keywords import did_you_mean
from pyromq.pipeline.core.offsets import HeldRange, OffsetRange, Offsets
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.core.retry_window import RetryWindow
from pyromq.pipeline.reading.pulls import NO_GROUP, RangeReader
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.headers.shared import TopicHeader
from pyromq.wire.json import bodies
from pyromq.wire.json.bodies import TopicStats

T = TypeVar("T")

_SAMPLE_BYTES: Final = 1


class Cluster:
    """For one query; every method waits for brokers, and raises SourceUnreachableError when they stay away.

    ``asks_anew``: for a batch, which is planned once and must not miss a queue that is younger than the routes a worker
    has kept from the batch before.
    """

    def __init__(
        self,
        options: SourceOptions,
        *,
        asks_anew: bool = False,
        clock: Clock | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._options = options
        self._asks_anew = asks_anew
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._connected: Connected | None = None
        self._listed: tuple[str, ...] = ()  # topics that match the pattern
        self._listed_ms: int | None = None  # when they were listed
        self._checked: set[str] = set()  # topics whose brokers understand the filter
        self._is_introduced = False  # whether brokers know the group

    @property
    def connected(self) -> Connected:
        if self._connected is None or not self._connected.is_usable:
            self._connected = connect(self._options)
        return self._connected

    # --- queues ---

    def held(self, *, missing_ok: bool = False) -> dict[QueueId, HeldRange]:
        """Every queue of every topic that is read.

        Raises BrokerError for a filter that is not understood; TopicNotFoundError, NoPermissionError unless
        ``missing_ok``.
        """
        return self._surely("asking brokers for their queues", lambda: self._held(missing_ok))

    async def _held(self, missing_ok: bool) -> dict[QueueId, HeldRange]:
        topics = await self._topics()
        tables = await asyncio.gather(*(self._held_of(topic, missing_ok) for topic in topics))
        await self._check_filter({queue.topic for table in tables for queue in table})
        return {queue: there for table in tables for queue, there in sorted(table.items())}

    async def _topics(self) -> list[str]:
        client, options = self.connected.client, self._options
        found = list(options.topics) if options.topics else list(await self._matching())
        if options.include_retry:
            found.append(retry_topic(options.group))
        return [client.wire_name(topic) for topic in found]

    async def _matching(self) -> tuple[str, ...]:
        now_ms = self._clock.monotonic_ms()
        if self._listed_ms is None or now_ms - self._listed_ms >= self._options.discovery_ms:
            matches = re.compile(self._options.topic_pattern).fullmatch
            admin = Admin(client=self.connected.client)
            names, cluster = await admin.topics.names(), await admin.brokers.cluster()
            own = names_of_servers(cluster.cluster_addr_table, cluster.broker_addr_table)
            self._listed = tuple(name for name in names if matches(name) and kind_of_topic(name, own).is_users)
            self._listed_ms = now_ms
        return self._listed

    async def _check_filter(self, topics: set[str]) -> None:
        """Apache's broker sends everything when it does not understand an expression: so it is asked before."""
        new = topics - self._checked
        if self._options.sql and new:
            check = ExpressionCheck(self.connected.client, self._group)
            await check.require(subscribe_sql(topic, self._options.sql, 0) for topic in sorted(new))
        self._checked |= new

    async def _held_of(self, topic: str, missing_ok: bool) -> dict[QueueId, HeldRange]:
        client = self.connected.client
        may_be_missing = missing_ok or bool(self._options.topic_pattern) or topic.startswith(RETRY_PREFIX)
        try:
            ask = client.routes.refresh if self._asks_anew else client.routes.get
            route = await ask(topic, timeout_ms=self._options.request_ms)
            addresses = [address for broker in route.broker_datas if (address := broker.readable_addr())]
            links = [client.brokers.link(address) for address in addresses]
            header = TopicHeader(topic=topic)
            responses = await asyncio.gather(
                *(client.ask(link, RequestCode.GET_TOPIC_STATS_INFO, header) for link in links)
            )
        except TopicNotFoundError:
            client.routes.forget(topic)
            if may_be_missing:
                return {}
            raise await self._not_found(topic) from None
        readable = route.readable_queues(topic)
        if not readable and not may_be_missing:
            text = f"no queue of topic {topic} is readable; an operator has to give the topic permission 6"
            raise NoPermissionError(code=ResponseCode.NO_PERMISSION, remark=text)
        stats = [bodies.decode(response.body, TopicStats).offset_table for response in responses]
        known = {queue: there for table in stats for queue, there in table.items()}
        return {
            queue: HeldRange(max(0, known[queue].min_offset), max(0, known[queue].max_offset))
            for queue in readable
            if queue in known
        }

    async def _not_found(self, topic: str) -> TopicNotFoundError:
        """The error for a topic that is not there, with the closest name that is."""
        try:
            hint = did_you_mean(topic, await Admin(client=self.connected.client).topics.names())
        except MQError:  # the list is only for the hint
            hint = ""
        text = hint or f"create it first: pyromq topic create {topic}"
        return TopicNotFoundError(topic, f"there is no topic {topic} at {self._options.nameserver}; {text}")

    # --- offsets ---

    def stored(self, queues: Iterable[QueueId]) -> Offsets:
        """Where the group stands, for the queues where it does; nowhere without a group, and nobody is asked."""
        if not self._options.group:
            return {}
        return self._surely("asking where the group stands", lambda: self._stored(list(queues)))

    async def _stored(self, queues: list[QueueId]) -> Offsets:
        admin, group = Admin(client=self.connected.client), self._options.group
        found = await asyncio.gather(*(admin.offsets.committed(group, queue) for queue in queues))
        pairs = zip(queues, found, strict=True)
        return {queue: offset for queue, offset in pairs if offset is not None and offset >= 0}

    def at_time(self, queues: Iterable[QueueId], time_ms: int, held: Mapping[QueueId, HeldRange]) -> Offsets:
        """The first message of each queue that was stored then or later; the end of the queue if there is none."""
        return self._surely("searching messages by time", lambda: self._at_time(list(queues), time_ms, held))

    async def _at_time(self, queues: list[QueueId], time_ms: int, held: Mapping[QueueId, HeldRange]) -> Offsets:
        calls = await self._calls(queues)
        found = await asyncio.gather(*(calls.offset_at(queue, time_ms) for queue in queues))
        return {
            queue: min(max(int(offset), held[queue].first), held[queue].end)
            for queue, offset in zip(queues, found, strict=True)
        }

    def commit(self, offsets: Mapping[QueueId, int]) -> None:
        """The group stands there from now on."""
        self._surely("storing the progress of the group", lambda: self._commit(offsets))

    async def _commit(self, offsets: Mapping[QueueId, int]) -> None:
        calls = await self._calls(offsets)
        if not self._is_introduced and not await self._has_retry_topic():
            await self._introduce()
        self._is_introduced = True
        try:
            await asyncio.gather(*(calls.commit_surely(queue, offset) for queue, offset in offsets.items()))
        except GroupNotFoundError:
            await self._introduce()
            await asyncio.gather(*(calls.commit_surely(queue, offset) for queue, offset in offsets.items()))

    async def _has_retry_topic(self) -> bool:
        client, topic = self.connected.client, retry_topic(self._group)
        try:
            await client.routes.get(topic, timeout_ms=self._options.request_ms)
        except TopicNotFoundError:
            client.routes.forget(topic)
            return False
        return True

    async def _introduce(self) -> None:
        """The group has a member for a moment, which makes it and its retry topic.

        Apache's brokers store nothing for a group that they do not know; RocketMQ's tools show nothing of one without a
        retry topic.
        """
        client, member = self.connected.client, ConsumerRole(self._group)
        client.join(member)
        try:
            await client.heartbeat_now()
        finally:
            await client.leave(member)

    async def _calls(self, queues: Iterable[QueueId]) -> BrokerCalls:
        """For queues whose brokers are known then."""
        client = self.connected.client
        for topic in sorted({queue.topic for queue in queues}):
            await client.routes.get(topic, timeout_ms=self._options.request_ms)
        return BrokerCalls(client, self._group)

    @property
    def _group(self) -> str:
        """Name of the group as brokers know it."""
        group = self._options.group
        return self.connected.client.wire_name(group) if group else NO_GROUP

    # --- sizes ---

    def average_bytes(self, queue: QueueId, held: HeldRange, start: int) -> float:
        """Average size of the messages of one pull at ``start``; 0 where nothing could be read."""
        wanted = OffsetRange(queue, max(start, held.first), held.end)
        return self._surely("looking at the size of messages", lambda: self._average_bytes(wanted))

    async def _average_bytes(self, wanted: OffsetRange) -> float:
        options = replace(self._options, gather_bytes=_SAMPLE_BYTES, fail_on_data_loss=False, tags="", sql="")
        parts = await RangeReader(self.connected.client, options, wanted, clock=self._clock).gather()
        count = sum(len(record_starts(part)) for part in parts)
        return sum(map(len, parts)) / count if count else 0.0

    # --- retries ---

    def _surely(self, what: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        window = RetryWindow(what, self._options.retry_ms, self._clock)
        while True:
            try:
                return self.connected.call(work())
            except TopicNotFoundError:
                raise
            except MQError as error:
                self._sleep(window.failed(error) / 1000)
