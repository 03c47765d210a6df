"""Dead letters and retries: what groups gave up on, and what they will try again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyromq.charts import spark
from pyromq.console.views import letters as view
from pyromq.console.web.formatting import link
from pyromq.console.web.pages import Nav, Pages
from pyromq.console.web.problems import or_problem
from pyromq.console.web.tables import TableQuery, sorted_by
from pyromq.console.web.visit import BadRequestError, Drawn, File, Moved, Visit
from pyromq.operate.delays import DelayedMessage
from pyromq.operate.jobs.specs import ITEMS_MAX, NewJob, Pace, Redrive
from pyromq.operate.letter_filter import LetterFilter

pages = Pages()

_FILTERS = ("error", "key", "tag", "topic", "redriven")
_CHOICES = (*_FILTERS, "q")  # with what is searched: all that decides which letters are shown


@pages.page("/dead-letters", title="Dead letters", nav=Nav("Consume", order=30, key="x", badge="letters"))
async def overview(visit: Visit) -> Drawn:
    found = await view.letter_index(visit.desk)
    return Drawn("dead_letters.html", {"groups": found, "spark": spark})


def _filter(given: Mapping[str, str]) -> LetterFilter:
    """What a page or its form chooses."""
    texts = {f"{name}s": given.get(name, "") for name in ("error", "key", "tag", "topic")}
    return LetterFilter.of({**texts, "search": given.get("q", "")})  # type: ignore[typeddict-item]


@pages.page("/dead-letters/{group}", title="Dead letters of a group")
async def letters(visit: Visit) -> Drawn:
    group, which = visit.path["group"], _filter(visit.query)
    wanted = {name: visit.query.get(name, "") for name in _CHOICES}
    query = TableQuery.of(visit.query, sorts=view.SORTS, kept=_FILTERS)
    if "sort" not in visit.query:
        query = replace(query, descending=True)
    hides_redriven = wanted["redriven"] == "no"
    found = await view.list_letters(visit.desk, group, query, which, hides_redriven=hides_redriven)
    read = visit.desk.admin.dead_letters.by_error(group, count_max=view.READ_MAX)
    errors, problem = await or_problem(read, None)
    model = {
        "group": group,
        "found": found,
        "page": found.page,
        "wanted": wanted,
        "errors": errors,
        "problem": problem,
        "commands": Redrive.chosen(group, which).commands(),
        "export": link("dead-letters", group, "export", **wanted),
        "is_filtered": any(wanted.values()),
    }
    return Drawn("letters.html", model, title=f"Dead letters of {group}")


@pages.action("/dead-letters/{group}/redrive")
async def redrive(visit: Visit) -> Moved:
    """Ticked letters, or all that the filter chooses; a dry run is a job as well."""
    group, form = visit.path["group"], visit.form
    chosen = tuple(dict.fromkeys(visit.all_of("letter")))
    if form.get("which") == "ticked" and not chosen:
        raise BadRequestError("no letter is ticked: tick some, or redrive all that are shown by the filter")
    if len(chosen) > ITEMS_MAX:
        raise BadRequestError(f"at most {ITEMS_MAX} letters can be ticked: use the filter")
    which = LetterFilter(letters=chosen) if form.get("which") == "ticked" else _filter(form)
    spec = Redrive.chosen(group, which, only_group=bool(form.get("only_group")))
    pace = Pace(rate=_rate(form.get("rate", "")), canary=int(_rate(form.get("canary", ""))))
    new = NewJob(spec=spec, pace=pace, dry_run=bool(form.get("dry_run")))
    record = visit.desk.jobs.start(new, by=visit.by)
    view.forget(visit.desk, group)
    return Moved(link("jobs", record.id))


def _rate(text: str) -> float:
    try:
        value = float(text or 0)
    except ValueError as error:
        raise BadRequestError(f"{text[:40]!r} is no number") from error
    if not 0 <= value <= 10_000:
        raise BadRequestError("rates and canaries are numbers from 0 to 10000")
    return value


@pages.page("/dead-letters/{group}/export", title="Export")
async def export(visit: Visit) -> File:
    """Lines of JSON that ``pyromq send --jsonl`` takes back, with the topic that each letter was sent to first."""
    group = visit.path["group"]
    await view.letters_of(visit.desk, group)
    lines = view.letter_lines(visit.desk, group, _filter(visit.query))
    return File(f"dead-letters-{group}.jsonl", lines, "application/x-ndjson")


def _mentions(each: DelayedMessage, needle: str) -> bool:
    return any(needle in text.casefold() for text in (each.message_id, each.group, each.topic, *each.keys))


@pages.page("/retries", title="Retries", nav=Nav("Consume", order=20, key="r", badge="retries"))
async def retries(visit: Visit) -> Drawn:
    query = TableQuery.of(visit.query, sorts=("due", "group", "topic", "attempt"), kept=("group",))
    found, problem = await or_problem(view.waiting_retries(visit.desk), [])
    problem = f"Brokers do not tell what waits: {problem}" if problem else ""
    group, needle = visit.query.get("group", ""), query.search.casefold()
    chosen = [each for each in found if (not group or each.group == group) and (not needle or _mentions(each, needle))]
    keys = {
        "due": lambda each: each.due_ms,
        "group": lambda each: each.group,
        "topic": lambda each: each.topic,
        "attempt": lambda each: each.attempt,
    }
    page = query.cut(sorted_by(chosen, query, keys))
    errors = None
    if group:
        read = visit.desk.admin.dead_letters.retries_by_error(group, count_max=2_000)
        errors, problem = await or_problem(read, None)
    model = {"page": page, "problem": problem, "group": group, "errors": errors}
    return Drawn("retries.html", model)
