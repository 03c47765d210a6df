"""Stop at the n-th write, flush, creation, rename or removal, for every n; nothing acknowledged may be missing."""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random

import pytest

from pyromq.errors import StoreReadOnlyError
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import StoreSettings
from pyromq.testing import Crashed, CrashMode, FaultyDisk, ManualClock
from tests.crash.script import (
    SMALL,
    SMALL_ASYNC,
    Witness,
    check_after_crash,
    content,
    draft,
    log_records,
    open_store,
    run_script,
)

pytestmark = pytest.mark.usefixtures("quiet")


def run_to_the_end(disk: FaultyDisk, settings: StoreSettings = SMALL) -> tuple[ManualClock, Witness]:
    """The whole script, or as much of it as the disk allows."""
    clock, witness = ManualClock(), Witness()
    try:
        store = open_store(disk, clock, settings)
        run_script(store, clock, witness)
        store.close()
    except Crashed:
        pass
    return clock, witness


def count_operations(settings: StoreSettings = SMALL) -> int:
    disk = FaultyDisk()
    run_to_the_end(disk, settings)
    return disk.operations


@pytest.mark.parametrize("torn", [False, True], ids=["whole-writes", "torn-writes"])
@pytest.mark.parametrize("mode", CrashMode)
def test_a_stop_at_any_operation_loses_nothing_acknowledged(
    mode: CrashMode, torn: bool, record_property: Callable[[str, object], None]
) -> None:
    operations, kept = count_operations(), 0
    assert operations > 150, "the script got too short to prove anything"
    for number in range(1, operations + 1):
        disk = FaultyDisk()
        disk.crash_at(number, torn=torn)
        clock, witness = run_to_the_end(disk)
        disk = disk.after_crash(mode, Random(number))
        with open_store(disk, clock) as store:
            lost = max(0, witness.acknowledged - len(log_records(store)))
            record_property("acknowledged records lost", lost)
            kept += check_after_crash(store, witness)
        before = content(disk)
        with open_store(disk, clock) as store:
            assert store.recovered.clean and store.recovered.intact, f"operation {number}: {store.recovered}"
            check_after_crash(store, witness)
        assert content(disk) == before, "a second opening changes nothing"
    record_property("crash points tried", operations)
    record_property("records found again", kept)


@pytest.mark.parametrize("mode", CrashMode)
def test_with_async_flush_a_stop_leaves_a_gap_free_prefix(mode: CrashMode) -> None:
    for number in range(1, count_operations(SMALL_ASYNC) + 1):
        disk = FaultyDisk()
        disk.crash_at(number, torn=True)
        clock, witness = ManualClock(), Witness()
        try:
            with open_store(disk, clock, SMALL_ASYNC) as store:
                run_script_without_flush(store, clock, witness)
        except Crashed:
            pass
        disk = disk.after_crash(mode, Random(number))
        with open_store(disk, clock, SMALL_ASYNC) as store:
            check_after_crash(store, witness, acknowledged=False)


def run_script_without_flush(store: MessageStore, clock: ManualClock, witness: Witness) -> None:
    for group in range(12):
        drafts = [draft(len(witness.sent) + n) for n in range(1 + group * 5 % 6)]
        witness.sent += drafts
        store.append(drafts)
        clock.advance_ms(10)


def test_a_crash_while_recovering_from_a_crash_loses_nothing() -> None:
    disk = FaultyDisk()
    disk.crash_at(count_operations() - 25, torn=True)
    clock, witness = run_to_the_end(disk)
    wreck = disk.after_crash(CrashMode.MIX, Random(7))
    probe = wreck.after_crash(CrashMode.KEEP)
    open_store(probe, clock)
    assert probe.operations > 10
    for number in range(1, probe.operations + 1):
        again = wreck.after_crash(CrashMode.KEEP)
        again.crash_at(number, torn=True)
        with pytest.raises(Crashed):
            open_store(again, clock).close()
        survivor = again.after_crash(CrashMode.MIX, Random(number))
        with open_store(survivor, clock) as store:
            check_after_crash(store, witness)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_an_error_at_any_operation_is_refused_clearly_and_loses_nothing(
    code: int, record_property: Callable[[str, object], None]
) -> None:
    operations, refused = count_operations(), 0
    for number in range(1, operations + 1):
        disk = FaultyDisk()
        disk.fail_at(number, code)
        clock, witness = ManualClock(), Witness()
        try:
            store = open_store(disk, clock)
        except StoreReadOnlyError:
            refused += 1
        else:
            try:
                run_script(store, clock, witness)
            except StoreReadOnlyError:
                refused += 1
                assert not store.health.writable
                with pytest.raises(StoreReadOnlyError):
                    store.append([draft(0)])
            store.close()
        reopened = disk.after_crash(CrashMode.FORGET)
        with open_store(reopened, clock) as store:
            lost = max(0, witness.acknowledged - len(log_records(store)))
            record_property("acknowledged records lost", lost)
            check_acknowledged_are_there(store, witness)
    assert refused > operations // 4
    record_property("operations that failed", operations)


def check_acknowledged_are_there(store: MessageStore, witness: Witness) -> None:
    """After a refused commit the script stops, so what is there begins with everything acknowledged."""
    bodies = [record.body for record in log_records(store)]
    assert bodies[: witness.acknowledged] == [sent.body for sent in witness.sent[: witness.acknowledged]]
