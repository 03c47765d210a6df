"""``check_store`` on stores in memory: sound, torn, flipped, robbed of files; never a write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from pyromq.errors import StoreNotFoundError
from pyromq.store.check import check_store
from pyromq.store.check.report import CheckReport, StoreSeverity, StoreVerdict
from pyromq.store.files.segments import segment_name
from pyromq.store.files.whole_file import WholeFile
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import StoreSettings
from pyromq.testing import Crashed, CrashMode, FaultyDisk, ManualClock
from pyromq.testing.faulty_disk import FaultyFile
from pyromq.wire.properties import find_property, message_keys
from pyromq.wire.record import Draft
from tests.crash.script import ROOT, SMALL, draft, log_records, retain

LOG, QUEUES, INDEX = ROOT / "commitlog", ROOT / "consumequeue", ROOT / "index"


def check(disk: FaultyDisk) -> CheckReport:
    """Check, and see that nothing was written."""
    before, operations = {path: disk.read(path) for path in disk.files()}, disk.operations
    report = check_store(ROOT, disk=disk, index_slots=SMALL.index_slots)
    assert disk.operations == operations
    assert {path: disk.read(path) for path in disk.files()} == before
    return report


def write(store: MessageStore, clock: ManualClock, count: int, *, first: int = 0, seal_every: int = 20) -> None:
    for number in range(first, first + count, 3):
        store.append([draft(n) for n in range(number, min(number + 3, first + count))])
        clock.advance_ms(10)
        store.flush()
        if number % seal_every < 3:
            store.seal()


def open_store(disk: FaultyDisk, clock: ManualClock, settings: StoreSettings = SMALL) -> MessageStore:
    return MessageStore.open(ROOT, settings, disk=disk, clock=clock)


def closed_disk(count: int = 60, settings: StoreSettings = SMALL) -> FaultyDisk:
    disk, clock = FaultyDisk(), ManualClock()
    with open_store(disk, clock, settings) as store:
        write(store, clock, count)
    return disk.after_crash(CrashMode.KEEP)


def unclean_disk(count: int = 60) -> FaultyDisk:
    """As after kill -9, with a fair number of records behind the seal."""
    disk, clock = FaultyDisk(), ManualClock()
    store = open_store(disk, clock)
    write(store, clock, count)
    write(store, clock, 11, first=count, seal_every=10_000)
    store.write_entries()
    return disk.after_crash(CrashMode.KEEP)


def foreign_disk(count: int = 60, *, clean: bool = True) -> FaultyDisk:
    """As Apache RocketMQ leaves it: no seal, no checksums."""
    settings = StoreSettings(
        checksums=False,
        segment_bytes=SMALL.segment_bytes,
        queue_file_entries=SMALL.queue_file_entries,
        index_slots=SMALL.index_slots,
        index_entries=SMALL.index_entries,
        index_backlog_max=SMALL.index_backlog_max,
    )
    disk, clock = FaultyDisk(), ManualClock()
    store = open_store(disk, clock, settings)
    write(store, clock, count)
    if clean:
        store.close()
    disk = disk.after_crash(CrashMode.KEEP)
    remove(disk, ROOT / "pyromq-seal.json", ROOT / "pyromq-seal.json.bak")
    return disk


def remove(disk: FaultyDisk, *paths: Path) -> None:
    for path in paths:
        disk.remove(path)


def files_in(disk: FaultyDisk, folder: Path) -> list[Path]:
    return [path for path in disk.files() if path.parent == folder]


def kinds(report: CheckReport, severity: StoreSeverity) -> set[str]:
    return {finding.kind for finding in report.findings if finding.severity is severity}


# --- sound ---


def test_a_closed_store_is_sound() -> None:
    report = check(closed_disk())
    assert report.verdict is StoreVerdict.SOUND, report.findings
    assert not kinds(report, StoreSeverity.NOTE)
    assert report.summary.startswith("sound: 60 records in ")
    assert report.log.records == report.log.checksummed == 60
    assert report.log.segment_bytes == SMALL.segment_bytes
    assert report.queues.queues == 6 and report.queues.entries == 60
    assert report.index.entries == 120


def test_a_store_without_messages_is_sound() -> None:
    assert check(closed_disk(0)).verdict is StoreVerdict.SOUND


def test_an_unclean_stop_alone_is_a_warning() -> None:
    report = check(unclean_disk())
    assert kinds(report, StoreSeverity.WARNING) == {"unclean-stop"}
    assert not report.log.cuts and report.log.records == 71
    assert report.summary.startswith("sound after recovery: the store was not closed")


def test_an_open_store_is_reported_as_moving() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    store = open_store(disk, clock)
    write(store, clock, 30)
    report = check(disk)
    assert report.in_use and report.verdict is StoreVerdict.SOUND
    assert {"in-use", "unclean-stop"} <= kinds(report, StoreSeverity.NOTE)
    store.close()


def test_a_store_of_rocketmq_is_sound_without_seal_and_checksums() -> None:
    report = check(foreign_disk())
    assert report.verdict is StoreVerdict.SOUND, report.findings
    assert kinds(report, StoreSeverity.NOTE) == {"seal-absent"}
    assert report.log.checksummed == 0 and report.log.records == 60


def test_an_unclean_store_of_rocketmq_is_sound_after_recovery() -> None:
    report = check(foreign_disk(clean=False))
    assert report.verdict is StoreVerdict.RECOVERABLE, report.findings


def test_after_retention_a_store_is_sound() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    with open_store(disk, clock) as store:
        write(store, clock, 80)
        retain(store, 3)
        write(store, clock, 10, first=80)
    report = check(disk)
    assert report.verdict is StoreVerdict.SOUND, report.findings
    assert kinds(report, StoreSeverity.NOTE) == {"log-begins"}


def test_records_of_a_deleted_topic_are_a_note() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    with open_store(disk, clock) as store:
        write(store, clock, 40)
        store.delete_topic("orders")
        gone = check(disk)
        write(store, clock, 20, first=40)
    again = check(disk)
    assert gone.queues.wrong == again.queues.wrong == 0
    assert "topic-deleted" in kinds(gone, StoreSeverity.NOTE)
    assert again.verdict is StoreVerdict.SOUND, again.findings
    assert "topic-deleted" in kinds(again, StoreSeverity.NOTE)


# --- agreement with recovery ---


def crash_points() -> Iterator[int]:
    """Operation numbers all through the life of a store."""
    disk, clock = FaultyDisk(), ManualClock()
    with open_store(disk, clock) as store:
        write(store, clock, 60)
    yield from range(20, disk.operations, 5)


@pytest.mark.parametrize("mode", list(CrashMode))
def test_what_recovery_would_cut_is_what_it_cuts(mode: CrashMode) -> None:
    cuts = 0
    for operation in crash_points():
        disk, clock = FaultyDisk(), ManualClock()
        disk.crash_at(operation, torn=operation % 2 == 0)
        try:
            with open_store(disk, clock) as store:
                write(store, clock, 60)
        except Crashed:
            pass
        disk = disk.after_crash(mode, Random(operation))
        if not disk.exists(ROOT / "checkpoint") and not disk.names(LOG):
            continue
        report = check(disk)
        assert report.verdict is not StoreVerdict.DAMAGED, (operation, report.findings)
        store = open_store(disk, clock)
        planned = [(cut.position, cut.size) for cut in report.log.cuts]
        assert planned == [(cut.position, cut.size) for cut in store.recovered.cuts], operation
        assert report.log.end == store.end_position, operation
        cuts += len(planned)
        store.close()
        after = check(disk)
        assert after.verdict is StoreVerdict.SOUND, (operation, after.findings)
    assert cuts or mode is CrashMode.FORGET


@pytest.mark.parametrize("seed", range(60))
def test_flipped_bits_in_the_log_end_as_recovery_ends_them(seed: int) -> None:
    rng = Random(seed)
    disk = unclean_disk(30)
    log_files = files_in(disk, LOG)
    for _ in range(rng.randint(1, 3)):
        path = rng.choice(log_files)
        disk.flip_bit(path, rng.randrange(SMALL.segment_bytes * 8))
    report = check(disk)
    store = open_store(disk, ManualClock())
    assert [(cut.position, cut.size) for cut in report.log.cuts] == [
        (cut.position, cut.size) for cut in store.recovered.cuts
    ]
    assert report.log.end == store.end_position
    lost = {(damaged.position, damaged.end) for damaged in store.recovered.damaged}
    seen = {
        (f.position, f.position + f.size)
        for f in report.findings
        if f.kind == "records-lost" and f.position is not None and f.size
    }
    assert lost <= seen


# --- damage ---


def test_a_flipped_bit_before_the_seal_is_a_lost_record() -> None:
    disk = closed_disk()
    disk.flip_bit(LOG / segment_name(4096), 8 * 200)
    report = check(disk)
    assert report.verdict is StoreVerdict.DAMAGED
    assert kinds(report, StoreSeverity.ERROR) == {"records-lost"}
    assert report.lost_messages == report.log.damaged_ranges == 1
    assert report.log.records == 59 and not report.log.cuts
    assert report.summary.startswith("damaged: 1 record lost (")


def test_a_lost_record_stays_reported_after_recovery_and_nothing_else_is() -> None:
    disk = closed_disk()
    disk.flip_bit(LOG / segment_name(4096), 8 * 200)
    open_store(disk, ManualClock()).close()
    report = check(disk)
    assert kinds(report, StoreSeverity.ERROR) == {"records-lost"}
    assert not kinds(report, StoreSeverity.WARNING)


def test_a_flipped_bit_behind_the_seal_would_be_cut() -> None:
    disk = unclean_disk()
    end = check(disk).log.end
    disk.flip_bit(LOG / segment_name((end - 10) // 4096 * 4096), (end - 10) % 4096 * 8)
    report = check(disk)
    assert report.verdict is StoreVerdict.RECOVERABLE
    assert {"unclean-stop", "log-cut"} == kinds(report, StoreSeverity.WARNING)
    assert report.log.records == 70 and len(report.log.cuts) == 1
    assert report.queues.to_drop == 1


def test_whole_records_behind_the_damage_are_counted() -> None:
    disk = unclean_disk()
    report = check(disk)
    assert report.sealed_position is not None
    at = report.sealed_position + 100
    disk.flip_bit(LOG / segment_name(at // 4096 * 4096), at % 4096 * 8)
    report = check(disk)
    assert sum(cut.whole_records for cut in report.log.cuts) >= 5
    assert "whole records among them" in report.summary


def test_a_missing_log_file_keeps_the_store_from_opening() -> None:
    disk = closed_disk()
    remove(disk, LOG / segment_name(4096))
    report = check(disk)
    assert not report.opens and report.verdict is StoreVerdict.DAMAGED
    assert kinds(report, StoreSeverity.ERROR) >= {"log-file", "records-lost"}
    assert report.lost_messages > 5


def test_a_log_file_of_the_wrong_size_keeps_the_store_from_opening() -> None:
    disk = closed_disk()
    disk.resize(LOG / segment_name(4096), 1000)
    report = check(disk)
    assert not report.opens
    assert "log-file" in kinds(report, StoreSeverity.ERROR)
    assert report.log.segment_bytes == SMALL.segment_bytes


def test_a_missing_last_log_file_is_lost_data() -> None:
    disk = closed_disk()
    remove(disk, files_in(disk, LOG)[-1])
    report = check(disk)
    store = open_store(disk, ManualClock())
    assert report.verdict is StoreVerdict.DAMAGED and report.lost_messages > 1
    assert report.log.end == store.end_position


def test_a_short_last_log_file_is_read_as_recovery_makes_it() -> None:
    disk = closed_disk()
    last = files_in(disk, LOG)[-1]
    disk.resize(last, 500)
    report = check(disk)
    store = open_store(disk, ManualClock())
    assert report.verdict is StoreVerdict.DAMAGED
    assert report.log.end == store.end_position


def test_a_log_that_is_gone_is_lost_data() -> None:
    disk = closed_disk()
    remove(disk, *files_in(disk, LOG))
    report = check(disk)
    assert report.verdict is StoreVerdict.DAMAGED and report.lost_messages == 60


def test_bytes_that_the_disk_cannot_read_are_an_error_and_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = closed_disk()
    bad = disk._contents(LOG / segment_name(4096))
    read_at = FaultyFile.read_at

    def failing(self: FaultyFile, at: int, size: int) -> bytes:
        if self._contents is bad:
            raise OSError(5, "Input/output error")
        return read_at(self, at, size)

    monkeypatch.setattr(FaultyFile, "read_at", failing)
    report = check(disk)
    assert {"log-unreadable", "records-lost"} <= kinds(report, StoreSeverity.ERROR)
    assert report.log.records > 30


def test_a_seal_of_another_time_is_an_error() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    with open_store(disk, clock) as store:
        write(store, clock, 30)
    seal = disk.read(ROOT / "pyromq-seal.json")
    position = check(disk).sealed_position
    assert position is not None
    text = seal[: seal.rindex(b',"crc32"')] + b"}"
    WholeFile(disk, ROOT / "pyromq-seal.json").save(
        text.replace(b'"position":%d' % position, b'"position":%d' % (position - 7))
    )
    assert "seal-mismatch" in kinds(check(disk), StoreSeverity.ERROR)


# --- derived data ---


@pytest.mark.parametrize("byte", [3, 9, 17, 25])
def test_a_flipped_bit_in_a_sealed_queue_is_a_warning(byte: int) -> None:
    disk = closed_disk()
    disk.flip_bit(QUEUES / "orders" / "1" / segment_name(0), byte * 8)
    report = check(disk)
    assert report.verdict is StoreVerdict.RECOVERABLE
    assert kinds(report, StoreSeverity.WARNING) == {"queue-damaged", "queues-rebuilt"}
    open_store(disk, ManualClock()).close()
    assert check(disk).verdict is StoreVerdict.SOUND


def test_a_lost_queue_folder_is_a_warning() -> None:
    disk = closed_disk()
    remove(disk, *files_in(disk, QUEUES / "orders" / "1"))
    report = check(disk)
    assert report.verdict is StoreVerdict.RECOVERABLE, report.findings
    assert report.queues.rebuilt > 10
    open_store(disk, ManualClock()).close()
    assert check(disk).verdict is StoreVerdict.SOUND


def test_a_queue_entry_that_recovery_would_trust_is_an_error() -> None:
    disk = foreign_disk()
    disk.flip_bit(QUEUES / "orders" / "1" / segment_name(0), 19 * 8)
    report = check(disk)
    assert kinds(report, StoreSeverity.ERROR) == {"queue-wrong"}
    assert report.queues.wrong == 1
    assert report.summary.startswith("damaged: 0 records lost of 60; 1 queue entry wrong")


def test_a_wrong_queue_of_a_foreign_store_is_repaired_as_the_finding_says() -> None:
    disk = foreign_disk()
    disk.flip_bit(QUEUES / "orders" / "1" / segment_name(0), 19 * 8)
    open_store(disk, ManualClock()).close()
    assert kinds(check(disk), StoreSeverity.ERROR) == {"queue-wrong"}
    remove(disk, *files_in(disk, QUEUES / "orders" / "1"))
    assert check(disk).verdict is StoreVerdict.RECOVERABLE
    open_store(disk, ManualClock()).close()
    assert check(disk).verdict is StoreVerdict.SOUND


@pytest.mark.parametrize("bit", [7, 8 * 8 + 7, 20 * 8 + 7, 45 * 8])
def test_what_a_foreign_queue_keeps_wrong_is_what_check_foretold(bit: int) -> None:
    disk = foreign_disk()
    disk.flip_bit(QUEUES / "orders" / "1" / segment_name(0), bit)
    before = check(disk)
    open_store(disk, ManualClock()).close()
    assert check(disk).queues.wrong == before.queues.wrong


def test_a_record_that_claims_an_absurd_offset_is_an_error_and_takes_no_time() -> None:
    disk = foreign_disk()  # without checksum nothing protects the offset of a record
    disk.flip_bit(LOG / segment_name(4096), 20 * 8 + 5)
    assert kinds(check(disk), StoreSeverity.ERROR) >= {"offset-gap"}


def test_a_queue_that_points_far_behind_the_log_does_not_move_its_end() -> None:
    disk = foreign_disk()
    queue = QUEUES / "orders" / "1" / segment_name(160)
    disk.flip_bit(queue, len(disk.read(queue).rstrip(bytes(1))) // 20 * 20 * 8 - 20 * 8 + 20)
    report = check(disk)
    store = open_store(disk, ManualClock())
    assert report.log.end == store.end_position


def test_garbage_behind_a_queue_is_dropped() -> None:
    disk = closed_disk()
    path = next(path for path in disk.files() if QUEUES in path.parents and disk.read(path).endswith(bytes(40)))
    disk.flip_bit(path, disk.size_of(path) * 8 - 1)
    report = check(disk)
    assert report.verdict is StoreVerdict.RECOVERABLE
    assert kinds(report, StoreSeverity.WARNING) == {"queues-ahead"}


def test_tags_in_the_index_are_fine_where_rocketmq_put_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def keys_and_tag(raw: bytes) -> list[bytes]:
        tag = find_property(raw, b"TAGS")
        return [*message_keys(raw), *([b"T#" + tag] if tag else [])]

    monkeypatch.setattr("pyromq.store.derived.key_index.message_keys", keys_and_tag)  # as RocketMQ 5.4 and later
    report = check(foreign_disk())
    assert report.verdict is StoreVerdict.SOUND, report.findings
    assert report.index.entries > 120 and not report.index.missing and not report.index.extra


def test_a_flipped_bit_in_the_index_is_a_warning() -> None:
    disk = closed_disk()
    name = files_in(disk, INDEX)[1]
    disk.flip_bit(name, (40 + 4 * SMALL.index_slots + 20 + 5) * 8)
    report = check(disk)
    assert report.verdict is StoreVerdict.RECOVERABLE
    assert kinds(report, StoreSeverity.WARNING) == {"index-damaged"}
    assert report.index.to_add > 0
    store = open_store(disk, ManualClock())
    store.close()
    assert check(disk).verdict is StoreVerdict.SOUND


def test_a_flipped_bit_in_a_slot_table_is_a_warning() -> None:
    disk = closed_disk()
    disk.flip_bit(files_in(disk, INDEX)[0], (40 + 4 * 3 + 3) * 8)
    report = check(disk)
    assert kinds(report, StoreSeverity.WARNING) == {"index-chains"}


@pytest.mark.parametrize("number", [0, 2, -1])
def test_a_missing_index_file_is_a_warning(number: int) -> None:
    disk = closed_disk()
    remove(disk, files_in(disk, INDEX)[number])
    report = check(disk)
    assert report.verdict is StoreVerdict.RECOVERABLE
    assert kinds(report, StoreSeverity.WARNING) == {"index-damaged"}
    assert report.index.to_add > 10
    open_store(disk, ManualClock()).close()
    assert check(disk).verdict is StoreVerdict.SOUND


@pytest.mark.parametrize("number", [0, -1])
def test_a_missing_queue_file_is_a_warning(number: int) -> None:
    disk = closed_disk()
    remove(disk, files_in(disk, QUEUES / "orders" / "1")[number])
    report = check(disk)
    assert report.verdict is StoreVerdict.RECOVERABLE, report.findings
    assert report.queues.rebuilt > 5
    open_store(disk, ManualClock()).close()
    assert check(disk).verdict is StoreVerdict.SOUND


def test_index_files_of_another_shape_are_not_taken_for_damage_of_the_log() -> None:
    disk = closed_disk()
    report = check_store(ROOT, disk=disk)
    assert report.verdict is StoreVerdict.RECOVERABLE
    assert kinds(report, StoreSeverity.WARNING) == {"index-damaged"}


# --- small files ---


def with_config(*texts: bytes) -> FaultyDisk:
    disk = closed_disk(6)
    for text in texts:
        WholeFile(disk, ROOT / "config" / "topics.json").save(text)
    return disk


def test_config_with_bare_integer_keys_and_checksum_is_fine() -> None:
    disk = with_config(b'{"offsetTable":{"orders@g":{0:12,1:15}}}')
    disk.write(ROOT / "config" / "timercheck", bytes(4096))
    assert check(disk).verdict is StoreVerdict.SOUND


def test_a_damaged_config_file_with_backup_is_a_warning() -> None:
    disk = with_config(b'{"topicConfigTable":{}}', b'{"topicConfigTable":{"a":{}}}')
    disk.flip_bit(ROOT / "config" / "topics.json", 30)
    assert kinds(check(disk), StoreSeverity.WARNING) == {"config-damaged"}


def test_a_config_file_damaged_in_both_copies_is_an_error() -> None:
    disk = with_config(b'{"topicConfigTable":{}}', b'{"topicConfigTable":{"a":{}}}')
    disk.flip_bit(ROOT / "config" / "topics.json", 30)
    disk.flip_bit(ROOT / "config" / "topics.json.bak", 30)
    report = check(disk)
    assert kinds(report, StoreSeverity.ERROR) == {"config-damaged"}
    assert "1 configuration file unusable" in report.summary


@pytest.mark.parametrize("text", [b"", b"[1]", b'{"a":'])
def test_a_config_file_that_is_no_object_is_an_error(text: bytes) -> None:
    disk = closed_disk(6)
    disk.write(ROOT / "config" / "consumerOffset.json", text)
    assert kinds(check(disk), StoreSeverity.ERROR) == {"config-damaged"}


def test_a_damaged_seal_is_a_warning() -> None:
    disk = closed_disk()
    disk.flip_bit(ROOT / "pyromq-seal.json", 100)
    assert kinds(check(disk), StoreSeverity.WARNING) == {"seal-damaged"}
    disk.flip_bit(ROOT / "pyromq-seal.json.bak", 100)
    report = check(disk)
    assert report.sealed_position is None
    assert kinds(report, StoreSeverity.WARNING) == {"seal-damaged"}


def test_a_short_checkpoint_is_a_note_beside_a_seal() -> None:
    disk = closed_disk()
    disk.resize(ROOT / "checkpoint", 12)
    report = check(disk)
    assert report.verdict is StoreVerdict.SOUND
    assert kinds(report, StoreSeverity.NOTE) == {"checkpoint"}


def test_what_earlier_recoveries_cut_is_a_note() -> None:
    disk = unclean_disk()
    end = check(disk).log.end
    disk.flip_bit(LOG / segment_name((end - 10) // 4096 * 4096), (end - 10) % 4096 * 8)
    open_store(disk, ManualClock()).close()
    report = check(disk)
    assert report.verdict is StoreVerdict.SOUND
    assert "cut-copies" in kinds(report, StoreSeverity.NOTE)


def test_many_findings_of_one_kind_are_counted_not_listed() -> None:
    disk = closed_disk()
    with open_store(disk, ManualClock()) as store:
        positions = [record.position for record in log_records(store)]
    for position in positions[::2]:
        disk.flip_bit(LOG / segment_name(position // 4096 * 4096), (position % 4096 + 60) * 8)
    report = check(disk)
    assert report.log.damaged_ranges == report.lost_messages == 30
    assert report.not_listed == 10
    assert sum(finding.kind == "records-lost" for finding in report.findings) == 20


def test_an_empty_folder_is_no_store() -> None:
    disk = FaultyDisk()
    with pytest.raises(StoreNotFoundError):
        check_store(ROOT, disk=disk)
    disk.write(ROOT / "readme", b"x")
    with pytest.raises(StoreNotFoundError):
        check_store(ROOT, disk=disk)


def test_a_store_next_door_is_named() -> None:
    disk = closed_disk(3)
    with pytest.raises(StoreNotFoundError, match="there is one in /store"):
        check_store(LOG, disk=disk)


def test_progress_reaches_the_total() -> None:
    seen: list[tuple[int, int]] = []
    check_store(ROOT, disk=closed_disk(), index_slots=16, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] > 0


def test_a_message_that_says_it_is_an_inner_batch_is_compared_like_any_other() -> None:
    disk = FaultyDisk()
    store = MessageStore.open(ROOT, SMALL, disk=disk, clock=ManualClock())
    store.append([Draft(topic="orders", queue_id=0, body=b"x", sys_flag=128, born_ms=0)])
    store.close()
    report = check_store(ROOT, disk=disk, index_slots=SMALL.index_slots)
    assert (report.verdict, report.queues.entries) == (StoreVerdict.SOUND, 1), report.findings
