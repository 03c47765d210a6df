"""Jobs: bulk work under way and done, each with a page that tells what became of every item."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec

from pyromq.console.views.times import read_moment
from pyromq.console.web.formatting import link
from pyromq.console.web.forms import about_field
from pyromq.console.web.pages import Nav, Pages
from pyromq.console.web.tables import TableQuery
from pyromq.console.web.visit import BadRequestError, Drawn, File, Moved, Visit
from pyromq.model.names import dead_letter_topic
from pyromq.operate.jobs.book import describe
from pyromq.operate.jobs.outcomes import Outcome
from pyromq.operate.jobs.record import JobRecord, JobState
from pyromq.operate.jobs.specs import CopyTopic, JobSpec, NewJob, Pace, Redrive

pages = Pages()

_SHOWN_MAX = 100
BADGES = {
    JobState.RUNNING: "accent",
    JobState.CANARY: "warning",
    JobState.PAUSED: "warning",
    JobState.CANCELLING: "warning",
    JobState.FINISHED: "ok",
    JobState.CANCELLED: "plain",
    JobState.FAILED: "bad",
    JobState.INTERRUPTED: "bad",
}
OUTCOME_BADGES = {
    Outcome.CONFIRMED: "ok",
    Outcome.UNCHANGED: "plain",
    Outcome.UNKNOWN: "warning",
    Outcome.NOT_ATTEMPTED: "plain",
}


@pages.page("/jobs", title="Jobs", nav=Nav("Operate", order=10, key="j", badge="jobs"))
async def jobs(visit: Visit) -> Drawn:
    query = TableQuery.of(visit.query, sorts=("created",))
    page = query.cut(visit.desk.jobs.all())
    return Drawn("jobs.html", {"page": page, "describe": describe, "badges": BADGES})


@pages.page("/jobs/copy", title="Copy messages")
async def copy(visit: Visit) -> Drawn:
    names = ("topic", "to_topic", "tag", "sql", "begin", "end")
    given = {name: visit.query.get(name, "") for name in names}
    return Drawn("job_copy.html", {"given": given, "topics": await visit.desk.offered_topics()})


@pages.action("/jobs/copy")
async def start_copy(visit: Visit) -> Moved:
    form, now_ms = visit.form, visit.now_ms
    given: dict[str, object] = {name: form.get(name, "").strip() for name in ("topic", "to_topic", "tag", "sql")}
    with about_field("begin"):
        begin_ms = read_moment(form.get("begin", ""), now_ms)
    with about_field("end"):
        end_ms = read_moment(form.get("end", ""), now_ms)
    given |= {} if begin_ms is None else {"begin_ms": begin_ms}
    given |= {} if end_ms is None else {"end_ms": end_ms}
    try:
        spec = msgspec.convert({"kind": "copy", **given}, CopyTopic)
        pace = msgspec.convert({"rate": form.get("rate") or 0, "canary": form.get("canary") or 0}, Pace, strict=False)
    except msgspec.ValidationError as error:
        raise BadRequestError(f"the copy cannot be read: {error}") from error
    new = NewJob(spec=spec, pace=pace, dry_run=bool(form.get("dry_run")))
    return Moved(link("jobs", visit.desk.jobs.start(new, by=visit.by).id))


@pages.page("/jobs/{job_id}", title="Job")
async def job(visit: Visit) -> Drawn:
    job_id = visit.path["job_id"]
    record = visit.desk.jobs.get(job_id)
    wanted = visit.query.get("outcome", "")
    outcomes = frozenset((Outcome(wanted),)) if wanted in set(Outcome) else None
    skip = min(int(text), 10**7) if (text := visit.query.get("skip", "")).isdigit() and len(text) < 9 else 0
    found = visit.desk.jobs.page_of_results(job_id, skip=skip, count_max=_SHOWN_MAX + 1, outcomes=outcomes)
    results = await found
    run = visit.desk.jobs.run_of(job_id)
    model = {
        "record": record,
        "spec": record.spec,
        "title_text": describe(record.spec),
        "rate": run.rate if run is not None else None,
        "results": results[:_SHOWN_MAX],
        "has_more": len(results) > _SHOWN_MAX,
        "skip": skip,
        "step": _SHOWN_MAX,
        "wanted": wanted,
        "outcomes": list(Outcome),
        "badges": BADGES,
        "outcome_badges": OUTCOME_BADGES,
        "commands": record.spec.commands(),
        "api_body": _as_new(record),
        "items_in": _topic_of(record.spec),
    }
    return Drawn("job.html", model, title=describe(record.spec)[:80])


def _as_new(record: JobRecord) -> str:
    """What starts the same job anew."""
    spec = msgspec.structs.replace(record.spec, run_id="")
    return msgspec.json.encode(NewJob(spec=spec, pace=record.pace, dry_run=record.dry_run)).decode()


def _topic_of(spec: JobSpec) -> str:
    """The topic whose messages the items are, by their offset ids; empty where they are something else."""
    match spec:
        case Redrive():
            return dead_letter_topic(spec.group)
        case CopyTopic():
            return spec.topic
    return ""


@pages.action("/jobs/{job_id}/{what}")
async def ask(visit: Visit) -> Moved:
    """pause, resume, go, cancel, continue, or undo."""
    job_id, what = visit.path["job_id"], visit.path["what"]
    if what == "continue":
        return Moved(link("jobs", visit.desk.jobs.go_on(job_id, by=visit.by).id))
    if what == "undo":
        return Moved(link("jobs", visit.desk.jobs.undo(job_id, by=visit.by).id))
    if what not in ("pause", "resume", "go", "cancel"):
        raise BadRequestError("a job can pause, resume, go, cancel, continue or undo")
    visit.desk.jobs.ask(job_id, what)
    return Moved(link("jobs", job_id))


@pages.page("/jobs/{job_id}/results", title="Results")
async def results(visit: Visit) -> File:
    """All results as lines of JSON."""
    job_id = visit.path["job_id"]
    visit.desk.jobs.get(job_id)

    async def lines() -> AsyncIterator[bytes]:
        for number, result in enumerate(visit.desk.jobs.results(job_id)):
            if number % 500 == 0:
                await asyncio.sleep(0)  # others get their turn
            yield msgspec.json.encode(result) + b"\n"

    return File(f"job-{job_id}.jsonl", lines(), "application/x-ndjson")
