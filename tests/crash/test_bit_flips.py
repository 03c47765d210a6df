"""One flipped bit, anywhere in any file: found, never served as valid, and derived files are built again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from pyromq.store.message_store import MessageStore
from pyromq.testing import Crashed, CrashMode, FaultyDisk, ManualClock
from pyromq.wire.record import Record
from tests.crash.script import (
    ROOT,
    Witness,
    check_agreement,
    log_records,
    note,
    open_store,
    read_everything,
    run_script,
)
from tests.running.seeds import seed_of

pytestmark = pytest.mark.usefixtures("quiet")

FLIPS = int(os.environ.get("PYROMQ_FLIPS", "4000"))
PARTS = 4


def clean_store() -> tuple[FaultyDisk, ManualClock]:
    disk, clock = FaultyDisk(), ManualClock()
    with open_store(disk, clock) as store:
        run_script(store, clock, Witness())
    return disk, clock


def killed_store() -> tuple[FaultyDisk, ManualClock]:
    """As after kill -9: everything written is there, but there was no clean stop and the seal is old."""
    disk, clock = FaultyDisk(), ManualClock()
    run_script(open_store(disk, clock), clock, Witness())
    return disk.after_crash(CrashMode.KEEP), clock


def records_by_address(store: MessageStore) -> dict[tuple[bytes, int, int], Record]:
    return {(record.topic, record.queue_id, record.offset): record for record in log_records(store)}


def choose_bit(disk: FaultyDisk, rng: Random) -> tuple[Path, int]:
    """Small files as often as large ones, and in each the used part more often than the zeros behind it."""
    path = rng.choice([path for path in disk.files() if disk.size_of(path)])
    data = disk.read(path)
    used = len(data.rstrip(b"\0")) or len(data)
    return path, rng.randrange(8 * (used if rng.random() < 0.9 else len(data)))


@pytest.mark.seeded
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("make", [clean_store, killed_store])
def test_a_flipped_bit_is_never_served(
    make: Callable[[], tuple[FaultyDisk, ManualClock]], part: int, record_property: Callable[[str, object], None]
) -> None:
    pristine, clock = make()
    probe = pristine.after_crash(CrashMode.KEEP)
    with open_store(probe, clock) as store:
        originals = records_by_address(store)
        sealed = store.end_position if make is clean_store else store.recovered.scanned_from
    rng, lost, rebuilt = Random(seed_of(part)), 0, 0
    for number in range(FLIPS // PARTS // 2):
        disk = pristine.after_crash(CrashMode.KEEP)
        path, bit = choose_bit(disk, rng)
        disk.flip_bit(path, bit)
        where = f"seed {seed_of(part)}, flip {number}: {path} bit {bit}"
        with open_store(disk, clock) as store:
            served = [record for records in read_everything(store).values() for record in records]
            wrong = [each for each in served if each != originals.get((each.topic, each.queue_id, each.offset))]
            record_property("damaged records served", len(wrong))
            assert not wrong, where
            missing = originals.keys() - {(record.topic, record.queue_id, record.offset) for record in served}
            if path.parent.name != "commitlog":
                assert not missing, f"{where}: the log was not touched"
                check_agreement(store)
            elif bit // 8 + int(path.name) < sealed:
                assert len(missing) <= 1, f"{where}: one bit takes one record with it"
            lost += len(missing)
            rebuilt += len(store.recovered.rebuilt)
        with open_store(disk, clock) as store:
            assert not (store.recovered.rebuilt or store.recovered.cuts), f"{where}: a second opening changes it"
    assert lost > FLIPS // 100, "flips hit records"
    assert rebuilt > FLIPS // 100 or make is killed_store, "flips hit derived files"
    record_property("bits flipped", FLIPS // PARTS // 2)
    record_property("damaged records found", lost)


def behind_the_seal(pristine: FaultyDisk, clock: ManualClock) -> tuple[list[Record], list[Record]]:
    """All records, and those that an opening must read because no seal covers them."""
    with open_store(pristine.after_crash(CrashMode.KEEP), clock) as store:
        records, sealed = log_records(store), store.recovered.scanned_from
    victims = [record for record in records if record.position >= sealed]
    assert len(victims) >= 3
    return records, victims


def with_a_flip_in(victim: Record, pristine: FaultyDisk) -> FaultyDisk:
    disk = pristine.after_crash(CrashMode.KEEP)
    segment = victim.position - victim.position % 4096
    disk.flip_bit(ROOT / f"commitlog/{segment:020d}", 8 * (victim.position - segment + 50))
    return disk


def test_a_flip_behind_the_seal_of_a_killed_store_leaves_a_prefix() -> None:
    pristine, clock = killed_store()
    records, victims = behind_the_seal(pristine, clock)
    for victim in victims:
        disk = with_a_flip_in(victim, pristine)
        with open_store(disk, clock) as store:
            assert log_records(store) == [record for record in records if record.position < victim.position]
            assert store.recovered.cuts[0].position == victim.position
            kept = b"".join(disk.read(cut.copy) for cut in store.recovered.cuts)
            assert all(record.body in kept for record in records if record.position >= victim.position)
            check_agreement(store)


def test_appending_goes_on_behind_a_lost_record() -> None:
    disk, clock = clean_store()
    disk.flip_bit(ROOT / "commitlog/00000000000000000000", 8 * 120)
    with open_store(disk, clock) as store:
        witness = Witness()
        run_script(store, clock, witness, groups=4)
        bodies = [record.body for records in read_everything(store).values() for record in records]
        for sent in witness.sent:
            assert sent.body in bodies


def test_flips_of_a_crashed_and_recovered_store_are_found_too() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    disk.crash_at(120)
    with pytest.raises(Crashed):
        run_script(open_store(disk, clock), clock, Witness())
    disk = disk.after_crash(CrashMode.FORGET)
    with open_store(disk, clock) as store:
        originals = records_by_address(store)
    for path in disk.files():
        used = len(disk.read(path).rstrip(b"\0"))
        for at in range(0, used, max(1, used // 40)):
            damaged = disk.after_crash(CrashMode.KEEP)
            damaged.flip_bit(path, 8 * at + at % 8)
            with open_store(damaged, clock) as store:
                for records in read_everything(store).values():
                    for record in records:
                        assert record == originals[record.topic, record.queue_id, record.offset]


def test_a_flip_behind_the_seal_costs_one_record_where_the_log_is_known_to_be_flushed() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    store = open_store(disk, clock)
    run_script(store, clock, Witness())
    note(store)
    pristine = disk.after_crash(CrashMode.KEEP)
    records, victims = behind_the_seal(pristine, clock)
    for victim in victims:
        with open_store(with_a_flip_in(victim, pristine), clock) as store:
            served = [record for each in read_everything(store).values() for record in each]
            assert sorted(record.position for record in served) == [
                record.position for record in records if record != victim
            ]
            assert [damaged.position for damaged in store.recovered.damaged] == [victim.position]
            assert not store.recovered.cuts
