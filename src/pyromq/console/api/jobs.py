"""Jobs: start one, look at it, steer it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Literal

import msgspec

from pyromq.console.web.api import Api, Call
from pyromq.console.web.streams import Event, Events
from pyromq.operate.jobs.outcomes import ItemResult, Outcome
from pyromq.operate.jobs.record import JobRecord
from pyromq.operate.jobs.specs import NewJob

functions = Api("jobs")

_STEP_S = 0.5
JobId = Annotated[str, msgspec.Meta(min_length=1, max_length=80)]


class JobPath(msgspec.Struct, frozen=True):
    job_id: JobId


class AskPath(msgspec.Struct, frozen=True):
    job_id: JobId
    what: Literal["pause", "resume", "go", "cancel"]


class JobList(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs, newest first."""

    jobs: list[JobRecord]


class ResultsQuery(msgspec.Struct, frozen=True, kw_only=True):
    outcome: Literal["", "confirmed", "unchanged", "unknown", "not attempted"] = ""
    skip: Annotated[int, msgspec.Meta(ge=0, le=10_000_000)] = 0
    count: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 100


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """In the order in which they came."""

    results: list[ItemResult]


@functions.get("/jobs", summary="List jobs")
async def list_jobs(call: Call) -> JobList:
    """Those under way and those that are over, with the counts of each outcome."""
    return JobList(jobs=call.desk.jobs.all())


@functions.post("/jobs", summary="Start a job", status=201)
async def start(call: Call, body: NewJob) -> JobRecord:
    """Redrive dead letters, copy a topic, send messages again, reset offsets, delete topics or groups.

    A dry run says of each item what would be done."""
    return call.desk.jobs.start(body, by=call.who.name)


@functions.get("/jobs/{job_id}", summary="One job")
async def get(call: Call, path: JobPath) -> JobRecord:
    """Its state and counts at this moment."""
    return call.desk.jobs.get(path.job_id)


@functions.get("/jobs/{job_id}/results", summary="What became of the items of a job")
async def results(call: Call, path: JobPath, query: ResultsQuery) -> Results:
    """A page of them, of one outcome if it is named."""
    outcomes = frozenset((Outcome(query.outcome),)) if query.outcome else None
    found = await call.desk.jobs.page_of_results(path.job_id, skip=query.skip, count_max=query.count, outcomes=outcomes)
    return Results(results=found)


@functions.post("/jobs/{job_id}/continue", summary="Do what a job has left", status=201)
async def go_on(call: Call, path: JobPath) -> JobRecord:
    """A new job with the same specification; what the first one did is not done again."""
    return call.desk.jobs.go_on(path.job_id, by=call.who.name)


@functions.post("/jobs/{job_id}/undo", summary="Undo a reset of offsets", status=201)
async def undo(call: Call, path: JobPath) -> JobRecord:
    """A new job that moves each queue back to where it stood."""
    return call.desk.jobs.undo(path.job_id, by=call.who.name)


@functions.post("/jobs/{job_id}/ask/{what}", summary="Pause, resume, let go on, or cancel a job")
async def ask(call: Call, path: AskPath) -> JobRecord:
    """``go`` is for a job that waits after its canary. What is left of a cancelled one is not attempted."""
    return call.desk.jobs.ask(path.job_id, path.what)


@functions.get("/jobs/{job_id}/stream", summary="Follow a job")
async def stream(call: Call, path: JobPath) -> Events:
    """Server-sent events ``progress`` with the record, twice a second at most, and ``over``, which is the last one."""
    jobs, job_id = call.desk.jobs, path.job_id
    jobs.get(job_id)

    async def changes() -> AsyncIterator[Event]:
        while (record := jobs.get(job_id)).is_active:
            yield Event("progress", msgspec.json.encode(record).decode())
            await jobs.changed(job_id)
            await asyncio.sleep(_STEP_S)
        yield Event("over", msgspec.json.encode(jobs.get(job_id)).decode())

    return Events(changes())
