"""The commit log under a check: one pass over all files, with recovery's own idea of where the log ends.

Damage before ``durable`` (the seal, or what RocketMQ's rules give in its place) is a loss: recovery passes it over and
it stays. At the first damage behind ``durable`` the log ends, and what lies there would be cut. Every whole record
before that end is handed on, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pyromq.store.check.files import FileRun, FoundFile, Ranges, SafeView
from pyromq.store.check.report import Findings, LogCheck, PlannedCut, SegmentCheck, StoreSeverity, count_of
from pyromq.store.files.disk import Disk
from pyromq.store.files.segments import segment_name
from pyromq.store.log.log_walk import BEHIND_END
from pyromq.wire.record import (
    NothingWritten,
    RecordFound,
    SegmentEnd,
    find_record_after,
    has_checksum,
    scan_record,
)
from pyromq.wire.record_layout import BLANK_BYTES

Progress = Callable[[int, int], None]
"""Called now and then with the bytes of log looked at and the bytes of log in all."""

RecordSink = Callable[[int, RecordFound], None]

_PROGRESS_BYTES = 8 << 20


@dataclass(slots=True)
class _Tally:
    """What was counted in one file."""

    records: int = 0
    record_bytes: int = 0
    checksummed: int = 0
    damaged_bytes: int = 0
    closed: bool = False


class LogScan:
    """One pass over the log; ``damaged`` grows before the records behind the damage are handed on."""

    def __init__(
        self, disk: Disk, run: FileRun, *, durable: int, rescan_from: int, clean: bool, findings: Findings
    ) -> None:
        self._disk = disk
        self._run = run
        self._durable = durable
        self._rescan_from = rescan_from
        self._clean = clean
        self._findings = findings
        self.damaged = Ranges()
        self._end: int | None = None  # where the log ends, once that is known
        self._reason = ""
        self._segments: list[SegmentCheck] = []
        self._cuts: list[PlannedCut] = []
        self._stored_ms_max = 0

    def run(self, sink: RecordSink, progress: Progress) -> LogCheck:
        total, last_end = self._total_bytes(), self._run.first
        for file in self._run.files:
            if file.base > last_end and self._end is None:
                self._lose(last_end, file.base, "the file is missing")
            self._look_at(file, sink, partial(_report, progress, file.base - self._run.first, total))
            last_end = file.base + self._run.file_bytes
        if self._end is None and self._durable > last_end:
            self._lose(last_end, self._durable, "the log was durable up to here once and its last files are gone")
            last_end = self._durable
        progress(total, total)
        return LogCheck(
            segment_bytes=self._run.file_bytes,
            first=self._run.first,
            end=last_end if self._end is None else self._end,
            segments=tuple(self._segments),
            damaged_ranges=len(self.damaged),
            damaged_bytes=self.damaged.size_bytes,
            cuts=tuple(self._cuts),
            stored_ms_max=self._stored_ms_max,
        )

    def _total_bytes(self) -> int:
        return max(0, self._run.data_end() - self._run.first)

    def _look_at(self, file: FoundFile, sink: RecordSink, progress: Callable[[int], None]) -> None:
        view = SafeView(self._disk, file.path, self._run.file_bytes)
        try:
            for start, end, reason in view.unreadable:
                self._findings.add(
                    StoreSeverity.ERROR,
                    "log-unreadable",
                    f"commitlog/{file.path.name}",
                    f"the disk cannot read {end - start} bytes: {reason}",
                    position=file.base + start,
                    size=end - start,
                )
            tally = _Tally()
            if self._end is None:
                self._scan(view.data, file.base, tally, sink, progress)
            if self._end is not None:
                self._plan_cut(view, file.base)
        finally:
            view.close()
        self._segments.append(
            SegmentCheck(
                name=file.path.name,
                base=file.base,
                records=tally.records,
                record_bytes=tally.record_bytes,
                checksummed=tally.checksummed,
                damaged_bytes=tally.damaged_bytes,
                closed=tally.closed,
            )
        )

    def _scan(
        self, data: memoryview, base: int, tally: _Tally, sink: RecordSink, progress: Callable[[int], None]
    ) -> None:
        position, end, reported = base, base + len(data), base
        while position < end:
            found = scan_record(data, position - base, position, may_be_torn=position >= self._durable)
            if isinstance(found, RecordFound):
                tally.records += 1
                tally.record_bytes += found.size
                tally.checksummed += has_checksum(found.properties)
                self._stored_ms_max = max(self._stored_ms_max, found.stored_ms)
                sink(position, found)
                position = self._step_over(position, found.size)
            elif isinstance(found, SegmentEnd):
                tally.closed = True
                position = end
            else:
                reason = "nothing is written there" if isinstance(found, NothingWritten) else found.reason
                if position >= self._durable:
                    self._end = position
                    self._reason = BEHIND_END if isinstance(found, NothingWritten) else reason
                    return
                after = find_record_after(data, position + 1 - base, position + 1)
                lost_end = min(end if after is None else base + after, self._durable)
                tally.damaged_bytes += lost_end - position
                self._lose(position, lost_end, reason)
                position = lost_end
            if position - reported >= _PROGRESS_BYTES:
                reported = position
                progress(position - base)

    def _step_over(self, position: int, size: int) -> int:
        """The next position; where recovery would start to scan, when that lies inside the record."""
        after = position + size
        if not position < self._rescan_from < after:
            return after
        self._findings.add(
            StoreSeverity.ERROR,
            "seal-mismatch",
            "pyromq-seal.json",
            f"it ends at {self._rescan_from}, inside the record at {position}: seal and log do not belong together; "
            "opening the store would cut the log there",
            position=position,
            size=size,
        )
        return self._rescan_from

    def _lose(self, start: int, end: int, reason: str) -> None:
        self.damaged.add(start, end)
        name = segment_name(start - start % self._run.file_bytes) if self._run.file_bytes else ""
        self._findings.add(
            StoreSeverity.ERROR,
            "records-lost",
            f"commitlog/{name}",
            f"{end - start} bytes at position {start} are lost: {reason}",
            position=start,
            size=end - start,
        )

    def _plan_cut(self, view: SafeView, base: int) -> None:
        """What recovery would take out of this file: everything behind the end of the log that is not zero."""
        assert self._end is not None
        at = max(0, self._end - base)
        if view.data_end <= at:
            return
        reason = self._reason if self._end >= base else BEHIND_END
        whole = self._count_whole(view.data, at, view.data_end, base)
        cut = PlannedCut(base + at, view.data_end - at, reason, whole)
        self._cuts.append(cut)
        text = f"recovery would cut {cut.size} bytes from position {cut.position} on: {reason}"
        if whole:
            text += f"; with {count_of(whole, 'whole record')} among them, perhaps acknowledged"
        severity = StoreSeverity.ERROR if whole and self._clean else StoreSeverity.WARNING
        where = f"commitlog/{segment_name(base)}"
        self._findings.add(severity, "log-cut", where, text, position=cut.position, size=cut.size)

    def _count_whole(self, data: memoryview, at: int, end: int, base: int) -> int:
        """Undamaged records behind the end of the log in one file."""
        count, where = 0, at
        while where < end:
            found = scan_record(data, where, base + where)
            if isinstance(found, RecordFound):
                count += 1
                where += found.size
                continue
            after = find_record_after(data[: end + BLANK_BYTES], where, base + where)
            if after is None:
                break
            where = after
        return count


def _report(progress: Progress, before: int, total: int, at: int) -> None:
    progress(before + at, total)
