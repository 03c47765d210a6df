"""A topic opens on its messages; beside them its traffic over time, and its dead letters."""

from __future__ import annotations

from functools import partial
from typing import Final

from pyromq.console.desk import NUMBERS_MS
from pyromq.console.pages.messages import found_in
from pyromq.console.views.topic import topic_head, topic_view
from pyromq.console.views.topic_contents import RANGES, contents_view, topic_schemas
from pyromq.console.web.formatting import link
from pyromq.console.web.pages import Pages
from pyromq.console.web.problems import or_problem
from pyromq.console.web.tables import TableQuery
from pyromq.console.web.visit import Drawn, Visit

pages = Pages()

_FIELDS: Final = ("key", "tag", "begin", "end", "cursor")


@pages.page("/topics/{topic}", title="Topic")
async def topic(visit: Visit) -> Drawn:
    """The newest messages, or those of a key or a time; with ``live`` those that come from now on."""
    name = visit.path["topic"]
    head = await topic_head(visit.desk, name)
    given = {field: visit.query.get(field, "") for field in _FIELDS}
    is_live = visit.query.get("live") == "1"
    found, problem = (None, "") if is_live else await found_in(visit, {**given, "topic": name})
    cursor = found.scan.cursor if found else ""
    filtered = {key: value for key, value in given.items() if key != "cursor"}
    model = {
        "topic": head,
        "tab": "messages",
        "given": given,
        "is_live": is_live,
        "found": found,
        "problem": problem,
        "schemas": [] if is_live else await topic_schemas(visit.desk, name),
        "older": link("topics", name, **{**given, "cursor": cursor}) if cursor else "",
        "live": link("topics", name, live=1, key=given["key"], tag=given["tag"]),
        "more": link("messages", topic=name, **filtered),
    }
    return Drawn("topic.html", model, title=name)


@pages.page("/topics/{topic}/traffic", title="Topic")
async def traffic(visit: Visit) -> Drawn:
    """Charts, how long messages are kept, and queues."""
    name = visit.path["topic"]
    view = await topic_view(visit.desk, name)
    model = {
        "topic": view,
        "tab": "traffic",
        "contents": await contents_view(visit.desk, name, visit.query.get("range", "")),
        "ranges": RANGES,
        "page": TableQuery.of(visit.query, sorts=("queue",), kept=("range",)).cut(view.queues),
    }
    return Drawn("topic_traffic.html", model, title=name)


@pages.page("/topics/{topic}/dead-letters", title="Topic")
async def letters(visit: Visit) -> Drawn:
    """Dead letters that were sent to this topic first, group by group."""
    name = visit.path["topic"]
    head = await topic_head(visit.desk, name)
    key, read = ("letters of topic", name), partial(visit.desk.admin.contents.letters, name)
    groups, problem = await or_problem(visit.desk.cache.get(key, NUMBERS_MS, read), [])
    model = {"topic": head, "tab": "letters", "groups": groups, "problem": problem}
    return Drawn("topic_letters.html", model, title=name)
