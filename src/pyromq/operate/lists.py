"""Lists of topics and groups with what matters of each: queues, rates, lag, members, dead letters.

    of every broker, once      what a sweep reads (``sweep``)
    of each row that is shown  its put rate (315); connected members (203), dead letters (202, 14)

So 10 000 topics cost three requests for each broker, and a page of rows some more, a bounded number at a time. What a
broker does not tell is None in the rows, and a sentence in ``problems`` says why.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final, TypeVar

import msgspec

from pyromq.client.admin.requests import AdminRequests
from pyromq.errors import MQError
from pyromq.model.names import DEAD_LETTER_PREFIX, RETRY_PREFIX
from pyromq.model.system_names import TopicKind, is_system_group, kind_of_topic, names_of_servers
from pyromq.model.topic import GroupConfig, TopicConfig
from pyromq.operate.consumers.members import MemberFacet
from pyromq.operate.dead_letters import DeadLetterFacet
from pyromq.operate.sweep import ClusterSweep, Sweeper, TopicProgress

T = TypeVar("T")

_AT_ONCE: Final = 32  # requests about single rows
_RATED_MAX: Final = 2_000  # topics whose rates are asked for, one by one, to sort by them
_MESSAGE_TYPE: Final = "message.type"


class ListSort(StrEnum):
    """What comes first; rates and counts from the largest down."""

    NAME = "name"
    RATE = "rate"
    LAG = "lag"


class TopicRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row about a topic. ``lag`` is that of all its groups together, None where no group consumes it."""

    topic: str
    kind: TopicKind = TopicKind.NORMAL
    message_type: str = ""
    brokers: int = 0
    queues: int = 0
    perm: int = 6
    put_rate: float | None = None
    get_rate: float | None = None
    groups: tuple[str, ...] = ()
    lag: int | None = None


class GroupRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row about a group. Of a group whose members broadcast nobody but they know the lag, which is None then.

    ``retrying`` are failed messages that are due again and not consumed yet, a part of ``lag``.
    """

    group: str
    is_system: bool = False
    is_enabled: bool = True
    is_broadcast: bool = False
    topics: tuple[str, ...] = ()
    members: int | None = None
    get_rate: float | None = None
    lag: int | None = None
    retrying: int | None = None
    dead_letters: int | None = None


class TopicPage(msgspec.Struct, frozen=True, kw_only=True):
    """``found`` counts all rows that fit the question, ``rows`` are the first of them."""

    rows: tuple[TopicRow, ...]
    found: int
    problems: tuple[str, ...] = ()


class GroupPage(msgspec.Struct, frozen=True, kw_only=True):
    """``found`` counts all rows that fit the question, ``rows`` are the first of them."""

    rows: tuple[GroupRow, ...]
    found: int
    problems: tuple[str, ...] = ()


class ListQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows: those whose names contain a text, or fit a pattern with ``*`` or ``?``; 0 as ``limit``: all."""

    pattern: str = ""
    with_system: bool = False
    sort: ListSort = ListSort.NAME
    limit: int = 0

    def takes(self, name: str) -> bool:
        if "*" in self.pattern or "?" in self.pattern:
            return fnmatchcase(name, self.pattern)
        return self.pattern in name

    def first(self, rows: Iterable[T]) -> list[T]:
        found = list(rows)
        return found[: self.limit] if self.limit else found


