"""The list of topics. Until brokers have answered, a page shows the names that name servers know."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from pyromq.console.desk import Desk
from pyromq.console.web.tables import TablePage, TableQuery
from pyromq.model.system_names import TopicKind, kind_of_topic
from pyromq.operate.lists import TopicPage, TopicRow

SORTS: Final = ("name", "messages", "rate", "lag", "dead")
SORTED_BY_NUMBERS_MAX: Final = 250  # more topics than that are sorted by name alone


class TopicList(NamedTuple):
    """A page of topics, and how many there are of each kind; ``pending`` while brokers have not answered."""

    page: TablePage[TopicRow]
    kinds: dict[str, int]
    problems: tuple[str, ...] = ()
    pending: bool = False


async def topic_list(desk: Desk, query: TableQuery, kind: str, *, within_ms: int | None = None) -> TopicList:
    """Return a page of topics of a kind: ``all``, or (empty) those of applications. Raises MQError.

    With ``within_ms`` there are names alone if it takes longer, and asking goes on.
    """
    choice = {"with_system": True} if kind == "all" else {"kind": kind}
    question = query.question(asked_max=SORTED_BY_NUMBERS_MAX, **choice)

    async def load() -> TopicPage:
        return await desk.admin.topics.list(question)

    found: TopicPage | None = None
    if within_ms is None:
        found = await desk.listed("topics", question, load)
    else:
        found = await desk.listed_soon("topics", question, load, within_ms=within_ms)
    if found is None:
        return await _names_alone(desk, query, kind)
    return TopicList(query.page_of(found.rows, found.found, found.skip), found.kinds, found.problems)


async def _names_alone(desk: Desk, query: TableQuery, kind: str) -> TopicList:
    kinds = {name: kind_of_topic(name) for name in await desk.topic_names()}
    fits = TopicKind(kind).__eq__ if kind not in ("", "all") else (lambda each: kind == "all" or each.is_users)
    rows = [TopicRow(topic=name, kind=each) for name, each in kinds.items() if fits(each)]
    named = {row.topic: row for row in rows}
    chosen = [named[name] for name in query.found(sorted(named))]
    return TopicList(query.cut(chosen), dict(Counter(each.value for each in kinds.values())), pending=True)
