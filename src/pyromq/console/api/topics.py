"""Topics: list, look, create, change, delete."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from pyromq.console.views.topic import (
    Affected,
    ProducerView,
    TopicSettings,
    TopicView,
    affected_by_deletion,
    delete_topic,
    producer_views,
    save_topic,
    topic_view,
)
from pyromq.console.views.topics import topic_list
from pyromq.console.web.api import Api, Call
from pyromq.console.web.tables import SIZES, TableQuery
from pyromq.model.system_names import TopicKind
from pyromq.operate.contents import TopicLetters
from pyromq.operate.lists import TopicRow
from pyromq.operate.reading.retention import TopicRetention
from pyromq.operate.reading.topic_history import STEPS, TopicHistory
from pyromq.operate.reading.topic_senders import TopicSender

functions = Api("topics")

KindChoice = Annotated[str, msgspec.Meta(pattern=f"^({'|'.join(('', 'all', *TopicKind))})$")]
TopicName = Annotated[str, msgspec.Meta(min_length=1, max_length=255, description="The name of a topic")]


class TopicPath(msgspec.Struct, frozen=True):
    topic: TopicName


class TopicsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which topics: ``kind`` empty means those that applications made."""

    q: Annotated[str, msgspec.Meta(max_length=200, description="What the name contains")] = ""
    kind: KindChoice = ""
    sort: Literal["name", "messages", "rate", "lag", "dead"] = "name"
    order: Literal["asc", "desc"] = "asc"
    page: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1
    size: Annotated[int, msgspec.Meta(ge=1, le=SIZES[-1])] = 50


class TopicPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of topics, and how many there are in all."""

    topics: list[TopicRow]
    total: int
    page: int


class Producers(msgspec.Struct, frozen=True, kw_only=True):
    producers: list[ProducerView]


class Senders(msgspec.Struct, frozen=True, kw_only=True):
    """Producers of the newest messages, the latest first; without a client id they have left."""

    senders: list[TopicSender]


class LettersOfTopic(msgspec.Struct, frozen=True, kw_only=True):
    """Groups that gave up on messages of the topic, the most first."""

    groups: list[TopicLetters]


class HistoryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The last day when it does not say; times are Unix milliseconds."""

    begin_ms: Annotated[int, msgspec.Meta(ge=0, le=(1 << 62))] | None = None
    end_ms: Annotated[int, msgspec.Meta(ge=0, le=(1 << 62))] | None = None
    steps: Annotated[int, msgspec.Meta(ge=1, le=500)] = STEPS


class NewTopic(TopicSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A topic to make, on one broker or (empty) on all masters."""

    name: TopicName
    broker: Annotated[str, msgspec.Meta(max_length=255)] = ""

    @property
    def settings(self) -> TopicSettings:
        return TopicSettings(**{name: getattr(self, name) for name in TopicSettings.__struct_fields__})


@functions.get("/topics", summary="List topics")
async def list_topics(call: Call, query: TopicsQuery) -> TopicPage:
    """A page of them with queues, rates, groups, lag and dead letters. Many topics are sorted by name alone."""
    asked = TableQuery(
        page=query.page,
        size=query.size,
        sort=query.sort,
        descending=query.order == "desc",
        search=query.q,
    )
    found = await topic_list(call.desk, asked, query.kind)
    return TopicPage(topics=found.page.rows, total=found.page.total, page=found.page.query.page)


@functions.post("/topics", summary="Create a topic", status=201)
async def create(call: Call, body: NewTopic) -> TopicView:
    """A topic that exists is changed; the response is the topic as it is now."""
    await save_topic(call.desk, body.name, body.settings, broker=body.broker)
    return await topic_view(call.desk, body.name)


@functions.get("/topics/{topic}", summary="One topic")
async def get(call: Call, path: TopicPath) -> TopicView:
    """Its queues, its consumer groups, its configuration on each broker."""
    return await topic_view(call.desk, path.topic)


@functions.put("/topics/{topic}", summary="Change a topic")
async def change(call: Call, path: TopicPath, body: TopicSettings) -> TopicView:
    """On all brokers. What is left out gets its default. The topic must exist."""
    await topic_view(call.desk, path.topic)
    await save_topic(call.desk, path.topic, body)
    return await topic_view(call.desk, path.topic)


@functions.get("/topics/{topic}/history", summary="Messages and bytes of a topic over time")
async def history(call: Call, path: TopicPath, query: HistoryQuery) -> TopicHistory:
    """History of what is still stored; bytes are an estimate."""
    return await call.desk.admin.contents.history(
        path.topic, begin_ms=query.begin_ms, end_ms=query.end_ms, steps=query.steps
    )


@functions.get("/topics/{topic}/senders", summary="Who sent the newest messages of a topic")
async def senders(call: Call, path: TopicPath) -> Senders:
    """Those that are connected with their group and client id, others by their address."""
    return Senders(senders=await call.desk.admin.contents.senders(path.topic))


@functions.get("/topics/{topic}/retention", summary="How long messages of a topic are kept")
async def retention(call: Call, path: TopicPath) -> TopicRetention:
    """The oldest message, what the topic takes on disk, and how long new messages stay at this rate."""
    return await call.desk.admin.contents.retention(path.topic)


@functions.get("/topics/{topic}/letters", summary="Dead letters of a topic")
async def letters(call: Call, path: TopicPath) -> LettersOfTopic:
    """By group, the newest of each."""
    return LettersOfTopic(groups=await call.desk.admin.contents.letters(path.topic))


@functions.get("/topics/{topic}/deletion", summary="What deleting a topic would take away")
async def deletion(call: Call, path: TopicPath) -> Affected:
    """Say what the deletion of a topic would affect; nothing is deleted."""
    return await affected_by_deletion(call.desk, path.topic)


@functions.delete("/topics/{topic}", summary="Delete a topic")
async def delete(call: Call, path: TopicPath) -> None:
    """With its messages, on every broker. This cannot be undone."""
    await delete_topic(call.desk, path.topic)


@functions.get("/producers", summary="Producers that are connected")
async def producers(call: Call) -> Producers:
    """To any broker of the cluster."""
    return Producers(producers=await producer_views(call.desk))
