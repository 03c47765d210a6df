"""Messages: search, look at one, follow a topic."""

from __future__ import annotations

from typing import Annotated

import msgspec

from pyromq.console.api.topics import TopicName, TopicPath
from pyromq.console.views.messages import (
    MessageListRow,
    MessageView,
    query_of,
    search,
    view_of,
)
from pyromq.console.views.tailing import tail_events
from pyromq.console.web.api import Api, Call
from pyromq.console.web.streams import Events
from pyromq.operate.explaining.explanation import Explanation
from pyromq.operate.explaining.timeline import StoryEvent, timeline_of
from pyromq.operate.reading.message_rows import MessageRow, row_of
from pyromq.operate.reading.search import COUNT_MAX, SCAN_MAX, MessageQuery, Scan

functions = Api("messages")

Text = Annotated[str, msgspec.Meta(max_length=4_096)]
MessageId = Annotated[str, msgspec.Meta(min_length=1, max_length=255, description="Either of its ids")]


class MessagePath(msgspec.Struct, frozen=True):
    topic: TopicName
    message_id: MessageId


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """All that is given must hold. Times: 2026-11-15T07:30 (UTC), ``2h ago``, ``now``, or milliseconds."""

    id: Text = ""
    key: Text = ""
    tag: Annotated[str, msgspec.Meta(max_length=4_096, description="TagA || TagB")] = ""
    sql: Annotated[str, msgspec.Meta(max_length=4_096, description="An SQL92 expression on properties")] = ""
    text: Annotated[str, msgspec.Meta(max_length=4_096, description="What the body contains")] = ""
    begin: Text = ""
    end: Text = ""
    queue: Annotated[str, msgspec.Meta(max_length=255, description="broker:number")] = ""
    count: Annotated[int, msgspec.Meta(ge=1, le=COUNT_MAX)] = 50
    scan: Annotated[int, msgspec.Meta(ge=1, le=SCAN_MAX, description="How many messages may be read")] = 5_000
    cursor: Annotated[str, msgspec.Meta(max_length=100_000, description="That of the page before")] = ""


class StreamQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which messages of the topic."""

    key: Text = ""
    tag: Text = ""
    sql: Text = ""
    text: Text = ""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Newest first. ``scan`` says what was looked at and whether there is more; its ``cursor`` is for the next page."""

    messages: list[MessageListRow]
    scan: Scan


class Lines(msgspec.Struct, frozen=True, kw_only=True):
    """Whole messages, newest first, as ``pyromq send --jsonl`` takes them back, one to a line."""

    lines: list[MessageRow]
    scan: Scan


class MessageStory(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message is and why, and what happened to it in order."""

    explanation: Explanation
    timeline: list[StoryEvent]


@functions.get("/topics/{topic}/messages", summary="Search messages")
async def find(call: Call, path: TopicPath, query: SearchQuery) -> Found:
    """By id or key from the index of brokers, else by reading queues backwards. No group moves by it."""
    found = await search(call.desk, _asked(call, path.topic, query))
    return Found(messages=found.messages, scan=found.scan)


@functions.get("/topics/{topic}/messages/lines", summary="Search messages, with their bodies")
async def lines(call: Call, path: TopicPath, query: SearchQuery) -> Lines:
    """Run the search and return the lines that an export holds."""
    found = await call.desk.admin.messages.search(_asked(call, path.topic, query))
    return Lines(lines=[row_of(message) for message in found.messages], scan=found.scan)


def _asked(call: Call, topic: str, query: SearchQuery) -> MessageQuery:
    given = {name: str(value) for name, value in msgspec.structs.asdict(query).items()}
    return query_of({**given, "topic": topic}, call.desk.clock.now_ms())


@functions.get("/topics/{topic}/messages/stream", summary="Follow a topic")
async def stream(call: Call, path: TopicPath, query: StreamQuery) -> Events:
    """Server-sent events: ``message``, ``dropped`` (how many were too many), ``problem``. With Last-Event-ID it goes on
    where an earlier stream was. What comes too fast is dropped; no group moves by it."""
    asked = MessageQuery(topic=path.topic, key=query.key, tag=query.tag, sql=query.sql, text=query.text)
    await call.desk.admin.topics.route(path.topic)
    return Events(tail_events(call.desk, asked, call.request.headers.get("last-event-id", "")))


@functions.get("/topics/{topic}/messages/{message_id}", summary="One message")
async def get(call: Call, path: MessagePath) -> MessageView:
    """With its properties and body; a body that is not UTF-8 is in ``body_base64``."""
    return view_of(await call.desk.admin.messages.get(path.topic, path.message_id))


@functions.get("/topics/{topic}/messages/{message_id}/story", summary="What became of a message")
async def story(call: Call, path: MessagePath) -> MessageStory:
    """Stored, delayed, prepared; consumed, waiting, retrying, dead; with its trace if there is one."""
    told = await call.desk.admin.messages.explain(path.topic, path.message_id)
    return MessageStory(explanation=told, timeline=timeline_of(told))
