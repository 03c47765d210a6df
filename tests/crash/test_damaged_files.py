"""Files that are torn, cut, empty or gone: the log says what is true, and what it cannot say is refused clearly."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pyromq.errors import LogGapError
from pyromq.testing import CrashMode, FaultyDisk, ManualClock
from pyromq.wire.record import Record
from tests.crash.script import (
    ROOT,
    SMALL,
    Witness,
    check_after_crash,
    check_agreement,
    draft,
    log_records,
    open_store,
    read_everything,
    run_script,
)

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.fixture
def witness() -> Witness:
    return Witness()


@pytest.fixture
def disk(clock: ManualClock, witness: Witness) -> FaultyDisk:
    """A store that was closed cleanly."""
    disk = FaultyDisk()
    with open_store(disk, clock) as store:
        run_script(store, clock, witness)
    return disk


def segments(disk: FaultyDisk) -> list[Path]:
    return [path for path in disk.files() if path.parent.name == "commitlog"]


def served(store_records: dict[tuple[str, int], list[Record]]) -> list[bytes]:
    return sorted(record.body for records in store_records.values() for record in records)


@pytest.mark.parametrize("folder", ["consumequeue", "index"])
def test_a_lost_folder_of_derived_files_is_built_again(
    disk: FaultyDisk, clock: ManualClock, witness: Witness, folder: str
) -> None:
    for path in [path for path in disk.files() if folder in path.parts]:
        disk.remove(path)
    with open_store(disk, clock) as store:
        assert store.recovered.rebuilt or folder == "index"
        check_after_crash(store, witness)


def test_any_single_lost_derived_file_is_built_again(disk: FaultyDisk, clock: ManualClock, witness: Witness) -> None:
    derived = [path for path in disk.files() if "consumequeue" in path.parts or "index" in path.parts]
    assert len(derived) > 8
    for path in derived:
        damaged = disk.after_crash(CrashMode.KEEP)
        damaged.remove(path)
        with open_store(damaged, clock) as store:
            check_after_crash(store, witness)


def test_any_single_derived_file_that_is_empty_or_cut_is_built_again(
    disk: FaultyDisk, clock: ManualClock, witness: Witness
) -> None:
    for path in [path for path in disk.files() if "consumequeue" in path.parts or "index" in path.parts]:
        for size in (0, 1, 45, disk.size_of(path) - 1, disk.size_of(path) + 20):
            damaged = disk.after_crash(CrashMode.KEEP)
            damaged.resize(path, size)
            with open_store(damaged, clock) as store:
                check_after_crash(store, witness)


def test_a_lost_seal_costs_a_longer_scan_only(disk: FaultyDisk, clock: ManualClock, witness: Witness) -> None:
    for path in [path for path in disk.files() if path.name.startswith("pyromq-seal")]:
        disk.remove(path)
    with open_store(disk, clock) as store:
        assert not store.recovered.sealed
        check_after_crash(store, witness)


def test_without_seal_and_checkpoint_after_a_crash_everything_is_scanned(
    disk: FaultyDisk, clock: ManualClock, witness: Witness
) -> None:
    for path in [path for path in disk.files() if path.name.startswith("pyromq-seal") or path.name == "checkpoint"]:
        disk.remove(path)
    disk.write(ROOT / "abort", b"4711")
    with open_store(disk, clock) as store:
        assert store.recovered.scanned_from == 0
        assert store.recovered.records == len(witness.sent)
        check_after_crash(store, witness)


def test_a_missing_last_segment_is_reported_and_its_offsets_are_not_used_again(
    disk: FaultyDisk, clock: ManualClock, witness: Witness
) -> None:
    with open_store(disk.after_crash(CrashMode.KEEP), clock) as store:
        ends = {key: queue.next_offset for key, queue in store.queues.items()}
        lost_from = store.log.segments.last.base
        kept = served({(0, 0): [r for r in log_records(store) if r.position < lost_from]})  # type: ignore[dict-item]
    disk.remove(segments(disk)[-1])
    with open_store(disk, clock) as store:
        assert store.recovered.damaged
        assert served(read_everything(store)) == kept
        assert {key: queue.next_offset for key, queue in store.queues.items()} == ends
        new = draft(4711)
        (placed,) = store.append([new])
        store.flush()
        assert placed.offset == ends[new.topic, new.queue_id]
        assert store.reader.record_at(placed.position).body == new.body


@pytest.mark.parametrize("cut_to", [0, 1, 100, 2048, 4095])
def test_a_last_segment_that_is_cut_short_loses_only_what_was_cut(
    disk: FaultyDisk, clock: ManualClock, witness: Witness, cut_to: int
) -> None:
    last = segments(disk)[-1]
    with open_store(disk.after_crash(CrashMode.KEEP), clock) as store:
        whole = [record for record in log_records(store) if record.position + record.size <= int(last.name) + cut_to]
    disk.resize(last, cut_to)
    with open_store(disk, clock) as store:
        assert served(read_everything(store)) == sorted(record.body for record in whole)
        assert bool(store.recovered.damaged) == (len(whole) < len(witness.sent))


def test_an_empty_file_behind_the_log_is_removed(disk: FaultyDisk, clock: ManualClock, witness: Witness) -> None:
    empty = ROOT / "commitlog" / f"{len(segments(disk)) * SMALL.segment_bytes:020d}"
    disk.write(empty, b"")
    with open_store(disk, clock) as store:
        assert not disk.exists(empty)
        check_after_crash(store, witness)


def test_a_gap_in_the_log_is_refused_with_the_name_of_the_missing_file(disk: FaultyDisk, clock: ManualClock) -> None:
    missing = segments(disk)[1]
    disk.remove(missing)
    with pytest.raises(LogGapError, match=missing.name):
        open_store(disk, clock)
    assert not disk.exists(ROOT / "abort"), "a store that could not be opened is left as it was"


def test_segments_of_another_size_are_refused(disk: FaultyDisk, clock: ManualClock) -> None:
    disk.resize(segments(disk)[0], 8192)
    with pytest.raises(LogGapError, match="every file there must have 4096"):
        open_store(disk, clock)


def test_strange_files_are_left_alone(disk: FaultyDisk, clock: ManualClock, witness: Witness) -> None:
    strange = [ROOT / "commitlog" / "notes.txt", ROOT / "consumequeue" / "orders" / "x", ROOT / "index" / "README"]
    for path in strange:
        disk.write(path, b"mine")
    with open_store(disk, clock) as store:
        check_after_crash(store, witness)
    assert all(disk.read(path) == b"mine" for path in strange)


def test_an_index_that_lags_behind_is_completed_after_opening(clock: ManualClock, witness: Witness) -> None:
    disk = FaultyDisk()
    run_script(open_store(disk, clock), clock, witness)
    with open_store(disk.after_crash(CrashMode.KEEP), clock) as store:
        number = next(n for n, sent in enumerate(witness.sent) if b"KEYS" in sent.properties)
        (found,) = store.find(witness.sent[number].topic, f"order-{number}")
        assert store.reader.record_at(found).body == witness.sent[number].body
        check_agreement(store)


def test_a_record_that_names_no_queue_keeps_no_store_from_being_opened(clock: ManualClock) -> None:
    """Another master's, or one without a checksum whose bits have turned."""
    disk = FaultyDisk()
    store = open_store(disk, clock)
    store.append([draft(0)])
    topic = draft(0).topic
    store.log.stage(
        msgspec.structs.replace(draft(1), topic=topic, queue_id=-1), store._topics[topic], 0, clock.now_ms()
    )
    store.log.write_staged(clock.now_ms())
    store.append([draft(0)])
    store.flush()
    with open_store(disk.after_crash(CrashMode.KEEP), clock) as opened:
        assert opened.queues[topic, draft(0).queue_id].end == 2


def test_a_folder_whose_name_is_too_large_for_a_queue_keeps_no_store_from_being_opened(
    disk: FaultyDisk, clock: ManualClock, witness: Witness
) -> None:
    folder = next(path for path in disk.files() if "consumequeue" in path.parts).parent.parent / "4294967296"
    disk.write(folder / ("0" * 20), b"")
    with open_store(disk, clock) as store:
        check_after_crash(store, witness)
