"""Reports of queries: what they say, how often they are written, and that nothing of it disturbs a query."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from pyromq.operate.query_reports import (
    BATCHES_KEPT,
    QueryReports,
    SourceReport,
    read_reports,
    reports_folder,
)
from pyromq.testing import ManualClock

OURS = (SourceReport(group="reports", nameserver="n:1", topics=("orders",)),)


def progress(**changes: Any) -> dict[str, Any]:
    """As Spark 4 writes it."""
    return {
        "id": "87d06d2c-4d15-4bc8-9a13-77b1d5f4c3a5",
        "runId": "run-1",
        "name": "orders by hour",
        "timestamp": "2026-11-16T03:00:00.000Z",
        "batchId": 7,
        "durationMs": {"triggerExecution": 420, "addBatch": 300},
        "numInputRows": 1_000,
        "processedRowsPerSecond": 2_380.9,
        "sink": {"description": "FileSink[/archive]"},
        **changes,
    }


def test_a_batch_is_told_whole(tmp_path: Path) -> None:
    clock = ManualClock()
    QueryReports(tmp_path / "new", clock).progressed(progress(), OURS)
    (report,) = read_reports(tmp_path / "new")
    assert (report.name, report.batch, report.rows, report.sink) == ("orders by hour", 7, 1_000, "FileSink[/archive]")
    assert report.sources == OURS and report.rows_per_s == 2_380.9 and report.told_ms == clock.now_ms()
    assert (report.batches[0].rows, report.batches[0].took_ms) == (1_000, 420)
    assert report.batches[0].time_ms == 1_794_798_000_000 and report.pid == os.getpid()
    (path,) = (tmp_path / "new").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_reports_are_written_once_a_second_and_at_the_end(tmp_path: Path) -> None:
    clock = ManualClock()
    reports = QueryReports(tmp_path, clock)
    reports.progressed(progress(batchId=1), OURS)
    clock.advance_ms(10)
    reports.progressed(progress(batchId=2), OURS)
    assert [each.batch for each in read_reports(tmp_path)] == [1]
    clock.advance_ms(1_000)
    reports.progressed(progress(batchId=3), OURS)
    assert [(each.batch, each.rows) for each in read_reports(tmp_path)] == [(3, 3_000)]
    reports.progressed(progress(batchId=4), OURS)
    reports.ended(progress()["id"], "x" * 10_000)
    (report,) = read_reports(tmp_path)
    assert report.batch == 4 and report.ended_ms == clock.now_ms() and len(report.error) == 2_000
    reports.ended(progress()["id"], "twice")
    reports.ended("unknown", "")
    assert read_reports(tmp_path) == [report]


def test_batches_are_bounded(tmp_path: Path) -> None:
    clock = ManualClock()
    reports = QueryReports(tmp_path, clock)
    for number in range(BATCHES_KEPT + 5):
        clock.advance_ms(2_000)
        reports.progressed(progress(batchId=number), OURS)
    (report,) = read_reports(tmp_path)
    assert len(report.batches) == BATCHES_KEPT and report.batch == BATCHES_KEPT + 4


@pytest.mark.parametrize(
    "odd",
    [
        {"id": "../../etc/passwd"},
        {"id": ""},
        {"id": None},
    ],
)
def test_an_id_that_could_be_a_path_is_left_alone(tmp_path: Path, odd: dict[str, Any]) -> None:
    QueryReports(tmp_path / "in").progressed(progress(**odd), OURS)
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize(
    "odd",
    [
        {
            "numInputRows": None,
            "batchId": "x",
            "durationMs": None,
            "sink": None,
            "timestamp": "yesterday",
            "name": None,
        },
        {"processedRowsPerSecond": float("nan"), "numInputRows": -5, "durationMs": {"triggerExecution": float("inf")}},
    ],
)
def test_numbers_that_are_none_count_as_zero(tmp_path: Path, odd: dict[str, Any]) -> None:
    QueryReports(tmp_path).progressed(progress(**odd), OURS)
    (report,) = read_reports(tmp_path)
    assert report.rows_per_s >= 0 and report.rows >= 0
    json.dumps(report.rows_per_s, allow_nan=False)


def test_a_folder_that_cannot_be_written_disturbs_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_bytes(b"")
    reports = QueryReports(tmp_path / "file" / "below")
    reports.progressed(progress(), OURS)
    reports.progressed(progress(id="another"), OURS)
    assert caplog.text.count("report of a query not written") == 1


def test_what_is_no_report_is_passed_over(tmp_path: Path) -> None:
    assert read_reports(tmp_path / "nothing") == []
    (tmp_path / "a.json").write_bytes(b"{")
    (tmp_path / "b.json").mkdir()
    QueryReports(tmp_path).progressed(progress(), OURS)
    assert len(read_reports(tmp_path)) == 1


def test_old_reports_are_forgotten_when_a_query_begins(tmp_path: Path) -> None:
    clock = ManualClock()
    old = tmp_path / "old.json"
    old.write_bytes(b"{}")
    os.utime(old, (clock.now_ms() / 1000 - 8 * 86_400,) * 2)
    QueryReports(tmp_path, clock).progressed(progress(), OURS)
    assert not old.exists() and len(read_reports(tmp_path)) == 1


def test_the_folder_may_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYROMQ_PIPELINES_FOLDER", str(tmp_path))
    assert reports_folder() == tmp_path
    monkeypatch.delenv("PYROMQ_PIPELINES_FOLDER")
    assert reports_folder().parts[-2:] == (".pyromq", "pipelines")