class ClusterLists:
    """Topics and groups as lists for operators."""

    def __init__(
        self, requests: AdminRequests, sweeper: Sweeper, members: MemberFacet, dead_letters: DeadLetterFacet
    ) -> None:
        self._requests = requests
        self._client = requests.client
        self.sweeper = sweeper
        self._members = members
        self._dead_letters = dead_letters

    async def topics(self, question: ListQuestion | None = None) -> TopicPage:
        """Return topics with queues, rates, groups and lag. Raises TransportError if no broker answers."""
        asked = question or ListQuestion()
        info, told = await self._requests.directory.recent_cluster(), await self.sweeper.read()
        servers, problems = names_of_servers(info.cluster_addr_table, info.broker_addr_table), list(told.problems)
        groups_of: defaultdict[str, dict[str, TopicProgress]] = defaultdict(dict)
        for group, topics in (told.progress or {}).items():
            for topic, one in topics.items():
                groups_of[topic][group] = one
        rows = []
        for name, configs in told.topics.items():
            plain, config = self._client.plain_name(name), next(iter(configs.values()), None)
            kind = kind_of_topic(name, servers, config)
            if asked.takes(plain) and (asked.with_system or kind.is_users):
                progress = groups_of.get(name, {}) if told.progress is not None else None
                rows.append(self._topic_row(plain, kind, configs, progress))
        rows.sort(key=lambda row: row.topic)
        if asked.sort is ListSort.LAG:
            rows.sort(key=lambda row: -(row.lag or 0))
        if asked.sort is ListSort.RATE:
            rows.sort(key=lambda row: -(row.get_rate or 0.0))
            if len(rows) > _RATED_MAX:
                problems.append(f"put rates are known of the {_RATED_MAX} topics that are read most: use a filter")
            rows = await self._with_put_rates(rows[:_RATED_MAX], told, problems) + rows[_RATED_MAX:]
            rows.sort(key=lambda row: -(row.put_rate or 0.0))
        first = asked.first(rows)
        if asked.sort is not ListSort.RATE:
            first = await self._with_put_rates(first, told, problems)
        return TopicPage(rows=tuple(first), found=len(rows), problems=tuple(problems))

    async def groups(self, question: ListQuestion | None = None) -> GroupPage:
        """Return groups with topics, members, rate, lag and letters. Raises TransportError if no broker answers."""
        asked = question or ListQuestion()
        told = await self.sweeper.read()
        rows, problems = [], list(told.problems)
        for name, config in told.groups.items():
            plain = self._client.plain_name(name)
            if asked.takes(plain) and (asked.with_system or not is_system_group(plain)):
                rows.append(self._group_row(plain, config, None if told.progress is None else told.progress.get(name)))
        rows.sort(key=lambda row: row.group)
        if asked.sort is ListSort.LAG:
            rows.sort(key=lambda row: -(row.lag or 0))
        if asked.sort is ListSort.RATE:
            rows.sort(key=lambda row: -(row.get_rate or 0.0))
        first = await self._for_each(asked.first(rows), lambda row: self._with_members(row, told), problems)
        return GroupPage(rows=tuple(first), found=len(rows), problems=tuple(problems))

    # --- rows ---

    def _topic_row(
        self, name: str, kind: TopicKind, configs: dict[str, TopicConfig], progress: dict[str, TopicProgress] | None
    ) -> TopicRow:
        one = next(iter(configs.values()))
        return TopicRow(
            topic=name,
            kind=kind,
            message_type=one.attributes.get(_MESSAGE_TYPE, ""),
            brokers=len(configs),
            queues=sum(config.read_queue_nums for config in configs.values()),
            perm=one.perm,
            groups=tuple(sorted(map(self._client.plain_name, progress or ()))),
            get_rate=None if progress is None else sum((each.rate for each in progress.values()), 0.0),
            lag=sum(each.lag for each in progress.values()) if progress else None,
        )

    def _group_row(self, name: str, config: GroupConfig, progress: dict[str, TopicProgress] | None) -> GroupRow:
        topics = progress or {}
        retrying = [each.lag for topic, each in topics.items() if topic.startswith(RETRY_PREFIX)]
        return GroupRow(
            group=name,
            is_system=is_system_group(name),
            is_enabled=config.consume_enable,
            topics=tuple(sorted(self._client.plain_name(each) for each in topics if not each.startswith(RETRY_PREFIX))),
            get_rate=sum((each.rate for each in topics.values()), 0.0) if progress is not None else None,
            lag=sum(each.lag for each in topics.values()) if progress is not None else None,
            retrying=sum(retrying) if retrying else None,
        )

    async def _with_put_rates(
        self, rows: Sequence[TopicRow], told: ClusterSweep, problems: list[str]
    ) -> list[TopicRow]:
        async def rated(row: TopicRow) -> TopicRow:
            name = self._client.wire_name(row.topic) if row.kind.is_users else row.topic
            rate = 0.0
            for broker in told.topics.get(name, ()):
                address = await self._requests.directory.address(broker)
                stats = await self._requests.brokers.stats(address, "TOPIC_PUT_NUMS", name)
                rate += stats.stats_minute.tps if stats is not None else 0.0
            return msgspec.structs.replace(row, put_rate=rate)

        return await self._for_each(rows, rated, problems)

    async def _with_members(self, row: GroupRow, told: ClusterSweep) -> GroupRow:
        connected = await self._members.connections_if_any(row.group)
        letters = 0
        if DEAD_LETTER_PREFIX + self._client.wire_name(row.group) in told.topics:
            letters = (await self._dead_letters.count(row.group)).waiting
        row = msgspec.structs.replace(
            row, members=len(connected.connection_set) if connected else 0, dead_letters=letters
        )
        if connected is not None and connected.is_broadcast:
            return msgspec.structs.replace(row, is_broadcast=True, lag=None, retrying=None)
        return row

    async def _for_each(self, rows: Sequence[T], work: Callable[[T], Awaitable[T]], problems: list[str]) -> list[T]:
        """Work on some rows at a time; one whose broker does not answer stays as it is, and one problem says so."""
        slots, failed = asyncio.Semaphore(_AT_ONCE), list[MQError]()

        async def one(row: T) -> T:
            async with slots:
                if failed:  # the others would wait for the same broker, one after the other
                    return row
                try:
                    return await work(row)
                except MQError as error:
                    failed.append(error)
                    return row

        found = await asyncio.gather(*[one(row) for row in rows])
        if failed:
            problems.append(f"some rows are incomplete: {failed[0]}")
        return list(found)
