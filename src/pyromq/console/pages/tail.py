"""Live tail: new messages of a topic as they are stored. No group moves by it."""

from __future__ import annotations

from collections.abc import AsyncIterator

from pyromq.console.views.messages import query_of
from pyromq.console.views.tailing import tail_events
from pyromq.console.web.pages import Nav, Pages
from pyromq.console.web.problems import or_problem
from pyromq.console.web.streams import Event, Events
from pyromq.console.web.visit import BadRequestError, Drawn, Visit
from pyromq.operate.reading.search import MessageQuery

pages = Pages()


def _query(visit: Visit) -> MessageQuery:
    given = {name: visit.query.get(name, "") for name in ("topic", "key", "tag", "sql", "text")}
    return query_of(given, visit.now_ms)


@pages.page("/tail", title="Live tail", nav=Nav("Messages", order=30, key="v"))
async def tail(visit: Visit) -> Drawn:
    query, problem = _query(visit), ""
    if query.topic:
        _, problem = await or_problem(visit.desk.admin.topics.route(query.topic), None)
    return Drawn("tail.html", {"query": query, "problem": problem, "topics": await visit.desk.offered_topics()})


@pages.stream("/tail/stream")
async def stream(visit: Visit) -> Events:
    query = _query(visit)
    if not query.topic:
        raise BadRequestError("a tail needs a topic")
    last = visit.request.headers.get("last-event-id", "")
    source: AsyncIterator[Event] = tail_events(visit.desk, query, last)
    return Events(source)
