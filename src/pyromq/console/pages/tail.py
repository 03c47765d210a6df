"""Live tail: new messages of a topic as they are stored. No group moves by it."""

from __future__ import annotations

from collections.abc import AsyncIterator

from pyromq.console.views.tailing import tail_events
from pyromq.console.web.pages import Nav, Pages
from pyromq.console.web.streams import Event, Events
from pyromq.console.web.visit import BadRequestError, Drawn, Visit
from pyromq.errors import MQError
from pyromq.operate.reading.search import MessageQuery

pages = Pages()


def _query(visit: Visit) -> MessageQuery:
    query = visit.query
    return MessageQuery(
        topic=query.get("topic", "").strip(),
        key=query.get("key", "").strip(),
        tag=query.get("tag", "").strip(),
        sql=query.get("sql", "").strip(),
        text=query.get("text", ""),
    )


@pages.page("/tail", title="Live tail", nav=Nav("Messages", order=30, key="v"))
async def tail(visit: Visit) -> Drawn:
    query, problem = _query(visit), ""
    if query.topic:
        try:
            await visit.desk.admin.topics.route(query.topic)
        except MQError as error:
            problem = str(error)
    try:
        topics = [name for name in await visit.desk.topic_names() if not name.startswith("%")][:500]
    except MQError:
        topics = []
    return Drawn("tail.html", {"query": query, "problem": problem, "topics": topics})


@pages.stream("/tail/stream")
async def stream(visit: Visit) -> Events:
    query = _query(visit)
    if not query.topic:
        raise BadRequestError("a tail needs a topic")
    last = visit.request.headers.get("last-event-id", "")
    source: AsyncIterator[Event] = tail_events(visit.desk, query, last)
    return Events(source)
