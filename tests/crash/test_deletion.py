"""A topic that is deleted is gone or there, never in between, whenever the disk fails or the power goes."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from pyromq.errors import StoreReadOnlyError
from pyromq.store.message_store import MessageStore
from pyromq.testing import Crashed, CrashMode, FaultyDisk, ManualClock
from pyromq.wire.record import Draft
from tests.crash.script import ROOT, check_agreement, open_store, read_everything

pytestmark = pytest.mark.usefixtures("quiet")

COUNTS = {("orders", 0): 9, ("orders", 1): 1, ("other", 0): 2}  # nine entries take two files


def put(store: MessageStore, body: bytes, topic: str = "orders", queue_id: int = 0) -> int:
    (placed,) = store.append([Draft(topic=topic, queue_id=queue_id, body=body)])
    store.flush()
    return placed.offset


def filled(clock: ManualClock, *, sealed: bool) -> tuple[FaultyDisk, MessageStore]:
    disk = FaultyDisk()
    store = open_store(disk, clock)
    for (topic, queue_id), count in COUNTS.items():
        for number in range(count):
            put(store, b"%d" % number, topic, queue_id)
    store.write_entries()
    store.note_flushed()
    if sealed:
        store.seal()
    return disk, store


def operations_of_a_deletion(clock: ManualClock) -> int:
    disk, store = filled(clock, sealed=True)
    before = disk.operations
    store.delete_topic("orders")
    return disk.operations - before


def left_of_orders(store: MessageStore) -> dict[tuple[str, int], int]:
    return {key: queue.next_offset for key, queue in store.queues.items() if key[0] == "orders"}


def every_failure(clock: ManualClock) -> Iterator[tuple[FaultyDisk, MessageStore, int]]:
    """A store with or without a seal, and which operation of a deletion is to fail."""
    for sealed in (True, False):
        for number in range(1, operations_of_a_deletion(clock) + 1):
            disk, store = filled(clock, sealed=sealed)
            yield disk, store, disk.operations + number


WHOLE = {key: count for key, count in COUNTS.items() if key[0] == "orders"}


@pytest.mark.parametrize("mode", CrashMode)
def test_after_a_power_cut_during_a_deletion_the_topic_is_whole_or_gone(clock: ManualClock, mode: CrashMode) -> None:
    seen = []
    for disk, store, operation in every_failure(clock):
        disk.crash_at(operation)
        with pytest.raises(Crashed):
            store.delete_topic("orders")
        store = open_store(disk.after_crash(mode), clock)
        seen.append(left_of_orders(store))
        assert seen[-1] in (WHOLE, {}), f"operation {operation}"
        assert store.queues["other", 0].end == 2
    assert WHOLE in seen and {} in seen


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("mode", CrashMode)
def test_a_deletion_that_was_reported_holds_whatever_the_disk_refused(
    clock: ManualClock, mode: CrashMode, error: int
) -> None:
    reported = 0
    for disk, store, operation in every_failure(clock):
        disk.fail_at(operation, error)
        try:
            store.delete_topic("orders")
        except StoreReadOnlyError:
            continue
        reported += 1
        assert left_of_orders(store) == {}
        assert left_of_orders(open_store(disk.after_crash(mode), clock)) == {}
        assert put(store, b"made anew") == 0
    assert reported


def test_files_that_could_not_be_removed_mean_nothing_also_after_the_next_seal(clock: ManualClock) -> None:
    for disk, store, operation in every_failure(clock):
        disk.fail_at(operation, errno.EIO)
        try:
            store.delete_topic("orders")
        except StoreReadOnlyError:
            continue
        assert store.seal()
        again = open_store(disk.after_crash(CrashMode.KEEP), clock)
        assert left_of_orders(again) == {}
        assert put(again, b"made anew") == 0


@pytest.mark.parametrize("mode", CrashMode)
def test_a_topic_made_anew_right_after_its_deletion_keeps_its_own_messages_only(
    clock: ManualClock, mode: CrashMode
) -> None:
    for sealed in (True, False):
        disk, store = filled(clock, sealed=sealed)
        store.delete_topic("orders")
        assert [put(store, b"new 0"), put(store, b"new 1")] == [0, 1]
        store.write_entries()
        store.note_flushed()
        again = open_store(disk.after_crash(mode), clock)
        assert [record.body for record in read_everything(again)["orders", 0]] == [b"new 0", b"new 1"]
        assert left_of_orders(again) == {("orders", 0): 2}


def test_a_deletion_syncs_its_record_and_nothing_else_however_many_queues_there_are(clock: ManualClock) -> None:
    syncs = []
    for count in (1, 20):
        disk = FaultyDisk()
        store = open_store(disk, clock)
        for number in range(count):
            put(store, b"x", queue_id=number)
        store.seal()
        before = disk.operations
        store.delete_topic("orders")
        syncs.append(sum(name.startswith("sync") for name in disk.log[before:]))
    assert syncs[0] == syncs[1] > 0


def test_the_next_seal_makes_durable_that_the_files_are_gone(clock: ManualClock) -> None:
    disk, store = filled(clock, sealed=True)
    store.delete_topic("orders")
    assert store.seal()
    disk = disk.after_crash(CrashMode.FORGET)
    assert disk.names(ROOT / "consumequeue") == ["other"]
    check = open_store(disk, clock)
    assert left_of_orders(check) == {} and check.recovered.rebuilt == []


def test_the_seal_after_the_next_one_has_nothing_to_do_with_a_deletion(clock: ManualClock) -> None:
    disk, store = filled(clock, sealed=True)
    store.delete_topic("orders")
    syncs = []
    for _ in range(2):
        before = disk.operations
        store.seal()
        syncs.append(disk.log[before:].count("sync_folder"))
    assert syncs[0] > syncs[1]


def test_an_abandoned_seal_hands_on_what_it_had_to_sync(clock: ManualClock) -> None:
    disk, store = filled(clock, sealed=True)
    store.delete_topic("orders")
    assert store.seals.begin() is not None
    assert store.seal()
    assert disk.after_crash(CrashMode.FORGET).names(ROOT / "consumequeue") == ["other"]


def test_a_seal_that_comes_to_a_queue_after_its_deletion_does_not_bring_its_files_back(clock: ManualClock) -> None:
    disk, store = filled(clock, sealed=False)
    put(store, b"owed")
    job = store.seals.begin()
    assert job is not None
    store.delete_topic("orders")
    store.seals.gather(job)
    assert disk.names(ROOT / "consumequeue") == ["other"]
    job.sync()
    assert not job.save()
    store.close()
    with open_store(disk, clock) as again:
        assert left_of_orders(again) == {}


def test_after_a_deletion_queues_and_log_agree_on_what_came_since(clock: ManualClock) -> None:
    disk = FaultyDisk()
    store = open_store(disk, clock)
    store.delete_topic("never seen")
    put(store, b"a", topic="other")
    check_agreement(open_store(disk.after_crash(CrashMode.FORGET), clock))
