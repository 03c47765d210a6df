"""The list of topics: names are searched, sorted and cut first; brokers are asked about the rows that are shown.

Ten thousand names are one response of a name server; their kinds come with the brokers' configurations, which may take
a moment longer than the first page can wait: until then names alone tell.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from pyromq.console.desk import NAMES_MS, NUMBERS_MS, Desk
from pyromq.console.web.tables import TablePage, TableQuery
from pyromq.errors import MQError, printable
from pyromq.model.names import dead_letter_topic
from pyromq.model.system_names import TopicKind, kind_of_topic
from pyromq.model.topic import TopicConfig

SORTS: Final = ("name", "messages", "rate", "lag", "dead")
SORTED_BY_NUMBERS_MAX: Final = 250  # more topics than that are sorted by name alone
GROUPS_SHOWN_MAX: Final = 20  # of one topic
_CONFIGS_MS: Final = 30_000
_CONFIGS_WAIT_S: Final = 0.3
_AT_ONCE: Final = 24


class TopicGroupLag(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group is behind in one topic, in messages."""

    group: str
    lag: int


class TopicRow(msgspec.Struct, frozen=True, kw_only=True):
    """A topic of the list. ``problem`` says why its numbers are not known, or is empty; while they are ``pending``, the
    cluster has not answered yet."""

    name: str
    kind: TopicKind
    queues: int = 0
    messages: int = 0
    put_rate: float = 0.0
    last_stored_ms: int = 0
    groups: list[TopicGroupLag] = []
    group_count: int = 0
    dead_letters: int = 0
    problem: str = ""
    pending: bool = False

    @property
    def lag(self) -> int:
        return sum(each.lag for each in self.groups)


class TopicIndex(msgspec.Struct, frozen=True):
    """All names in order, and the kind of each; ``whole`` once the brokers' configurations are known."""

    kinds: dict[str, TopicKind]
    whole: bool

    def counts(self) -> dict[str, int]:
        found = Counter(self.kinds.values())
        return {kind.value: found[kind] for kind in TopicKind if found[kind]}

    def names(self, kind: str) -> list[str]:
        """Names of topics of one kind; ``all``; or (empty) those that applications made."""
        if kind == "all":
            return list(self.kinds)
        if not kind:
            return [name for name, each in self.kinds.items() if each.is_users]
        return [name for name, each in self.kinds.items() if each == kind]


async def topic_index(desk: Desk) -> TopicIndex:
    return await desk.cache.get("topic index", NAMES_MS, lambda: _index(desk))


async def _index(desk: Desk) -> TopicIndex:
    names = await desk.topic_names()
    configs = await topic_configs(desk, wait_s=_CONFIGS_WAIT_S)
    system = await desk.cache.get_soon("system topics", _CONFIGS_MS, lambda: _system(desk), wait_s=_CONFIGS_WAIT_S)
    kinds = {name: kind_of_topic(name, system or (), (configs or {}).get(name)) for name in names}
    return TopicIndex(kinds, configs is not None)


async def topic_configs(desk: Desk, *, wait_s: float) -> Mapping[str, TopicConfig] | None:
    """None while they are being loaded, and where they cannot be."""
    try:
        return await desk.cache.get_soon("topic configs", _CONFIGS_MS, desk.admin.topics.configs, wait_s=wait_s)
    except MQError:
        return None


async def _system(desk: Desk) -> frozenset[str]:
    """Names alone tell most of them, where brokers do not."""
    try:
        return await desk.admin.topics.system_names()
    except MQError:
        return frozenset()


async def topic_rows(desk: Desk, query: TableQuery, kind: str, *, within_ms: int | None = None) -> TablePage[TopicRow]:
    """One page of the list. Sorted by numbers only where these are few enough to be asked for.

    With ``within_ms`` rows whose numbers take longer are ``pending``, and asking goes on.
    """
    index = await topic_index(desk)
    names = query.found(index.names(kind))
    if query.sort == "name" or len(names) > SORTED_BY_NUMBERS_MAX:
        names.sort(reverse=query.descending and query.sort == "name")
        page = query.cut(names)
        return page.with_rows(await rows_of(desk, index, page.rows, within_ms=within_ms))
    rows = await rows_of(desk, index, names)
    keys = {
        "messages": lambda row: row.messages,
        "rate": lambda row: row.put_rate,
        "lag": lambda row: row.lag,
        "dead": lambda row: row.dead_letters,
    }
    return query.cut(sorted(rows, key=keys[query.sort], reverse=query.descending))


async def rows_of(
    desk: Desk, index: TopicIndex, names: Sequence[str], *, within_ms: int | None = None
) -> list[TopicRow]:
    gate = asyncio.Semaphore(_AT_ONCE)

    async def load(name: str) -> TopicRow:
        async with gate:
            return await _row(desk, index, name)

    async def row(name: str) -> TopicRow:
        key = ("topic row", name)
        if within_ms is None:
            return await desk.cache.get(key, NUMBERS_MS, lambda: load(name))
        found = await desk.cache.get_soon(key, NUMBERS_MS, lambda: load(name), wait_s=within_ms / 1000)
        return found or TopicRow(name=name, kind=index.kinds.get(name, TopicKind.NORMAL), pending=True)

    return await asyncio.gather(*map(row, names))


async def _row(desk: Desk, index: TopicIndex, name: str) -> TopicRow:
    kind = index.kinds.get(name, TopicKind.NORMAL)
    try:
        traffic = await desk.admin.topics.traffic(name)
        groups = await desk.admin.topics.groups(name) if kind.is_users else []
        shown = groups[:GROUPS_SHOWN_MAX]
        lags = await asyncio.gather(*(group_lag(desk, group, name) for group in shown))
        letters = await asyncio.gather(*(waiting_letters(desk, group) for group in shown))
    except MQError as error:
        return TopicRow(name=name, kind=kind, problem=printable(str(error)))
    return TopicRow(
        name=name,
        kind=kind,
        queues=len(traffic.queues),
        messages=traffic.messages,
        put_rate=traffic.put_rate,
        last_stored_ms=traffic.last_stored_ms,
        groups=[TopicGroupLag(group=group, lag=lag) for group, lag in zip(shown, lags, strict=True)],
        group_count=len(groups),
        dead_letters=sum(letters),
    )


async def group_lag(desk: Desk, group: str, topic: str) -> int:
    progress = await desk.admin.groups.lag(group, topic)
    return sum(max(0, each.broker_offset - each.consumer_offset) for each in progress.values())


async def waiting_letters(desk: Desk, group: str) -> int:
    """Return how many dead letters of a group wait; 0 where nobody answers."""
    try:
        return (await desk.letter_counts(group)).waiting if dead_letter_topic(group) in await desk.topic_names() else 0
    except MQError:
        return 0
