"""What only this broker can know: facts of its store, and how often it asked about prepared messages."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from pyromq.broker.base.environment import Environment
from pyromq.broker.base.long_responses import PIECE, PIECES_AT_ONCE, Steps, elsewhere
from pyromq.broker.base.stats import Counters
from pyromq.broker.transactions.transaction_log import TransactionLog
from pyromq.net.connection import Connection
from pyromq.store.files.disk import Disk
from pyromq.store.files.segments import Segment
from pyromq.store.log.log_reader import stored_ms_of
from pyromq.store.log.retention import DiskState
from pyromq.store.maintenance import Maintenance
from pyromq.store.message_store import MessageStore
from pyromq.store.recovery_report import RecoveryReport
from pyromq.wire.json.store_facts import CheckCounts, DamageFacts, RecoveryFacts, SegmentFacts, StoreFacts
from pyromq.wire.received import Received
from pyromq.wire.record_layout import BODY_SIZE_AT

SEGMENTS_REPORTED_MAX: Final = 400  # half of them the oldest, half the newest
DAMAGE_REPORTED_MAX: Final = 100
CHECKS_REPORTED_MAX: Final = 10_000
_ON_A_WORKER: Final = PIECE * (PIECES_AT_ONCE + 1)  # as many as make a response a long one


class StoreHandler:
    """Handler of questions about the store and prepared messages. Requests 31010 and 31011."""

    def __init__(
        self,
        environment: Environment,
        store: MessageStore,
        maintenance: Maintenance,
        transactions: TransactionLog,
        counters: Counters,
    ) -> None:
        self._store = store
        self._maintenance = maintenance
        self._transactions = transactions
        self._counters = counters
        self._disk = environment.disk
        self._clock = environment.clock
        self._started_ms = environment.clock.now_ms()

    def facts(self, connection: Connection, request: Received[None]) -> Steps:
        """The loop knows the store, a worker asks the disk."""
        store, settings, health = self._store, self._store.settings, self._store.health
        now_ms = self._clock.now_ms()
        segments = store.log_segments()
        listed = _both_ends(segments)
        facts = StoreFacts(
            folder=str(store.layout.root),
            flush=settings.flush.value,
            writable=health.writable,
            problem="" if health.writable else str(health.error()),
            first_position=store.first_position,
            end_position=store.end_position,
            flushed_position=store.flushed_position,
            sealed_position=store.seals.position,
            segment_bytes=settings.segment_bytes,
            segment_count=len(segments),
            segments=(),
            queues=len(store.queues),
            disk_total_bytes=0,
            disk_free_bytes=0,
            disk_state=self._maintenance.disk_state.value,
            clean_percent=settings.clean_percent,
            force_clean_percent=settings.force_clean_percent,
            full_percent=settings.full_percent,
            keep_ms=settings.keep_ms,
            delete_hours=settings.delete_hours,
            delete_unread=settings.delete_unread,
            unread_deleted=self._counters.unread_deleted,
            now_ms=now_ms,
            next_deletion_ms=self._next_deletion_ms(now_ms),
            recovery=_recovery(store.recovered, self._started_ms),
        )
        yield from elsewhere(_ON_A_WORKER)
        return partial(_with_files, self._disk, facts, [_File(each.path, each.base, each.size) for each in listed])

    def _next_deletion_ms(self, now_ms: int) -> int:
        if self._maintenance.disk_state is not DiskState.FINE:
            return 0
        return next_hour_ms(now_ms, self._store.settings.delete_hours)

    def checks(self, connection: Connection, request: Received[None]) -> bytes:
        """How often producers were asked, which the broker keeps in memory."""
        table = self._transactions.table
        return msgspec.json.encode(CheckCounts(checks=table.checked(CHECKS_REPORTED_MAX), first=table.first))


class _File(NamedTuple):
    """What a worker may hold of a segment."""

    path: Path
    base: int
    size: int


def _with_files(disk: Disk, facts: StoreFacts, files: list[_File]) -> bytes:
    """On a worker, with values only."""
    usage = disk.usage(Path(facts.folder))
    segments = tuple(segment for file in files if (segment := _segment(disk, facts, file)) is not None)
    found = msgspec.structs.replace(
        facts,
        segments=segments,
        disk_total_bytes=usage.total_bytes,
        disk_used_bytes=usage.used_bytes,
        disk_free_bytes=usage.free_bytes,
    )
    return msgspec.json.encode(found)


def _segment(disk: Disk, facts: StoreFacts, file: _File) -> SegmentFacts | None:
    """None when retention has deleted the file meanwhile."""
    begin = max(file.base, facts.first_position)
    try:
        modified_ms = disk.modified_ms(file.path)
        fixed = b""
        if begin < facts.end_position:
            opened = disk.open(file.path, writable=False)
            try:
                fixed = opened.read_at(begin - file.base, BODY_SIZE_AT)
            finally:
                opened.close()
    except OSError:
        return None
    is_written = file.base + file.size >= facts.end_position
    return SegmentFacts(
        name=file.path.name,
        base=file.base,
        bytes=file.size,
        first_stored_ms=stored_ms_of(fixed) if len(fixed) == BODY_SIZE_AT else 0,
        modified_ms=modified_ms,
        expires_ms=0 if is_written else modified_ms + facts.keep_ms,
    )


def next_hour_ms(now_ms: int, hours: tuple[int, ...]) -> int:
    """When one of these hours of the day begins the next time; 0 when it is one of them now, or there is none."""
    now = datetime.fromtimestamp(now_ms / 1000).astimezone()
    if not hours or now.hour in hours:
        return 0
    full = now.replace(minute=0, second=0, microsecond=0)
    ahead = min((hour - now.hour) % 24 for hour in hours)
    return int((full + timedelta(hours=ahead)).timestamp() * 1000)


def _both_ends(segments: list[Segment]) -> list[Segment]:
    half = SEGMENTS_REPORTED_MAX // 2
    return segments if len(segments) <= SEGMENTS_REPORTED_MAX else segments[:half] + segments[-half:]


def _recovery(report: RecoveryReport, at_ms: int) -> RecoveryFacts:
    cuts = [
        DamageFacts(position=cut.position, size=cut.size, reason=cut.reason, copy=str(cut.copy)) for cut in report.cuts
    ]
    damaged = [
        DamageFacts(position=each.position, size=each.end - each.position, reason=each.reason)
        for each in report.damaged
    ]
    lists: tuple[list[DamageFacts], list[DamageFacts], list[str]] = (cuts, damaged, report.rebuilt)
    return RecoveryFacts(
        at_ms=at_ms,
        clean=report.clean,
        sealed=report.sealed,
        scanned_from=report.scanned_from,
        end=report.end,
        records=report.records,
        cuts=tuple(cuts[:DAMAGE_REPORTED_MAX]),
        damaged=tuple(damaged[:DAMAGE_REPORTED_MAX]),
        rebuilt=tuple(report.rebuilt[:DAMAGE_REPORTED_MAX]),
        unlisted=sum(max(0, len(each) - DAMAGE_REPORTED_MAX) for each in lists),
    )
