"""Pipelines: streaming queries of Spark, as they report themselves, beside their groups as the cluster sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from pyromq.console.desk import Desk
from pyromq.errors import MQError
from pyromq.operate.query_reports import QueryBatch, QueryReport, read_reports, reports_folder

SILENT_MS: Final = 120_000  # a running query reports after every batch


class State(StrEnum):
    RUNNING = "running"
    SILENT = "silent"  # no batch for long: it has nothing to do, or its process is gone
    ENDED = "ended"
    FAILED = "failed"


class PipelineGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group that a query moves on: its lag, and how many rows became dead letters. -1: not known."""

    group: str
    topics: tuple[str, ...]
    lag: int = -1
    dead: int = -1
    problem: str = ""


class Pipeline(msgspec.Struct, frozen=True, kw_only=True):
    report: QueryReport
    state: State
    groups: tuple[PipelineGroup, ...]
    batches_per_min: float


class Pipelines(msgspec.Struct, frozen=True, kw_only=True):
    """``folder`` is where reports were looked for."""

    folder: str
    queries: tuple[Pipeline, ...]


async def read_pipelines(desk: Desk, folder: Path | None = None) -> Pipelines:
    where = folder or reports_folder()
    reports = await asyncio.to_thread(read_reports, where)
    queries = [await _with_groups(desk, report) for report in reports]
    return Pipelines(folder=str(where), queries=tuple(queries))


async def _with_groups(desk: Desk, report: QueryReport) -> Pipeline:
    """Groups of another cluster are named and not asked about."""
    groups = []
    for source in report.sources:
        state = PipelineGroup(group=source.group, topics=source.topics)
        if _is_same(source.nameserver, desk.settings.nameservers):
            state = await _asked(desk, state)
        else:
            state = msgspec.structs.replace(state, problem=f"of another cluster, {source.nameserver}")
        groups.append(state)
    return Pipeline(
        report=report,
        state=state_of(report, desk.clock.now_ms()),
        groups=tuple(groups),
        batches_per_min=batches_per_min(report.batches),
    )


async def _asked(desk: Desk, state: PipelineGroup) -> PipelineGroup:
    try:
        progress, letters = await desk.admin.groups.lag(state.group), await desk.letter_counts(state.group)
    except MQError as error:
        return msgspec.structs.replace(state, problem=str(error))
    lag = sum(max(0, each.broker_offset - each.consumer_offset) for each in progress.values())
    return msgspec.structs.replace(state, lag=lag, dead=letters.total)


def state_of(report: QueryReport, now_ms: int) -> State:
    if report.ended_ms:
        return State.FAILED if report.error else State.ENDED
    return State.RUNNING if now_ms - report.told_ms < SILENT_MS else State.SILENT


def batches_per_min(batches: Sequence[QueryBatch]) -> float:
    """Over those that are remembered; 0 for fewer than two."""
    if len(batches) < 2 or batches[-1].time_ms <= batches[0].time_ms:
        return 0.0
    return round((len(batches) - 1) * 60_000 / (batches[-1].time_ms - batches[0].time_ms), 2)


def _is_same(one: str, other: str) -> bool:
    """Whether two lists of name servers have one in common."""
    return bool(_addresses(one) & _addresses(other))


def _addresses(text: str) -> set[str]:
    words = text.replace(",", ";").split(";")
    return {word.strip().replace("localhost", "127.0.0.1") for word in words if word.strip()}
