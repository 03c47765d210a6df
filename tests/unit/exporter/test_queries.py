"""Metrics of streaming queries, from the reports that they leave."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from pyromq.errors import ConnectFailedError
from pyromq.exporter.exporter import Exporter, ExporterSettings
from pyromq.exporter.queries import query_families
from pyromq.metrics import exporter_table as table
from pyromq.metrics.samples import Labels, Value
from pyromq.operate.query_reports import QueryBatch, QueryReport, SourceQueue, SourceReport
from pyromq.testing import ManualClock

NOW_MS = 10_000_000
QUEUES = (SourceQueue("orders", "broker-a", 1, 70, 30), SourceQueue("orders", "broker-a", 0, 90, 0))
SOURCE = SourceReport(group="billing", nameserver="n:1", topics=("orders",), lag=30, queues=QUEUES)
REPORT = QueryReport(
    id="q-1", name="bills", batches=(QueryBatch(NOW_MS - 3_000, 160, 500),), rows=160, rows_per_s=320.0,
    sources=(SOURCE,), told_ms=NOW_MS - 2_500,
)  # fmt: skip
LABELS = ("bills", "billing")


def samples_of(*reports: QueryReport, now_ms: int = NOW_MS) -> dict[str, dict[Labels, Value]]:
    return {family.metric.text_name: dict(family.samples) for family in query_families(reports, now_ms)}


def test_a_query_has_its_rates_and_the_lag_of_each_queue() -> None:
    found = samples_of(REPORT)
    assert found.pop("pyromq_query_queue_lag_messages") == {
        (*LABELS, "orders", "broker-a", "1"): 30, (*LABELS, "orders", "broker-a", "0"): 0,
    }  # fmt: skip
    assert found.pop("pyromq_query_queue_messages_total") == {
        (*LABELS, "orders", "broker-a", "1"): 70, (*LABELS, "orders", "broker-a", "0"): 90,
    }  # fmt: skip
    assert {name: samples[LABELS] for name, samples in found.items()} == {
        "pyromq_query_running": 1, "pyromq_query_report_age_seconds": 2.5, "pyromq_query_rows_total": 160,
        "pyromq_query_rows_per_second": 320.0, "pyromq_query_batch_seconds": 0.5, "pyromq_query_lag_messages": 30,
    }  # fmt: skip


def test_a_query_that_has_ended_is_shown_for_an_hour() -> None:
    ended = msgspec.structs.replace(REPORT, ended_ms=NOW_MS - 2_500)
    assert samples_of(ended)["pyromq_query_running"] == {LABELS: 0}
    assert samples_of(ended, now_ms=NOW_MS + 3_600_000) == {}


def test_of_two_reports_with_one_name_the_newest_counts() -> None:
    """A query that was started with a new checkpoint has a new id."""
    older = msgspec.structs.replace(REPORT, id="q-0", told_ms=NOW_MS - 9_000, rows=5)
    assert samples_of(REPORT, older)["pyromq_query_rows_total"] == {LABELS: 160}
    nameless = [msgspec.structs.replace(each, name="") for each in (REPORT, older)]
    assert samples_of(*nameless)["pyromq_query_rows_total"] == {("q-1", "billing"): 160, ("q-0", "billing"): 5}


def test_the_exporter_shows_queries_also_while_no_name_server_answers(tmp_path: Path) -> None:
    (tmp_path / "q-1.json").write_bytes(msgspec.json.encode(REPORT))

    async def away() -> list[Any]:
        raise ConnectFailedError("gone")

    clock = ManualClock(now_ms=NOW_MS)
    admin: Any = SimpleNamespace(client=SimpleNamespace(clock=clock), sweeper=SimpleNamespace(processes=away))
    exporter = Exporter(admin, ExporterSettings(queries=tmp_path))
    asyncio.run(exporter.refresh())
    steps = exporter.collect()
    try:
        while True:
            next(steps)
    except StopIteration as end:
        (part,) = end.value
    assert table.QUERY_QUEUE_LAG in {family.metric for family in part.families}
