"""What the queues of some topics hold at one broker: asked once for all of them, then only what changed.

    31050  everything, and the id of a watch          a request, however many queues there are
    31051  waits at the broker until something changed, for up to ten seconds; kept open while a stream is idle
    202    one request for each topic, again and again: Apache's brokers, and ours before 31050
    12     where the messages are that have a key, and whether the index knows them all

A watch ends with its connection, and when topics, rights or retention change something: then all is asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyromq.client.core.client import Client
from pyromq.errors import BrokerError, TopicNotFoundError
from pyromq.pipeline.core.offsets import HeldRange
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import Ext
from pyromq.wire.headers.consumer import (
    AwaitRangesHeader,
    QueryMessageHeader,
    QueryMessageResponseHeader,
    QueryRangesHeader,
    RangesResponseHeader,
)
from pyromq.wire.headers.shared import ConsumerGroupHeader, TopicHeader
from pyromq.wire.json import bodies
from pyromq.wire.json.bodies import TopicStats
from pyromq.wire.json.queue_ranges import (
    COMMITS_MAX,
    TOPICS_MAX,
    CommitRow,
    CommitsRequest,
    KeyPlace,
    QueueRow,
    RangesRequest,
    decode_places,
    decode_ranges,
    encode,
)
from pyromq.wire.received import Received

_WAIT_MS: Final = 10_000
_PLACES_MAX: Final = 1_000  # of one key; who wants more reads everything
_ANY_TIME: Final = (1 << 63) - 1
_UNKNOWN: Final = frozenset((ResponseCode.REQUEST_CODE_NOT_SUPPORTED, ResponseCode.NO_PERMISSION))
"""Brokers that do not know a request may refuse it as one that nobody may send."""

Rows = dict[str, list[QueueRow]]


@dataclass(frozen=True, slots=True)
class GroupUsage:
    """Who else moves the offsets of a group: its consumers, and other streams (which Apache's brokers do not know)."""

    consumers: int = 0
    streams: int = 0

    def __bool__(self) -> bool:
        return bool(self.consumers or self.streams)

    def __str__(self) -> str:
        return f"{self.consumers} consumers and {self.streams} other streams"


class BrokerRanges:
    """One broker, by its address. Its methods run on the client's loop and raise BrokerError and TransportError."""

    def __init__(self, client: Client, address: str) -> None:
        self._client = client
        self._address = address
        self._watch_id = 0
        self._waiting: asyncio.Task[Rows | None] | None = None  # None as its result: the watch is over
        self._is_plain = False  # it does not know our requests
        self.usage = GroupUsage()

    @property
    def is_watched(self) -> bool:
        return self._watch_id > 0

    async def everything(self, topics: Iterable[str], *, group: str = "", watch: bool = False) -> Rows | None:
        """All queues of the topics that it has; with ``group``, where that group stands in them.

        None when the broker cannot say where a group stands in all of them, and nothing is to be watched.
        """
        wanted = tuple(topics)
        self.forget()
        if not self._is_plain:
            try:
                return await self._all_at_once(wanted, group, watch=watch and len(wanted) <= TOPICS_MAX)
            except BrokerError as error:
                if error.code not in _UNKNOWN:
                    raise
                self._is_plain = error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        if group and not watch:
            return None
        self.usage = GroupUsage(consumers=await self._members(group), streams=0)
        return await self._by_topic(wanted)

    async def _all_at_once(self, topics: tuple[str, ...], group: str, *, watch: bool) -> Rows:
        found: Rows = {}
        for start in range(0, len(topics), TOPICS_MAX):
            body = encode(RangesRequest(topics=topics[start : start + TOPICS_MAX], group=group))
            response = await self._ask(RequestCode.QUERY_QUEUE_RANGES, QueryRangesHeader(watch=watch), body)
            header = response.header_as(RangesResponseHeader)
            self._watch_id, self.usage = header.watch_id, GroupUsage(consumers=header.members, streams=header.watchers)
            found |= decode_ranges(response.body).topics
        return found

    async def _members(self, group: str) -> int:
        """Consumers of the group that the broker knows; brokers answer with an error when there are none."""
        try:
            header = ConsumerGroupHeader(consumer_group=group)
            response = await self._ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
        except BrokerError:
            return 0
        return len(bodies.decode(response.body, bodies.GroupMemberIds).consumer_id_list)

    async def _by_topic(self, topics: tuple[str, ...]) -> Rows:
        found = await asyncio.gather(*map(self._stats, topics))
        return {topic: rows for topic, rows in zip(topics, found, strict=True) if rows is not None}

    async def _stats(self, topic: str) -> list[QueueRow] | None:
        try:
            response = await self._ask(RequestCode.GET_TOPIC_STATS_INFO, TopicHeader(topic=topic))
        except TopicNotFoundError:
            return None
        table = bodies.decode(response.body, TopicStats).offset_table
        return [QueueRow(queue.number, there.min_offset, there.max_offset) for queue, there in table.items()]

    # --- what changed ---

    def news(self) -> Rows | None:
        """What the broker has reported since the last call; None when all has to be asked again. Raises MQError."""
        if not self._watch_id:
            return None
        if self._waiting is None or not self._waiting.done():
            self.wait()
            return {}
        task, self._waiting = self._waiting, None
        found = task.result()
        if found is None:
            self._watch_id = 0
        else:
            self.wait()
        return found

    def wait(self) -> asyncio.Task[Rows | None]:
        """Done when there are news, or none for some seconds."""
        if self._waiting is None:
            self._waiting = asyncio.get_running_loop().create_task(self._changes(), name="changes of queues")
            self._waiting.add_done_callback(_hear)
        return self._waiting

    async def _changes(self) -> Rows | None:
        found: Rows = {}
        wait_ms = _WAIT_MS
        while True:
            header = AwaitRangesHeader(watch_id=self._watch_id, wait_millis=wait_ms)
            timeout_ms = wait_ms + self._client.settings.request_timeout_ms
            response = await self._ask(RequestCode.AWAIT_QUEUE_RANGES, header, timeout_ms=timeout_ms)
            facts = response.header_as(RangesResponseHeader)
            if not facts.watch_id:
                return None
            for topic, rows in decode_ranges(response.body).topics.items() if response.body else ():
                found.setdefault(topic, []).extend(rows)
            if not facts.more:
                return found
            wait_ms = 0

    def forget(self) -> None:
        """What was reported before counts no more."""
        self._watch_id = 0
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    # --- keys ---

    async def places(self, topic: str, key: str) -> list[KeyPlace] | None:
        """Where the messages are that have a key; None when others may have it too.

        Brokers that do not know ``placesOnly`` answer with messages, and do not say that these are all.
        """
        if self._is_plain:
            return None
        header = QueryMessageHeader(
            topic=topic, key=key, max_num=_PLACES_MAX, begin_timestamp=0, end_timestamp=_ANY_TIME, places_only=True
        )
        try:
            response = await self._ask(RequestCode.QUERY_MESSAGE, header)
        except BrokerError:
            return None
        if not response.header_as(QueryMessageResponseHeader).all_found:
            return None
        return decode_places(response.body)

    # --- progress ---

    async def commit(self, group: str, offsets: Mapping[str, list[CommitRow]]) -> bool:
        """Stores where a group stands; False when the broker does not know how to take many at once."""
        if self._is_plain:
            return False
        try:
            for part in _parts(offsets):
                body = encode(CommitsRequest(group=group, topics=part))
                await self._ask(RequestCode.UPDATE_CONSUMER_OFFSETS, None, body)
        except BrokerError as error:
            if error.code not in _UNKNOWN:
                raise
            self._is_plain = error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            return False
        return True

    async def _ask(self, code: RequestCode, header: Ext, body: bytes = b"", *, timeout_ms: int = 0) -> Received[Any]:
        link = self._client.brokers.link(self._address)
        return await self._client.ask(link, code, header, body, timeout_ms=timeout_ms)


def as_ranges(rows: Iterable[QueueRow]) -> dict[int, HeldRange]:
    return {row.number: HeldRange(max(0, row.first), max(0, row.end)) for row in rows}


def _parts(offsets: Mapping[str, list[CommitRow]]) -> Iterable[dict[str, list[CommitRow]]]:
    part: dict[str, list[CommitRow]] = {}
    count = 0  # of its rows
    for topic, rows in offsets.items():
        for start in range(0, len(rows), COMMITS_MAX):
            piece = rows[start : start + COMMITS_MAX]
            if count + len(piece) > COMMITS_MAX or len(part) == TOPICS_MAX:
                yield part
                part, count = {}, 0
            part.setdefault(topic, []).extend(piece)
            count += len(piece)
    if part:
        yield part


def _hear(task: asyncio.Task[Rows | None]) -> None:
    """A wait that nobody asks about any more may fail in silence."""
    if not task.cancelled():
        task.exception()
