"""Lists of topics and groups with what matters of each: queues, rates, lag, members, dead letters.

    of every broker, once      what a sweep reads (``sweep``)
    of each row that is shown  its put rate (315); connected members (203), dead letters (202, 14)

So 10 000 topics cost three requests for each broker, and a page of rows some more, a bounded number at a time. What a
broker does not tell is None in the rows, and a sentence in ``problems`` says why.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final, TypeVar

import msgspec

from pyromq.client.admin.requests import AdminRequests
from pyromq.errors import MQError
from pyromq.model.names import DEAD_LETTER_PREFIX
from pyromq.model.system_names import MESSAGE_TYPE, TopicKind, is_system_group, kind_of_topic, names_of_servers
from pyromq.model.topic import TopicConfig
from pyromq.operate.consumers.members import MemberFacet
from pyromq.operate.dead_letters import DeadLetterFacet
from pyromq.operate.sweep import ClusterSweep, Sweeper, TopicProgress

T = TypeVar("T")

_AT_ONCE: Final = 32  # requests about single rows
_KINDS_MS: Final = 2_000
_RATE_MS: Final = 120_000  # what was stored longer ago has no rate


class ListSort(StrEnum):
    """What comes first; numbers from the largest down, unless the question says otherwise."""

    NAME = "name"
    RATE = "rate"
    LAG = "lag"
    RETRYING = "retrying"  # of groups
    MESSAGES = "messages"  # of topics
    DEAD = "dead"  # of topics


class TopicGroupLag(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group is behind in one topic, in messages."""

    group: str
    lag: int


class TopicRow(msgspec.Struct, frozen=True, kw_only=True):
    """A topic in a list. ``lag`` is that of all its groups together, None where no group consumes it.

    ``dead_letters`` of its groups wait. What is None is not known.
    """

    topic: str
    kind: TopicKind = TopicKind.NORMAL
    message_type: str = ""
    brokers: int = 0
    queues: int = 0
    perm: int = 6
    messages: int | None = None
    put_rate: float | None = None
    get_rate: float | None = None
    last_stored_ms: int | None = None
    groups: tuple[TopicGroupLag, ...] = ()
    lag: int | None = None
    dead_letters: int | None = None


class GroupRow(msgspec.Struct, frozen=True, kw_only=True):
    """A group in a list. Brokers do not know the lag of a group whose members broadcast: it is None then.

    ``retrying`` are failed messages that are due again and not consumed yet, a part of ``lag``; ``dead_letters`` wait.
    ``mismatched`` counts members that subscribe to something else than the others. What is None is not known.
    """

    group: str
    is_system: bool = False
    is_paused: bool = False
    is_broadcasting: bool = False
    topics: tuple[str, ...] = ()
    members: int | None = None
    mismatched: int | None = None
    get_rate: float | None = None
    lag: int | None = None
    retrying: int | None = None
    dead_letters: int | None = None


class TopicPage(msgspec.Struct, frozen=True, kw_only=True):
    """``rows`` from ``skip`` on, of ``found`` that fit the question; ``kinds`` counts all topics."""

    rows: tuple[TopicRow, ...]
    found: int
    skip: int = 0
    kinds: dict[str, int] = {}
    problems: tuple[str, ...] = ()


class GroupPage(msgspec.Struct, frozen=True, kw_only=True):
    """``rows`` from ``skip`` on, of ``found`` that fit the question; ``hidden`` belong to the system."""

    rows: tuple[GroupRow, ...]
    found: int
    skip: int = 0
    hidden: int = 0
    problems: tuple[str, ...] = ()


class ListQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows: those whose names contain a text, or fit a pattern with ``*`` or ``?``; 0 as ``limit``: all.

    ``kind`` is that of topics: empty for those of applications (``with_system``: all). At most ``asked_max`` topics are
    sorted by numbers that brokers have to be asked for, one by one.
    """

    pattern: str = ""
    with_system: bool = False
    kind: str = ""
    sort: ListSort = ListSort.NAME
    descending: bool | None = None
    skip: int = 0
    limit: int = 0
    asked_max: int = 2_000
    max_age_ms: int = 0  # of what brokers reported about all topics and groups

    def takes(self, name: str) -> bool:
        if "*" in self.pattern or "?" in self.pattern:
            return fnmatchcase(name, self.pattern)
        return self.pattern.casefold() in name.casefold()

    def takes_kind(self, kind: TopicKind) -> bool:
        return kind.value == self.kind if self.kind else self.with_system or kind.is_users

    def ordered(self, rows: Iterable[T], keys: Mapping[ListSort, Callable[[T], Any]], sort: ListSort) -> list[T]:
        """Sort rows that are in the order of their names; what is not known comes last."""
        key, is_down = keys.get(sort, keys[ListSort.NAME]), sort is not ListSort.NAME
        if sort is self.sort and self.descending is not None:
            is_down = self.descending
        known = [row for row in rows if key(row) is not None]
        return sorted(known, key=key, reverse=is_down) + [row for row in rows if key(row) is None]

    def cut(self, rows: list[T]) -> tuple[int, list[T]]:
        """Return the rows that are asked for, and where they begin: with the last ones if there are fewer."""
        if not self.limit:
            return 0, rows
        skip = min(self.skip, max(0, (len(rows) - 1) // self.limit * self.limit))
        return skip, rows[skip : skip + self.limit]


_GROUP_KEYS: Final[Mapping[ListSort, Callable[[GroupRow], Any]]] = {
    ListSort.NAME: lambda row: row.group,
    ListSort.RATE: lambda row: row.get_rate,
    ListSort.LAG: lambda row: row.lag,
    ListSort.RETRYING: lambda row: row.retrying,
}
_TOPIC_KEYS: Final[Mapping[ListSort, Callable[[TopicRow], Any]]] = {
    ListSort.NAME: lambda row: row.topic,
    ListSort.RATE: lambda row: row.put_rate,
    ListSort.LAG: lambda row: row.lag,
    ListSort.MESSAGES: lambda row: row.messages,
    ListSort.DEAD: lambda row: row.dead_letters,
}
_ASKED_FOR: Final = (ListSort.RATE, ListSort.MESSAGES, ListSort.DEAD)


class ClusterLists:
    """Topics and groups as lists for operators."""

    def __init__(
        self, requests: AdminRequests, sweeper: Sweeper, members: MemberFacet, dead_letters: DeadLetterFacet
    ) -> None:
        self.sweeper = sweeper
        self._requests = requests
        self._client = requests.client
        self._members = members
        self._dead_letters = dead_letters

    async def topics(self, question: ListQuestion | None = None) -> TopicPage:
        """Return topics with queues, rates, groups and lag. Raises TransportError if no broker answers."""
        asked = question or ListQuestion()
        sweep = await self.sweeper.read(max_age_ms=asked.max_age_ms)
        kinds, problems = await self._kinds(sweep), list(sweep.problems)
        groups_of: defaultdict[str, dict[str, TopicProgress]] = defaultdict(dict)
        for group, topics in (sweep.progress or {}).items():
            for topic, one in topics.items():
                groups_of[topic][group] = one
        is_told = sweep.progress is not None
        plain = {name: self._client.plain_name(name) for name in sweep.topics if asked.takes_kind(kinds[name])}
        names = sorted((name for name in plain if asked.takes(plain[name])), key=plain.__getitem__)

        def row(name: str) -> TopicRow:
            progress = groups_of.get(name, {}) if is_told else None
            return self._topic_row(plain[name], kinds[name], sweep.topics[name], progress)

        sort = asked.sort
        if sort in _ASKED_FOR and len(names) > asked.asked_max:
            sort = ListSort.NAME
            problems.append(f"more than {asked.asked_max} topics are sorted by name alone: use a filter")
        if sort in _ASKED_FOR:
            rows = await self._filled(list(map(row, names)), sweep, problems)
            skip, first = asked.cut(asked.ordered(rows, _TOPIC_KEYS, sort))
        else:  # rows of those that are shown alone
            keys = {ListSort.NAME: plain.__getitem__, ListSort.LAG: lambda name: _lag(groups_of.get(name))}
            skip, shown = asked.cut(asked.ordered(names, keys, sort))
            first = await self._filled(list(map(row, shown)), sweep, problems)
        counts = Counter(kinds.values())
        return TopicPage(
            rows=tuple(first),
            found=len(names),
            skip=skip,
            kinds={kind.value: counts[kind] for kind in TopicKind if counts[kind]},
            problems=tuple(problems),
        )

    async def groups(self, question: ListQuestion | None = None) -> GroupPage:
        """Return groups with topics, members, rate, lag and letters. Raises TransportError if no broker answers."""
        asked = question or ListQuestion()
        sweep = await self.sweeper.read(max_age_ms=asked.max_age_ms)
        names = {self._client.plain_name(name): name for name in sweep.groups}
        shown = [plain for plain in sorted(names) if asked.with_system or not is_system_group(plain)]
        rows, problems = (
            [self._group_row(plain, sweep, names[plain]) for plain in filter(asked.takes, shown)],
            list(sweep.problems),
        )
        skip, first = asked.cut(asked.ordered(rows, _GROUP_KEYS, asked.sort))
        first = await self._for_each(first, lambda row: self._with_members(row, sweep), problems)
        return GroupPage(
            rows=tuple(first), found=len(rows), skip=skip, hidden=len(names) - len(shown), problems=tuple(problems)
        )

    async def kinds(self) -> dict[str, TopicKind]:
        """Return the kind of every topic that brokers have."""
        found = await self._kinds(await self.sweeper.read(max_age_ms=_KINDS_MS))
        return {self._client.plain_name(name): kind for name, kind in found.items()}

    # --- rows ---

    async def _kinds(self, sweep: ClusterSweep) -> dict[str, TopicKind]:
        info = await self._requests.directory.recent_cluster()
        servers = names_of_servers(info.cluster_addr_table, info.broker_addr_table)
        return {name: kind_of_topic(name, servers, next(iter(each.values()))) for name, each in sweep.topics.items()}

    def _topic_row(
        self, topic: str, kind: TopicKind, configs: dict[str, TopicConfig], progress: dict[str, TopicProgress] | None
    ) -> TopicRow:
        one = next(iter(configs.values()))
        groups = ((self._client.plain_name(group), each.lag) for group, each in (progress or {}).items())
        return TopicRow(
            topic=topic,
            kind=kind,
            message_type=one.attributes.get(MESSAGE_TYPE, ""),
            brokers=len(configs),
            queues=sum(config.read_queue_nums for config in configs.values()),
            perm=one.perm,
            groups=tuple(TopicGroupLag(group=group, lag=lag) for group, lag in sorted(groups)),
            get_rate=None if progress is None else sum((each.rate for each in progress.values()), 0.0),
            lag=_lag(progress),
        )

    def _group_row(self, group: str, sweep: ClusterSweep, name: str) -> GroupRow:
        totals = sweep.total(name)
        row = GroupRow(group=group, is_system=is_system_group(group), is_paused=not sweep.groups[name].consume_enable)
        if totals is None:
            return row
        return msgspec.structs.replace(
            row, topics=totals.topics, get_rate=totals.get_rate, lag=totals.lag, retrying=totals.retrying
        )

    # --- what is asked for each row that is shown ---

    async def _filled(self, rows: Sequence[TopicRow], sweep: ClusterSweep, problems: list[str]) -> list[TopicRow]:
        letters: dict[str, asyncio.Future[int]] = {}

        async def waiting(group: str) -> int:
            if group not in letters:
                letters[group] = asyncio.ensure_future(self._waiting(group, sweep))
            return await letters[group]

        async def filled(row: TopicRow) -> TopicRow:
            numbers = await self._numbers(self._client.wire_name(row.topic) if row.kind.is_users else row.topic, sweep)
            dead = sum([await waiting(each.group) for each in row.groups]) if row.kind.is_users else 0
            return msgspec.structs.replace(row, dead_letters=dead, **numbers)

        return await self._for_each(rows, filled, problems)

    async def _numbers(self, name: str, sweep: ClusterSweep) -> dict[str, Any]:
        """Ask the brokers of a topic what it holds and takes; those before 5.2 report the rate apart from that."""
        messages, rate, last_ms, brokers = 0, 0.0, 0, self._requests.brokers
        for broker in sweep.topics.get(name, ()):
            stats = await brokers.topic_stats(broker, name)
            messages += sum(max(0, held.max_offset - held.min_offset) for held in stats.offset_table.values())
            stored_ms = max((held.last_update_timestamp for held in stats.offset_table.values()), default=0)
            last_ms, put_rate = max(last_ms, stored_ms), stats.topic_put_tps
            if not put_rate and self._client.clock.now_ms() - stored_ms < _RATE_MS:
                counted = await brokers.stats(broker, "TOPIC_PUT_NUMS", name)
                put_rate = counted.stats_minute.tps if counted is not None else 0.0
            rate += put_rate
        return {"messages": messages, "put_rate": rate, "last_stored_ms": last_ms}

    async def _with_members(self, row: GroupRow, sweep: ClusterSweep) -> GroupRow:
        connected = await self._members.connections_if_any(row.group)
        row = msgspec.structs.replace(
            row,
            members=len(connected.connection_set) if connected else 0,
            mismatched=len(connected.disagreeing_client_ids or ()) if connected else 0,
            dead_letters=await self._waiting(row.group, sweep),
        )
        if connected is not None and connected.is_broadcast:
            return msgspec.structs.replace(row, is_broadcasting=True, lag=None, retrying=None)
        return row

    async def _waiting(self, group: str, sweep: ClusterSweep) -> int:
        """Count dead letters that wait, without a question where there is no topic for them."""
        if DEAD_LETTER_PREFIX + self._client.wire_name(group) not in sweep.topics:
            return 0
        return (await self._dead_letters.count(group)).waiting

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


def _lag(progress: Mapping[str, TopicProgress] | None) -> int | None:
    """Add up the lag of all groups of a topic; None where there is no group, or brokers did not answer."""
    return sum(each.lag for each in progress.values()) if progress else None
