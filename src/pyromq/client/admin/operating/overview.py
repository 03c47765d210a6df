"""Lists of topics and groups with what matters of each: queues, rates, lag, members, dead letters.

    of every broker, once      all topic settings (21), all group settings (201), progress of all groups (317)
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
from typing import Any, Final, TypeVar

import msgspec

from pyromq.client.admin.blocked_queues import BlockedQueueAdmin
from pyromq.client.admin.dead_letters import DeadLetterAdmin
from pyromq.errors import BrokerError, GroupOfflineError, MQError
from pyromq.model.names import DEAD_LETTER_PREFIX, RETRY_PREFIX
from pyromq.model.system_names import TopicKind, is_system_group, kind_of_topic, names_of_servers
from pyromq.model.topic import GroupConfig, TopicConfig
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.headers.admin import GetBrokerConsumeStatsHeader, ViewBrokerStatsHeader
from pyromq.wire.json import bodies, java_json
from pyromq.wire.json.bodies import BrokerConsumeStats, StatsData
from pyromq.wire.json.heartbeat import MessageModel

T = TypeVar("T")

_AT_ONCE: Final = 32  # requests about single rows
_RATED_MAX: Final = 2_000  # topics whose rates are asked for, one by one, to sort by them
_BULK_TIMEOUT_MS: Final = 20_000
_MESSAGE_TYPE: Final = "message.type"


class ListSort(StrEnum):
    """What comes first; rates and counts from the largest down."""

    NAME = "name"
    RATE = "rate"
    LAG = "lag"


class TopicSummary(msgspec.Struct, frozen=True, kw_only=True):
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


class GroupSummary(msgspec.Struct, frozen=True, kw_only=True):
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

    rows: tuple[TopicSummary, ...]
    found: int
    problems: tuple[str, ...] = ()


class GroupPage(msgspec.Struct, frozen=True, kw_only=True):
    """``found`` counts all rows that fit the question, ``rows`` are the first of them."""

    rows: tuple[GroupSummary, ...]
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


class _TopicTable(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    topic_config_table: dict[str, TopicConfig] = {}


class _GroupTable(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    subscription_group_table: dict[str, GroupConfig] = {}


class _Progress(msgspec.Struct, kw_only=True):
    """Of one group in one topic, over all brokers."""

    lag: int = 0
    rate: float = 0.0


class _Everything(msgspec.Struct, kw_only=True):
    """What all brokers said; names are as servers know them."""

    topics: dict[str, dict[str, TopicConfig]]  # by topic, then by broker
    groups: dict[str, GroupConfig]
    progress: dict[str, dict[str, _Progress]] | None  # by group, then by topic
    problems: list[str]


class OverviewAdmin(DeadLetterAdmin, BlockedQueueAdmin):
    """Of ``Admin``: lists for operators."""

    async def list_topics(self, question: ListQuestion | None = None) -> TopicPage:
        """Topics with queues, rates, groups and lag. Raises TransportError if no broker answers."""
        asked = question or ListQuestion()
        info, told = await self._recent_cluster(), await self._everything()
        servers = names_of_servers(info.cluster_addr_table, info.broker_addr_table)
        groups_of: defaultdict[str, dict[str, _Progress]] = defaultdict(dict)
        for group, topics in (told.progress or {}).items():
            for topic, one in topics.items():
                groups_of[topic][group] = one
        rows = []
        for name, configs in told.topics.items():
            plain, config = self.client.plain_name(name), next(iter(configs.values()), None)
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
                told.problems.append(f"put rates are known of the {_RATED_MAX} topics that are read most: use a filter")
            rows = await self._with_put_rates(rows[:_RATED_MAX], told) + rows[_RATED_MAX:]
            rows.sort(key=lambda row: -(row.put_rate or 0.0))
        first = asked.first(rows)
        if asked.sort is not ListSort.RATE:
            first = await self._with_put_rates(first, told)
        return TopicPage(rows=tuple(first), found=len(rows), problems=tuple(told.problems))

    async def list_groups(self, question: ListQuestion | None = None) -> GroupPage:
        """Groups with topics, members, rate, lag and dead letters. Raises TransportError if no broker answers."""
        asked = question or ListQuestion()
        told = await self._everything()
        rows = []
        for name, config in told.groups.items():
            plain = self.client.plain_name(name)
            if asked.takes(plain) and (asked.with_system or not is_system_group(plain)):
                rows.append(self._group_row(plain, config, None if told.progress is None else told.progress.get(name)))
        rows.sort(key=lambda row: row.group)
        if asked.sort is ListSort.LAG:
            rows.sort(key=lambda row: -(row.lag or 0))
        if asked.sort is ListSort.RATE:
            rows.sort(key=lambda row: -(row.get_rate or 0.0))
        first = await self._for_each(asked.first(rows), lambda row: self._with_members(row, told), told.problems)
        return GroupPage(rows=tuple(first), found=len(rows), problems=tuple(told.problems))

    async def broker_stats(self, broker: str, name: str, key: str) -> StatsData | None:
        """One of RocketMQ's statistics, such as TOPIC_PUT_NUMS of a topic; None when nothing happened yet."""
        header = ViewBrokerStatsHeader(stats_name=name, stats_key=key)
        try:
            response = await self._ask(await self._address(broker), RequestCode.VIEW_BROKER_STATS_DATA, header)
        except BrokerError as error:
            if error.code == ResponseCode.SYSTEM_ERROR:  # that is how a broker says "none"
                return None
            raise
        return bodies.decode(response.body, StatsData)

    async def broker_consume_stats(self, broker: str, *, ordered_only: bool = False) -> BrokerConsumeStats:
        """How far every group of a broker is in every topic it consumes."""
        header = GetBrokerConsumeStatsHeader(is_order=ordered_only)
        response = await self._ask_long(await self._address(broker), RequestCode.GET_BROKER_CONSUME_STATS, header)
        return bodies.decode_broker_consume_stats(response.body)

    # --- everything at once ---

    async def _everything(self) -> _Everything:
        masters = await self._named_masters()
        told = _Everything(topics={}, groups={}, progress={}, problems=[])
        outcomes = await asyncio.gather(
            *[self._broker_tables(broker, address) for broker, address in masters.items()], return_exceptions=True
        )
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        for failure in failures:
            if not isinstance(failure, MQError) or len(failures) == len(outcomes):
                raise failure
        for (broker, _), outcome in zip(masters.items(), outcomes, strict=True):
            if isinstance(outcome, BaseException):
                told.problems.append(f"broker {broker} is missing: {outcome}")
                continue
            topics, groups, progress = outcome
            for name, config in topics.items():
                told.topics.setdefault(name, {})[broker] = config
            told.groups = {**groups, **told.groups}
            if isinstance(progress, MQError):
                told.problems.append(f"lag and rates of groups are missing: broker {broker}: {progress}")
                told.progress = None
            elif told.progress is not None:
                _add_progress(told.progress, progress)
        return told

    async def _broker_tables(
        self, broker: str, address: str
    ) -> tuple[dict[str, TopicConfig], dict[str, GroupConfig], BrokerConsumeStats | MQError]:
        topics = await self._ask_long(address, RequestCode.GET_ALL_TOPIC_CONFIG)
        groups = await self._ask_long(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        try:
            progress: BrokerConsumeStats | MQError = await self.broker_consume_stats(address)
        except MQError as error:  # too much for one response, or not allowed: the list is there all the same
            progress = error
        return (
            java_json.decode(topics.body, _TopicTable).topic_config_table,
            java_json.decode(groups.body, _GroupTable).subscription_group_table,
            progress,
        )

    async def _ask_long(self, address: str, code: RequestCode, header: Any = None) -> Any:
        timeout_ms = max(_BULK_TIMEOUT_MS, self.client.settings.request_timeout_ms)
        return await self.client.ask(self.client.brokers.link(address), code, header, timeout_ms=timeout_ms)

    # --- rows ---

    def _topic_row(
        self, name: str, kind: TopicKind, configs: dict[str, TopicConfig], progress: dict[str, _Progress] | None
    ) -> TopicSummary:
        one = next(iter(configs.values()))
        return TopicSummary(
            topic=name,
            kind=kind,
            message_type=one.attributes.get(_MESSAGE_TYPE, ""),
            brokers=len(configs),
            queues=sum(config.read_queue_nums for config in configs.values()),
            perm=one.perm,
            groups=tuple(sorted(map(self.client.plain_name, progress or ()))),
            get_rate=None if progress is None else sum((each.rate for each in progress.values()), 0.0),
            lag=sum(each.lag for each in progress.values()) if progress else None,
        )

    def _group_row(self, name: str, config: GroupConfig, progress: dict[str, _Progress] | None) -> GroupSummary:
        topics = progress or {}
        retrying = [each.lag for topic, each in topics.items() if topic.startswith(RETRY_PREFIX)]
        return GroupSummary(
            group=name,
            is_system=is_system_group(name),
            is_enabled=config.consume_enable,
            topics=tuple(sorted(self.client.plain_name(each) for each in topics if not each.startswith(RETRY_PREFIX))),
            get_rate=sum((each.rate for each in topics.values()), 0.0) if progress is not None else None,
            lag=sum(each.lag for each in topics.values()) if progress is not None else None,
            retrying=sum(retrying) if retrying else None,
        )

    async def _with_put_rates(self, rows: Sequence[TopicSummary], told: _Everything) -> list[TopicSummary]:
        async def rated(row: TopicSummary) -> TopicSummary:
            name = self.client.wire_name(row.topic) if row.kind.is_users else row.topic
            stats = [await self.broker_stats(broker, "TOPIC_PUT_NUMS", name) for broker in told.topics.get(name, ())]
            rate = sum(each.stats_minute.tps for each in stats if each is not None)
            return msgspec.structs.replace(row, put_rate=rate)

        return await self._for_each(rows, rated, told.problems)

    async def _with_members(self, row: GroupSummary, told: _Everything) -> GroupSummary:
        try:
            connected = await self.group_connections(row.group)
            members, model = len(connected.connection_set), connected.message_model
        except GroupOfflineError:
            members, model = 0, MessageModel.CLUSTERING
        letters = 0
        if DEAD_LETTER_PREFIX + self.client.wire_name(row.group) in told.topics:
            letters = await self.count_dead_letters(row.group)
        row = msgspec.structs.replace(row, members=members, dead_letters=letters)
        if model is MessageModel.BROADCASTING:
            return msgspec.structs.replace(row, is_broadcast=True, lag=None, retrying=None)
        return row

    async def _for_each(self, rows: Sequence[T], work: Callable[[T], Awaitable[T]], problems: list[str]) -> list[T]:
        """A bounded number at a time; a row whose broker does not answer stays as it is, and is told of once."""
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


def _add_progress(found: dict[str, dict[str, _Progress]], told: BrokerConsumeStats) -> None:
    for group, stats in ((group, each) for table in told.consume_stats_list for group, each in table.items()):
        topics = found.setdefault(group, {})
        for one in stats:  # of one topic each
            for topic in {queue.topic for queue in one.offset_table}:
                topics.setdefault(topic, _Progress()).rate += one.consume_tps
            for queue, held in one.offset_table.items():
                topics[queue.topic].lag += max(0, held.broker_offset - held.consumer_offset)
