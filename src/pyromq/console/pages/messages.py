"""Messages: finding them, looking at one, sending some again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyromq.console.views.messages import (
    BADGES,
    EXPORT_MAX,
    SearchView,
    body_forms,
    export_lines,
    query_of,
    search,
    view_of,
    whole_number,
)
from pyromq.console.web.formatting import link
from pyromq.console.web.pages import Nav, Pages
from pyromq.console.web.problems import or_problem
from pyromq.console.web.visit import BadRequestError, Drawn, File, Moved, Visit
from pyromq.errors import ConfigError
from pyromq.model.names import DEAD_LETTER_PREFIX
from pyromq.operate.explaining.timeline import timeline_of
from pyromq.operate.jobs.specs import NewJob, Resend
from pyromq.operate.reading.message_rows import body_of
from pyromq.operate.reading.typed_views import decoded_body
from pyromq.operate.resend.outgoing import first_topic

pages = Pages()

_FIELDS: Final = ("topic", "id", "key", "tag", "sql", "text", "begin", "end", "queue", "count", "scan", "cursor")
_SCANS: Final = (1_000, 5_000, 20_000, 100_000)


async def found_in(visit: Visit, given: Mapping[str, str]) -> tuple[SearchView | None, str]:
    """Search as the fields of a form say; or say why it cannot be."""
    try:
        return await or_problem(search(visit.desk, query_of(given, visit.now_ms)), None)
    except ConfigError as error:  # a time that is none
        return None, str(error)


@pages.page("/messages", title="Messages", nav=Nav("Messages", order=20, key="m"))
async def messages(visit: Visit) -> Drawn:
    given = {name: visit.query.get(name, "") for name in _FIELDS}
    found, problem = await found_in(visit, given) if given["topic"] else (None, "")
    model = {
        "given": given,
        "found": found,
        "problem": problem,
        "topics": await visit.desk.offered_topics(),
        "scans": _SCANS,
        "older": link("messages", **{**given, "cursor": found.scan.cursor}) if found and found.scan.cursor else "",
        "export": link("messages", "export", **{**given, "cursor": ""}),
        "line": _command_of(given),
    }
    return Drawn("messages.html", model)


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
    most = whole_number(visit.query.get("max", ""), 10_000, EXPORT_MAX)
    return File(f"{query.topic}.jsonl", export_lines(visit.desk, query, most), "application/x-ndjson")


@pages.page("/messages/{topic}/{message_id}", title="Message")
async def message(visit: Visit) -> Drawn:
    topic, message_id = visit.path["topic"], visit.path["message_id"]
    found = await visit.desk.admin.messages.get(topic, message_id)
    body, problem = body_of(found)
    home = first_topic(visit.desk.admin.client, found)
    told, explain_problem = await or_problem(visit.desk.admin.messages.explain(home, found.message_id), None)
    groups, _ = await or_problem(visit.desk.admin.topics.groups(home), [])
    view = view_of(found)
    model = {
        "topic": topic,
        "home": home,
        "view": view,
        "row": view,
        "forms": body_forms(body, await decoded_body(visit.desk.admin.client, home, found)),
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
    record = visit.desk.jobs.start(new, by=visit.by)
    return Moved(link("jobs", record.id))
