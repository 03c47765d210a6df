"""Messages: finding them, looking at one, sending some again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyromq.console.views.messages import (
    BADGES,
    EXPORT_MAX,
    body_forms,
    export_lines,
    search,
    view_of,
)
from pyromq.console.views.times import read_moment
from pyromq.console.web.formatting import link
from pyromq.console.web.pages import Nav, Pages
from pyromq.console.web.visit import BadRequestError, Drawn, File, Moved, Visit
from pyromq.errors import MQError
from pyromq.model.names import DEAD_LETTER_PREFIX
from pyromq.operate.explaining.timeline import timeline_of
from pyromq.operate.jobs.specs import NewJob, Resend
from pyromq.operate.reading.message_rows import body_of
from pyromq.operate.reading.search import COUNT_MAX, SCAN_MAX, MessageQuery
from pyromq.operate.resend.outgoing import first_topic

pages = Pages()

_FIELDS: Final = ("topic", "id", "key", "tag", "sql", "text", "begin", "end", "queue", "count", "scan", "cursor")
_SCANS: Final = (1_000, 5_000, 20_000, 100_000)


def query_of(given: Mapping[str, str], now_ms: int) -> MessageQuery:
    """What the address of a search says; the same address finds the same again. Raises ConfigError."""
    begin_ms, end_ms = read_moment(given.get("begin", ""), now_ms), read_moment(given.get("end", ""), now_ms)
    more: dict[str, Any] = {} if end_ms is None else {"end_ms": end_ms}
    return MessageQuery(
        topic=given.get("topic", "").strip(),
        message_id=given.get("id", "").strip(),
        key=given.get("key", "").strip(),
        tag=given.get("tag", "").strip(),
        sql=given.get("sql", "").strip(),
        text=given.get("text", ""),
        begin_ms=begin_ms or 0,
        queue=given.get("queue", "").strip(),
        count_max=_number(given.get("count", ""), 50, COUNT_MAX),
        scan_max=_number(given.get("scan", ""), 5_000, SCAN_MAX),
        cursor=given.get("cursor", ""),
        **more,
    )


def _number(text: str, default: int, most: int) -> int:
    return min(int(text), most) if text.isascii() and text.isdigit() and len(text) < 8 and int(text) else default


@pages.page("/messages", title="Messages", nav=Nav("Messages", order=20, key="m"))
async def messages(visit: Visit) -> Drawn:
    given = {name: visit.query.get(name, "") for name in _FIELDS}
    found, problem = None, ""
    if given["topic"]:
        try:
            found = await search(visit.desk, query_of(visit.query, visit.now_ms))
        except MQError as error:
            problem = str(error)
    model = {
        "given": given,
        "found": found,
        "problem": problem,
        "topics": await _topics(visit),
        "scans": _SCANS,
        "older": link("messages", **{**given, "cursor": found.scan.cursor}) if found and found.scan.cursor else "",
        "export": link("messages", "export", **{**given, "cursor": ""}),
        "line": _command_of(given),
    }
    return Drawn("messages.html", model)


async def _topics(visit: Visit) -> list[str]:
    try:
        return [name for name in await visit.desk.topic_names() if not name.startswith("%")][:500]
    except MQError:
        return []


def _command_of(given: Mapping[str, str]) -> list[str]:
    """The words of the command that looks for the same; by time, tag and SQL it is a tail with a filter."""
    if given["id"]:
        return ["message", "get", given["id"], "--topic", given["topic"]]
    if given["key"]:
        words = ["message", "find", "--topic", given["topic"], "--key", given["key"]]
        words += ["--begin", given["begin"]] if given["begin"] else []
        return words + (["--end", given["end"]] if given["end"] else [])
    words = ["tail", given["topic"] or "TOPIC", "--count", given["count"] or "50"]
    return words + (["--tags", given["tag"]] if given["tag"] else [])


@pages.page("/messages/export", title="Export")
async def export(visit: Visit) -> File:
    """Lines of JSON that ``pyromq send --jsonl`` takes back."""
    query = query_of(visit.query, visit.now_ms)
    if not query.topic:
        raise BadRequestError("an export needs a topic")
    await visit.desk.admin.topics.route(query.topic)
    most = _number(visit.query.get("max", ""), 10_000, EXPORT_MAX)
    return File(f"{query.topic}.jsonl", export_lines(visit.desk, query, most), "application/x-ndjson")


@pages.page("/messages/{topic}/{message_id}", title="Message")
async def message(visit: Visit) -> Drawn:
    topic, message_id = visit.path["topic"], visit.path["message_id"]
    found = await visit.desk.admin.messages.get(topic, message_id)
    body, problem = body_of(found)
    home = first_topic(visit.desk.admin.client, found)
    told, explain_problem = None, ""
    try:
        told = await visit.desk.admin.messages.explain(home, found.message_id)
    except MQError as error:
        explain_problem = str(error)
    try:
        groups = await visit.desk.admin.topics.groups(home)
    except MQError:
        groups = []
    view = view_of(found)
    model = {
        "topic": topic,
        "home": home,
        "view": view,
        "row": view,
        "forms": body_forms(body),
        "problem": problem,
        "told": told,
        "explain_problem": explain_problem,
        "timeline": timeline_of(told) if told else [],
        "badges": BADGES,
        "groups": groups,
        "letter_of": letter_group(visit, found.stored_topic),
        "now": visit.now_ms,
    }
    return Drawn("message.html", model, title=f"Message {view.message_id[:40]}")


def letter_group(visit: Visit, stored_topic: str) -> str:
    """The group whose dead letter this is; empty for any other message."""
    name = stored_topic.removeprefix(DEAD_LETTER_PREFIX)
    return visit.desk.admin.client.plain_name(name) if name != stored_topic else ""


@pages.page("/messages/{topic}/{message_id}/body", title="Body")
async def body(visit: Visit) -> File:
    found = await visit.desk.admin.messages.get(visit.path["topic"], visit.path["message_id"])
    return File(f"{found.offset_message_id}.bin", body_of(found)[0])


@pages.action("/messages/resend")
async def resend(visit: Visit) -> Moved:
    """Ticked messages, or the one of a page; every one of them is told of on the page of the job."""
    chosen = tuple(dict.fromkeys(visit.all_of("message")))
    if not chosen:
        raise BadRequestError("no message is ticked: tick those that shall be sent again")
    group = visit.form.get("group", "").strip()
    if visit.form.get("where") == "group" and not group:
        raise BadRequestError("name the group that shall get them")
    spec = Resend(
        messages=chosen,
        to_topic=visit.form.get("to_topic", "").strip() if visit.form.get("where") == "topic" else "",
        to_group=group if visit.form.get("where") == "group" else "",
    )
    new = NewJob(spec=spec, dry_run=bool(visit.form.get("dry_run")))
    record = visit.desk.jobs.start(new, by=visit.who.name if visit.who else "")
    return Moved(link("jobs", record.id))
