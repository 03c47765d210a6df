"""Reports of streaming queries: what each did last, in a small file that the console on the same machine reads.

    ~/.pyromq/pipelines/<query id>.json        or in the folder that PYROMQ_PIPELINES_FOLDER names

The process that runs a query writes its report after a batch, at most once a second, and when the query ends. Files are
replaced whole and not flushed: a report that a crash loses is written again after the next batch. ``pyromq exporter``
shows reports as metrics, the console as a page.
"""

from __future__ import annotations

import logging
import os
import re
import socket
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from pyromq.clock import Clock, default_clock

logger = logging.getLogger(__name__)

FOLDER_VARIABLE: Final = "PYROMQ_PIPELINES_FOLDER"
BATCHES_KEPT: Final = 60
REPORTS_MAX: Final = 1_000
QUEUES_MAX: Final = 1_000
_WRITE_MS: Final = 1_000
_FORGET_MS: Final = 7 * 86_400_000  # after its last batch
_TEXT_MAX: Final = 2_000
_is_id = re.compile(r"[0-9A-Za-z-]{1,64}").fullmatch


class QueryBatch(msgspec.Struct, frozen=True, array_like=True):
    """When it began, how many rows it had, how long it took."""

    time_ms: int
    rows: int
    took_ms: int


class SourceQueue(msgspec.Struct, frozen=True, array_like=True):
    """A queue after a batch: the next offset to read, and how many messages there were behind it."""

    topic: str
    broker: str
    queue: int
    offset: int
    lag: int


class SourceReport(msgspec.Struct, frozen=True, kw_only=True):
    """A source of ours: the group that it moves on. ``queues`` are the ``QUEUES_MAX`` that are most behind."""

    group: str
    nameserver: str
    topics: tuple[str, ...] = ()
    lag: int = 0
    queues: tuple[SourceQueue, ...] = ()


class QueryReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a query did last. ``ended_ms`` is 0 while it runs; a process that was killed says nothing more."""

    id: str
    run_id: str = ""
    name: str = ""
    batch: int = 0
    batches: tuple[QueryBatch, ...] = ()  # the newest last
    rows: int = 0  # of all batches since the process began to report
    rows_per_s: float = 0.0
    sources: tuple[SourceReport, ...] = ()
    sink: str = ""
    host: str = ""
    pid: int = 0
    started_ms: int = 0
    told_ms: int = 0
    ended_ms: int = 0
    error: str = ""


def reports_folder() -> Path:
    """PYROMQ_PIPELINES_FOLDER, or else a folder in the user's home."""
    named = os.environ.get(FOLDER_VARIABLE, "")
    return Path(named) if named else Path.home() / ".pyromq" / "pipelines"


def read_reports(folder: Path) -> list[QueryReport]:
    """Those that can be read, the newest first; a folder that is not there has none."""
    try:
        paths = sorted(folder.glob("*.json"))[:REPORTS_MAX]
    except OSError:
        return []
    found = []
    for path in paths:
        try:
            found.append(msgspec.json.decode(path.read_bytes(), type=QueryReport))
        except (OSError, msgspec.MsgspecError):
            continue
    return sorted(found, key=lambda report: -report.told_ms)


class QueryReports:
    """Writes the reports of the queries of this process. Never raises: a report is not worth a query."""

    def __init__(self, folder: Path | None = None, clock: Clock | None = None) -> None:
        self._folder = folder
        self._clock = clock or default_clock()
        self._reports: dict[str, QueryReport] = {}
        self._written_ms: dict[str, int] = {}
        self._has_failed = False

    def progressed(self, progress: dict[str, Any], sources: tuple[SourceReport, ...]) -> None:
        """After a batch: ``progress`` is Spark's, as it comes in JSON."""
        query_id, now_ms = str(progress.get("id") or ""), self._clock.now_ms()
        if not sources or not _is_id(query_id):
            return
        before = self._reports.get(query_id) or QueryReport(id=query_id, started_ms=now_ms)
        batch = QueryBatch(
            _time_ms(progress.get("timestamp")) or now_ms, _whole(progress, "numInputRows"), _took_ms(progress)
        )
        sink = progress.get("sink")
        report = msgspec.structs.replace(
            before,
            run_id=str(progress.get("runId", "")),
            name=str(progress.get("name") or "")[:_TEXT_MAX],
            batch=_whole(progress, "batchId"),
            batches=(*before.batches, batch)[-BATCHES_KEPT:],
            rows=before.rows + batch.rows,
            rows_per_s=_number(progress.get("processedRowsPerSecond")),
            sources=sources,
            sink=str(sink.get("description", ""))[:_TEXT_MAX] if isinstance(sink, dict) else "",
            host=socket.gethostname(),
            pid=os.getpid(),
            told_ms=now_ms,
            ended_ms=0,
            error="",
        )
        self._reports[query_id] = report
        if now_ms - self._written_ms.get(query_id, 0) >= _WRITE_MS:
            self._write(report)

    def ended(self, query_id: str, error: str) -> None:
        """The query has stopped, by itself or because of an error; of one without a source of ours nothing is known."""
        report = self._reports.pop(query_id, None)
        if report is not None:
            now_ms = self._clock.now_ms()
            self._write(msgspec.structs.replace(report, ended_ms=now_ms, told_ms=now_ms, error=error[:_TEXT_MAX]))
            self._written_ms.pop(query_id, None)

    def _write(self, report: QueryReport) -> None:
        folder = self._folder or reports_folder()
        path, aside = folder / f"{report.id}.json", folder / f".{report.id}.{os.getpid()}"
        try:
            if report.id not in self._written_ms:
                folder.mkdir(0o700, parents=True, exist_ok=True)
                self._forget_old(folder)
            aside.write_bytes(msgspec.json.encode(report))
            aside.chmod(0o600)
            aside.replace(path)
        except OSError as error:
            if not self._has_failed:
                logger.warning("report of a query not written: folder=%s reason=%s", folder, error)
            self._has_failed = True
        self._written_ms[report.id] = self._clock.now_ms()

    def _forget_old(self, folder: Path) -> None:
        for path in sorted(folder.glob("*.json"))[:REPORTS_MAX]:
            if self._clock.now_ms() - path.stat().st_mtime_ns // 1_000_000 > _FORGET_MS:
                path.unlink(missing_ok=True)


def _whole(progress: dict[str, Any], name: str) -> int:
    return int(_number(progress.get(name)))


def _number(value: object) -> float:
    """Spark writes no number, or NaN, where a batch took no time."""
    return float(value) if isinstance(value, int | float) and 0 <= value < float("inf") else 0.0


def _took_ms(progress: dict[str, Any]) -> int:
    durations = progress.get("durationMs")
    return _whole(durations, "triggerExecution") if isinstance(durations, dict) else 0


def _time_ms(text: object) -> int:
    """``2026-11-16T03:00:00.000Z``"""
    try:
        return int(datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp() * 1000)
    except ValueError:
        return 0
