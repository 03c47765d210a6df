"""Requests of the driver: which queues there are and what they hold, where a group stands.

Failures are retried for ``retryTimeout``, because an exception would end the query. Names are those on the wire.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, Final, TypeVar

from pyromq.client.consumer.base.broker_calls import BrokerCalls
from pyromq.client.consumer.base.expression_check import ExpressionCheck
from pyromq.client.consumer.rules.subscription import subscribe_sql
from pyromq.client.core.roles import ConsumerRole
from pyromq.clock import Clock, SystemClock
from pyromq.errors import ConnectFailedError, GroupNotFoundError, MQError, NoPermissionError, TopicNotFoundError
from pyromq.model.names import RETRY_PREFIX, retry_topic
from pyromq.model.queue import QueueId
from pyromq.model.route import TopicRoute
from pyromq.model.system_names import kind_of_topic, names_of_servers
from pyromq.operate.admin import Admin
from pyromq.pipeline.arrow.layout import record_starts
from pyromq.pipeline.core.connections import Connected, connect
from pyromq.pipeline.core.keywords import did_you_mean
from pyromq.pipeline.core.offsets import HeldRange, OffsetRange, Offsets
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.core.retry_window import RetryWindow
from pyromq.pipeline.reading.broker_ranges import BrokerRanges, GroupUsage, as_ranges
from pyromq.pipeline.reading.pulls import NO_GROUP, RangeReader
from pyromq.wire.codes import ResponseCode
from pyromq.wire.json.queue_ranges import NOT_COMMITTED, CommitRow

T = TypeVar("T")

_SAMPLE_BYTES: Final = 1
_POLL_MS_FIRST: Final = 5
_POLL_MS_MAX: Final = 40
_POLL_SHARE: Final = 10  # a look that takes long is repeated so many times less often


class Cluster:
    """For one query; every method waits for brokers, and raises SourceUnreachableError when they stay away.

    ``asks_anew``: for a batch, which is planned once and must not miss a queue that is younger than the routes a worker
    has kept from the batch before. ``watches``: for a stream, which asks again and again; brokers then report it only
    what changed (``broker_ranges``), and it looks for new queues every ``discoveryInterval``.
    """

    def __init__(
        self,
        options: SourceOptions,
        *,
        asks_anew: bool = False,
        watches: bool = False,
        clock: Clock | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._options = options
        self._asks_anew = asks_anew
        self._watches = watches
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._connected: Connected | None = None
        self._listed: tuple[str, ...] = ()  # topics that match the pattern
        self._listed_ms: int | None = None  # when they were listed
        self._checked: set[str] = set()  # topics whose brokers understand the filter
        self._is_introduced = False  # whether brokers know the group
        self._brokers: dict[str, BrokerRanges] = {}  # by address
        self._faces: dict[str, BrokerRanges] = {}  # by address, for what is asked beside
        self._table: dict[QueueId, HeldRange] = {}  # what queues held when brokers last reported
        self._names: dict[str, str] = {}  # of the brokers that have them, by address
        self._is_whole = False  # whether no topic was missing then
        self._looked_ms: int | None = None  # when everything was asked
        self._look_took_ms = 0
        self._pause_ms = _POLL_MS_FIRST  # between two looks where brokers cannot be waited at

    @property
    def connected(self) -> Connected:
        if self._connected is None or not self._connected.is_usable:
            self._connected = connect(self._options)
            self._brokers.clear()
            self._faces.clear()
            self._looked_ms = None
        return self._connected

    # --- queues ---

    def held(self, *, missing_ok: bool = False, fresh: bool = True) -> dict[QueueId, HeldRange]:
        """Every queue of every topic that is read. The same object when nothing changed; it is never changed itself.

        ``fresh``: as it is now; otherwise as brokers have reported by now, which may be some milliseconds late. Raises
        BrokerError for a filter that is not understood; TopicNotFoundError, NoPermissionError unless ``missing_ok``.
        """
        return self._surely("asking brokers for their queues", lambda: self._held(missing_ok, fresh))

    async def _held(self, missing_ok: bool, fresh: bool) -> dict[QueueId, HeldRange]:
        if not fresh and self._may_trust(missing_ok):
            try:
                if self._take_news():
                    return self._table
            except MQError:
                self._looked_ms = None
                raise
        self._looked_ms, began_ms = None, self._clock.monotonic_ms()
        topics = await self._topics()
        table = await self._look(topics, missing_ok)
        await self._check_filter({queue.topic for queue in table})
        if table != self._table:
            self._table, self._pause_ms = table, _POLL_MS_FIRST
        self._looked_ms = self._clock.monotonic_ms()
        self._look_took_ms = self._looked_ms - began_ms
        return self._table

    def _may_trust(self, missing_ok: bool) -> bool:
        """Whether what brokers reported can be brought up to date by what they report of changes."""
        if self._looked_ms is None or not self._watches or not (missing_ok or self._is_whole):
            return False
        is_due = self._clock.monotonic_ms() - self._looked_ms >= self._options.discovery_ms
        return not is_due and self._is_watched and self.connected.is_usable

    @property
    def _is_watched(self) -> bool:
        return bool(self._brokers) and all(each.is_watched for each in self._brokers.values())

    def _take_news(self) -> bool:
        """Whether brokers reported all that there is to know. Raises MQError."""
        changed: dict[QueueId, HeldRange] = {}
        for address, broker in self._brokers.items():
            news = broker.news()
            if news is None:
                return False
            for topic, rows in news.items():
                for number, there in as_ranges(rows).items():
                    queue = QueueId(topic, self._names[address], number)
                    if queue in self._table:
                        changed[queue] = there
        if changed:
            self._table = {**self._table, **changed}
        return True

    def usage(self) -> GroupUsage:
        """Who else used the group when everything was last asked."""
        known = [each.usage for each in self._brokers.values()]
        return GroupUsage(
            max((each.consumers for each in known), default=0), max((each.streams for each in known), default=0)
        )

    def wait(self, wait_ms: int) -> None:
        """Returns when a queue has got messages, or after that time."""
        self._surely("waiting for messages", lambda: self._wait(wait_ms))

    async def _wait(self, wait_ms: int) -> None:
        if not self._is_watched:
            pause_ms = max(self._pause_ms, _POLL_SHARE * self._look_took_ms)
            self._pause_ms = min(_POLL_MS_MAX, self._pause_ms * 2)
            await asyncio.sleep(min(pause_ms, wait_ms) / 1000)
            return
        waiting = [broker.wait() for broker in self._brokers.values()]
        await asyncio.wait(waiting, timeout=wait_ms / 1000, return_when=asyncio.FIRST_COMPLETED)

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

    async def _look(self, topics: list[str], missing_ok: bool) -> dict[QueueId, HeldRange]:
        """Asks each broker once for everything that is read of it."""
        routes = dict(zip(topics, await asyncio.gather(*map(self._route, topics)), strict=True))
        wanted: dict[str, list[str]] = {}
        for topic, route in routes.items():
            for broker in route.broker_datas if route is not None else ():
                if address := broker.readable_addr():
                    wanted.setdefault(address, []).append(topic)
                    self._names[address] = broker.broker_name
        for address in self._brokers.keys() - wanted.keys():
            self._brokers.pop(address).forget()
        brokers = [self._broker(address) for address in wanted]
        asked = zip(brokers, wanted.values(), strict=True)
        group = self._group if self._watches and self._options.group else ""
        answers = await asyncio.gather(*(each.everything(of, group=group, watch=self._watches) for each, of in asked))
        found: dict[QueueId, HeldRange] = {}
        lacking = {topic for topic, route in routes.items() if route is None}
        for (address, of), rows in zip(wanted.items(), answers, strict=True):
            name, rows = self._names[address], rows or {}
            lacking |= {topic for topic in of if topic not in rows}
            for topic, queues in rows.items():
                ranges = as_ranges(queues)
                found |= {QueueId(topic, name, number): there for number, there in ranges.items()}
        self._is_whole = not lacking
        return await self._readable(routes, lacking, found, missing_ok)

    async def _route(self, topic: str) -> TopicRoute | None:
        client = self.connected.client
        try:
            ask = client.routes.refresh if self._asks_anew else client.routes.get
            return await ask(topic, timeout_ms=self._options.request_ms)
        except TopicNotFoundError:
            return None

    async def _readable(
        self,
        routes: Mapping[str, TopicRoute | None],
        lacking: set[str],
        found: Mapping[QueueId, HeldRange],
        missing_ok: bool,
    ) -> dict[QueueId, HeldRange]:
        """Ranges of what brokers reported that consumers may read. Raises TopicNotFoundError, NoPermissionError."""
        table: dict[QueueId, HeldRange] = {}
        for topic, route in routes.items():
            may_be_missing = missing_ok or bool(self._options.topic_pattern) or topic.startswith(RETRY_PREFIX)
            if topic in lacking or route is None:
                self.connected.client.routes.forget(topic)
                if not may_be_missing:
                    raise await self._not_found(topic)
                continue
            readable = route.readable_queues(topic)
            if not readable and not may_be_missing:
                text = f"no queue of topic {topic} is readable; an operator has to give the topic permission 6"
                raise NoPermissionError(code=ResponseCode.NO_PERMISSION, remark=text)
            table |= {queue: found[queue] for queue in readable if queue in found}
        return table

    def _broker(self, address: str) -> BrokerRanges:
        if address not in self._brokers:
            self._brokers[address] = BrokerRanges(self.connected.client, address)
        return self._brokers[address]

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
        """One request for each broker that knows how, else one for each queue."""
        await self._calls(queues)  # whose brokers are known then
        found: Offsets = {}
        for name, own in _by_broker(queues).items():
            rows = await self._ranges_of(name).everything({queue.topic for queue in own}, group=self._group)
            if rows is None:
                found |= await self._stored_each(own)
                continue
            there = {(topic, row.number): row.committed for topic, known in rows.items() for row in known}
            offsets = {queue: there.get((queue.topic, queue.number), NOT_COMMITTED) for queue in own}
            found |= {queue: offset for queue, offset in offsets.items() if offset >= 0}
        return found

    async def _stored_each(self, queues: list[QueueId]) -> Offsets:
        admin, group = Admin(client=self.connected.client), self._options.group
        found = await asyncio.gather(*(admin.offsets.committed(group, queue) for queue in queues))
        pairs = zip(queues, found, strict=True)
        return {queue: offset for queue, offset in pairs if offset is not None and offset >= 0}

    def _ranges_of(self, broker: str) -> BrokerRanges:
        """A face of its own to the broker: what it asks ends no watch. Raises ConnectFailedError."""
        client = self.connected.client
        address = client.brokers.readable_address(broker)
        if address is None:
            raise ConnectFailedError(f"broker {broker} is not known: it is down, or did not register")
        face = self._faces.get(address)
        if face is None:
            face = self._faces[address] = BrokerRanges(client, address)
        return face

    def at_times(self, times_ms: Mapping[QueueId, int], held: Mapping[QueueId, HeldRange]) -> Offsets:
        """The first message of each queue that was stored then or later; the end of the queue if there is none."""
        if not times_ms:
            return {}
        return self._surely("searching messages by time", lambda: self._at_times(times_ms, held))

    async def _at_times(self, times_ms: Mapping[QueueId, int], held: Mapping[QueueId, HeldRange]) -> Offsets:
        calls = await self._calls(times_ms)
        found = await asyncio.gather(*(calls.offset_at(queue, time_ms) for queue, time_ms in times_ms.items()))
        return {
            queue: min(max(int(offset), held[queue].first), held[queue].end)
            for queue, offset in zip(times_ms, found, strict=True)
        }

    def with_keys(self, queues: Iterable[QueueId], keys: Iterable[str]) -> dict[QueueId, set[int]]:
        """Offsets of the messages that have one of the keys, for the queues of whose brokers the index knows them all.

        Those brokers are asked that reported last what queues hold: what they said then is in their index.
        """
        return self._surely("looking up keys", lambda: self._with_keys(list(queues), sorted(keys)))

    async def _with_keys(self, queues: list[QueueId], keys: list[str]) -> dict[QueueId, set[int]]:
        found: dict[QueueId, set[int]] = {}
        addresses = {self._names[address]: address for address in self._brokers}
        for topic, broker in sorted({(queue.topic, queue.broker) for queue in queues}):
            asked = self._broker(addresses[broker])
            places = await asyncio.gather(*(asked.places(topic, key) for key in keys))
            if any(each is None for each in places):
                continue
            own = {
                queue.number: found.setdefault(queue, set())
                for queue in queues
                if (queue.topic, queue.broker) == (topic, broker)
            }
            for place in chain.from_iterable(each or () for each in places):
                if place.number in own:
                    own[place.number].add(place.offset)
        return found

    def commit(self, offsets: Mapping[QueueId, int]) -> None:
        """The group stands there from now on."""
        self._surely("storing the progress of the group", lambda: self._commit(offsets))

    async def _commit(self, offsets: Mapping[QueueId, int]) -> None:
        calls = await self._calls(offsets)
        if not self._is_introduced and not await self._has_retry_topic():
            await self._introduce()
        self._is_introduced = True
        try:
            await self._commit_all(calls, offsets)
        except GroupNotFoundError:
            await self._introduce()
            await self._commit_all(calls, offsets)

    async def _commit_all(self, calls: BrokerCalls, offsets: Mapping[QueueId, int]) -> None:
        for name, queues in _by_broker(offsets).items():
            rows: dict[str, list[CommitRow]] = {}
            for queue in queues:
                rows.setdefault(queue.topic, []).append(CommitRow(queue.number, offsets[queue]))
            if len(queues) == 1 or not await self._ranges_of(name).commit(self._group, rows):
                await asyncio.gather(*(calls.commit_surely(queue, offsets[queue]) for queue in queues))

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


def _by_broker(queues: Iterable[QueueId]) -> dict[str, list[QueueId]]:
    found: dict[str, list[QueueId]] = {}
    for queue in queues:
        found.setdefault(queue.broker, []).append(queue)
    return found
