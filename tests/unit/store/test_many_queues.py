"""Thousands of queues: whatever is done for all of them is done some at a time, and recovery believes nothing early."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from pyromq.store.maintenance import Maintenance
from pyromq.store.message_store import QUEUES_AT_ONCE, MessageStore
from pyromq.store.sealing.checkpoint import load_flushed
from pyromq.store.sealing.seal import load_seal
from pyromq.store.sealing.seal_job import SealJob
from pyromq.store.settings import StoreSettings
from pyromq.testing import CrashMode, FaultyDisk, ManualClock
from pyromq.wire.record import Draft, split_records
from tests.crash.script import check_agreement

ROOT = Path("/data")
MANY = 3 * QUEUES_AT_ONCE
SETTINGS = StoreSettings(
    segment_bytes=1 << 16, queue_file_entries=8, index_slots=16, index_entries=64, keep_ms=3_600_000
)
ALWAYS = tuple(range(24))


class Bench:
    def __init__(self, settings: StoreSettings = SETTINGS, disk: FaultyDisk | None = None) -> None:
        self.clock = ManualClock()
        self.disk = disk or FaultyDisk(clock_ms=self.clock.now_ms)
        self.store = MessageStore.open(ROOT, settings, disk=self.disk, clock=self.clock)

    def send(self, *queues: int, body: bytes = b"x", topic: str = "orders") -> None:
        self.store.append([Draft(topic=topic, queue_id=number, body=body) for number in queues])
        self.store.flush()

    def operations(self, work: Callable[[], object]) -> int:
        before = self.disk.operations
        work()
        return self.disk.operations - before

    def crashed(self, mode: CrashMode = CrashMode.FORGET) -> Bench:
        disk = self.disk.after_crash(mode)
        return Bench(self.store.settings, disk)

    def bodies(self, queue_id: int) -> list[bytes]:
        result = self.store.reader.read("orders", queue_id, 0)
        return [record.body for record in split_records(result.to_bytes())]

    @property
    def written(self) -> int:
        """Queues that are owed nothing."""
        return sum(queue.owed_entries == 0 for queue in self.store.queues.values())


# --- notes ---


def test_a_tick_writes_the_entries_of_some_queues_only() -> None:
    bench = Bench()
    bench.send(*range(MANY))
    maintenance = Maintenance(bench.store, bench.disk, bench.clock)
    maintenance.tick()
    assert 0 < bench.written <= QUEUES_AT_ONCE


def test_the_flushed_position_is_noted_when_all_queues_that_were_behind_are_written() -> None:
    bench = Bench()
    bench.send(*range(MANY))
    noted, flushed = load_flushed(bench.disk, ROOT / "checkpoint"), bench.store.flushed_position
    bench.store.note_flushed()
    bench.send(0, MANY)  # more comes meanwhile: it is not part of this note
    for _ in range(2):
        bench.store.write_entries(QUEUES_AT_ONCE)
        assert load_flushed(bench.disk, ROOT / "checkpoint") == noted
    bench.store.write_entries(QUEUES_AT_ONCE)
    assert load_flushed(bench.disk, ROOT / "checkpoint") == flushed < bench.store.flushed_position


def test_a_note_does_not_wait_for_queues_of_a_topic_that_was_deleted() -> None:
    bench = Bench()
    bench.send(0, 1)
    bench.store.note_flushed()
    flushed = bench.store.flushed_position
    bench.store.delete_topic("orders")
    bench.store.write_entries()
    assert load_flushed(bench.disk, ROOT / "checkpoint") == flushed


def test_a_note_that_a_seal_swept_away_is_made_again() -> None:
    bench = Bench()
    bench.send(0)
    job = bench.store.seals.job()
    assert job is not None
    job.sync()
    bench.send(0)
    bench.store.write_entries()
    bench.store.note_flushed()
    assert job.save()  # with a checkpoint of its own, which is older
    bench.store.seals.finish(job, None)
    bench.store.note_flushed()
    assert load_flushed(bench.disk, ROOT / "checkpoint") == bench.store.flushed_position


def test_entries_that_readers_had_written_do_not_count_as_backlog() -> None:
    bench = Bench(StoreSettings(entry_backlog_max=100, segment_bytes=1 << 20, index_slots=16, index_entries=64))
    bench.send(1)
    for _ in range(120):
        bench.send(0)
        assert bench.store.reader.range_of("orders", 0)  # a consumer reads it at once
    assert bench.store.queues["orders", 1].owed_entries == 1, "only readers had a reason to write"


# --- seals ---


def gathered(bench: Bench, job: SealJob | None) -> SealJob:
    assert job is not None
    while not bench.store.seals.gather(job, 1):
        pass
    return job


def test_a_seal_gathers_some_queues_at_a_time() -> None:
    bench = Bench()
    bench.send(*range(MANY))
    job = bench.store.seals.begin()
    assert job is not None
    assert not bench.store.seals.gather(job, QUEUES_AT_ONCE)
    assert bench.written == QUEUES_AT_ONCE


def test_messages_that_come_while_a_seal_is_gathered_are_neither_lost_nor_doubled() -> None:
    bench = Bench()
    bench.send(0, 1, 2, body=b"before")
    job = bench.store.seals.begin()
    assert job is not None
    bench.store.seals.gather(job, 1)
    bench.send(0, 1, 2, 3, body=b"meanwhile")
    gathered(bench, job)
    job.sync()
    assert job.save()
    again = bench.crashed()
    check_agreement(again.store)
    assert [again.bodies(number) for number in range(4)] == [[b"before", b"meanwhile"]] * 3 + [[b"meanwhile"]]
    assert again.store.recovered.intact


def test_a_seal_holds_for_the_log_as_far_as_its_queues_go() -> None:
    bench = Bench()
    bench.send(0, 1, body=b"before")
    job = bench.store.seals.begin()
    assert job is not None
    bench.store.seals.gather(job, 1)
    victim = bench.store.end_position
    bench.send(1, body=b"meanwhile")
    bench.send(1, body=b"behind it")
    gathered(bench, job)
    job.sync()
    assert job.save()
    bench.disk.remove(ROOT / "checkpoint")
    disk = bench.disk.after_crash(CrashMode.FORGET)
    disk.flip_bit(ROOT / "commitlog" / f"{0:020d}", 8 * (victim + 60))
    again = Bench(SETTINGS, disk)
    assert [damaged.position for damaged in again.store.recovered.damaged] == [victim]
    assert again.bodies(1) == [b"before", b"behind it"]


def test_a_damaged_record_is_not_served_because_a_scan_for_the_sake_of_another_queue_went_past_it() -> None:
    bench = Bench()
    bench.send(0, 1, body=b"good")
    victim = bench.store.end_position
    bench.send(1, body=b"damaged")
    bench.store.close()
    bench.disk.flip_bit(ROOT / "commitlog" / f"{0:020d}", 8 * (victim + 60))
    bench.disk.flip_bit(ROOT / "consumequeue" / "orders" / "0" / f"{0:020d}", 3)
    again = Bench(SETTINGS, bench.disk)
    assert again.bodies(1) == [b"good"]


def test_what_an_abandoned_seal_gathered_is_synced_by_the_next_one() -> None:
    bench = Bench()
    bench.send(0, 1)
    abandoned = bench.store.seals.begin()
    assert abandoned is not None
    bench.store.seals.gather(abandoned, 1)
    assert bench.store.seal()
    again = bench.crashed()
    assert again.store.recovered.rebuilt == []


# --- retention ---


def expired(count: int = 3, queues: int = 1, delete_hours: tuple[int, ...] = ALWAYS, **given: bool) -> Bench:
    """A store with that many files that are old enough to go."""
    bench = Bench(StoreSettings(segment_bytes=4096, queue_file_entries=8, index_slots=16, index_entries=64,
                                keep_ms=3_600_000, delete_hours=delete_hours, **given))  # fmt: skip
    bench.send(*range(queues), body=b"old")
    while len(bench.store.log.segments) <= count:
        bench.send(0, body=bytes(1000))
    bench.clock.advance_ms(3_600_001)
    return bench


def test_files_that_are_not_sealed_wait_for_a_seal_made_elsewhere() -> None:
    bench, asked = expired(), list[int]()
    maintenance = Maintenance(bench.store, bench.disk, bench.clock, seal=lambda: asked.append(1))
    assert maintenance.delete_expired() == 0
    assert asked and bench.store.seals.position == 0
    bench.store.seal()
    assert maintenance.delete_expired() == 3


def test_a_deletion_that_was_asked_for_happens_when_the_seal_is_there_whatever_the_hour() -> None:
    bench = expired(delete_hours=())
    maintenance = Maintenance(bench.store, bench.disk, bench.clock, seal=lambda: None)
    assert maintenance.delete_expired(at_any_hour=True) == 0
    bench.store.seal()
    bench.clock.advance_ms(1_000)
    maintenance.tick()
    assert len(bench.store.log.segments) == 1
    bench.send(0, 0, 0, 0, body=bytes(1000))
    bench.store.seal()
    bench.clock.advance_ms(3_700_000)
    maintenance.tick()
    assert len(bench.store.log.segments) == 2, "it was asked for once"


def test_a_deletion_that_was_asked_for_when_nothing_had_expired_is_not_kept_for_later() -> None:
    bench = expired(delete_hours=())
    maintenance = Maintenance(bench.store, bench.disk, bench.clock)
    assert maintenance.delete_expired(at_any_hour=True) == 3
    assert maintenance.delete_expired(at_any_hour=True) == 0
    bench.send(0, 0, 0, 0, body=bytes(1000))
    bench.store.seal()
    bench.clock.advance_ms(3_700_000)
    maintenance.tick()
    assert len(bench.store.log.segments) == 2, "there was nothing to delete when it was asked for"


def test_an_empty_store_on_a_disk_that_is_nearly_full_has_nothing_to_delete() -> None:
    bench = Bench()
    bench.disk.capacity_bytes, bench.disk.other_bytes = 1 << 30, (1 << 30) * 88 // 100
    Maintenance(bench.store, bench.disk, bench.clock).tick()
    assert len(bench.store.log.segments) == 0


def test_files_are_removed_elsewhere_and_until_then_queues_keep_what_they_say() -> None:
    bench, jobs = expired(), list[Callable[[], None]]()
    bench.store.seal()
    paths = [segment.path for segment in bench.store.log.segments]
    maintenance = Maintenance(bench.store, bench.disk, bench.clock, elsewhere=jobs.append)
    assert bench.operations(maintenance.delete_expired) == 0
    assert bench.store.first_position == int(paths[3].name)
    bench.store.removal.trim_queues()
    assert bench.store.queues["orders", 0].first == 0
    (job,) = jobs
    job()
    assert not any(bench.disk.exists(path) for path in paths[:3])
    bench.store.removal.trim_queues()
    assert bench.store.queues["orders", 0].first > 0


def test_a_removal_that_failed_is_tried_again_before_any_other_file_goes(caplog: pytest.LogCaptureFixture) -> None:
    bench = expired()
    bench.store.seal()
    first = bench.store.log.segments.first.path
    maintenance = Maintenance(bench.store, bench.disk, bench.clock)
    bench.disk.fail_at(bench.disk.operations + 1, errno.EIO)
    maintenance.delete_expired()
    assert bench.disk.exists(first) and "could not be removed" in caplog.text
    again = bench.crashed(CrashMode.KEEP)
    assert again.store.first_position == 0, "no gap"
    bench.clock.advance_ms(1_000)
    maintenance.tick()
    assert not bench.disk.exists(first)


def test_queues_are_trimmed_some_at_a_time() -> None:
    bench = expired(queues=20)
    bench.store.seal()
    bench.store.delete_oldest(3)
    bench.store.removal.run()
    for trimmed in (8, 16, 20, 20):
        bench.store.removal.trim_queues(8)
        assert sum(queue.first > 0 for queue in bench.store.queues.values()) == trimmed


def test_an_expired_file_stays_while_it_is_needed(caplog: pytest.LogCaptureFixture) -> None:
    bench = expired()
    bench.store.seal()
    second = bench.store.log.segments.first.end
    needed = [second]
    maintenance = Maintenance(bench.store, bench.disk, bench.clock, needed_from=lambda: needed[0])
    assert maintenance.delete_expired() == 1
    assert maintenance.delete_expired() == maintenance.delete_expired() == 0
    assert bench.store.first_position == second
    assert caplog.text.count("expired file kept") == 1
    needed[0] = bench.store.end_position
    assert maintenance.delete_expired() == 2


def test_by_force_even_needed_files_go_and_that_is_said_aloud(caplog: pytest.LogCaptureFixture) -> None:
    bench = expired()
    bench.store.seal()
    maintenance = Maintenance(bench.store, bench.disk, bench.clock, needed_from=lambda: 0)
    bench.disk.capacity_bytes, bench.disk.other_bytes = 1 << 30, (1 << 30) * 88 // 100
    maintenance.tick()
    assert len(bench.store.log.segments) == 1
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert any("delayed messages in it" in record.getMessage() for record in errors)


def test_by_force_needed_files_stay_where_nothing_unread_is_deleted(caplog: pytest.LogCaptureFixture) -> None:
    bench = expired(delete_unread=False)
    bench.store.seal()
    needed, files = [0], len(bench.store.log.segments)
    maintenance = Maintenance(bench.store, bench.disk, bench.clock, needed_from=lambda: needed[0])
    bench.disk.capacity_bytes, bench.disk.other_bytes = 1 << 30, (1 << 30) * 88 // 100
    for _ in range(3):
        bench.clock.advance_ms(60_000)
        maintenance.tick()
    assert len(bench.store.log.segments) == files > 1
    assert caplog.text.count("file kept on a disk that is too full, delayed messages wait in it") == 1
    needed[0] = bench.store.end_position
    for _ in range(3):
        bench.clock.advance_ms(60_000)
        maintenance.tick()
    assert len(bench.store.log.segments) < files


def test_older_seals_say_nothing_of_a_flushed_position() -> None:
    bench = Bench()
    bench.send(0)
    bench.store.seal()
    seal = load_seal(bench.disk, ROOT)
    assert seal is not None and seal.durable_end == seal.position == bench.store.end_position
