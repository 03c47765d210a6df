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
from pyromq.operate.lists import TopicRow

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
