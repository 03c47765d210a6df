"""A store that takes over another one's log: the same bytes, offsets and keys, whatever the stream is cut into."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

import pytest

from pyromq.errors import CorruptRecordError, DiskFullError, ForeignLogError
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import StoreSettings
from pyromq.testing import FaultyDisk, ManualClock
from tests.crash.script import SMALL, Witness, draft, run_script

COPY = Path("/copy")


def original(disk: FaultyDisk, groups: int = 12) -> MessageStore:
    store = MessageStore.open(Path("/original"), SMALL, disk=disk, clock=ManualClock())
    run_script(store, ManualClock(), Witness(), groups=groups)
    return store


def bytes_of(store: MessageStore, start: int = 0) -> bytes:
    """The log from there to its end, blank marks and all."""
    found, position = [], start
    while position < store.end_position:
        end = min(store.end_position, position - position % SMALL.segment_bytes + SMALL.segment_bytes)
        found.append(bytes(store.records.bytes_at(position, end - position)))
        position = end
    return b"".join(found)


def copy_of(disk: FaultyDisk, settings: StoreSettings = SMALL) -> MessageStore:
    return MessageStore.open(COPY, settings, disk=disk, clock=ManualClock())


def feed(store: MessageStore, data: bytes, piece: int) -> None:
    """As a replica does: what was not taken comes again, with more behind it."""
    start = store.end_position
    for end in range(start, len(data) + piece, piece):
        store.copies.take(data[store.end_position : end])


def same(first: MessageStore, second: MessageStore) -> None:
    assert bytes_of(first) == bytes_of(second)
    second.flush()
    assert first.queues.keys() == second.queues.keys()
    for key, queue in first.queues.items():
        first.write_entries()
        second.write_entries()
        other = second.queues[key]
        assert (queue.first, queue.end) == (other.first, other.end)
        assert queue.entries(queue.first, 1000) == other.entries(other.first, 1000)
    for key in ("order-1", "order-7", "customer-2"):
        assert first.find("orders", key) == second.find("orders", key)


@pytest.mark.parametrize("piece", [1, 7, 100, 500, 4096, 1 << 20])
def test_any_cut_of_the_stream_gives_the_same_store(piece: int) -> None:
    disk = FaultyDisk()
    with original(disk) as store, copy_of(disk) as copy:
        feed(copy, bytes_of(store), piece)
        same(store, copy)
        assert copy.last_stored_ms == store.last_stored_ms


def test_a_copy_that_was_closed_goes_on() -> None:
    disk = FaultyDisk()
    with original(disk) as store:
        data = bytes_of(store)
        for end in range(0, len(data) + 900, 900):
            with copy_of(disk) as copy:
                copy.copies.take(data[copy.end_position : end])
        with copy_of(disk) as copy:
            same(store, copy)
            assert not copy.recovered.damaged and not copy.recovered.cuts


def test_a_copy_may_become_an_original() -> None:
    disk = FaultyDisk()
    with original(disk) as store, copy_of(disk) as copy:
        feed(copy, bytes_of(store), 333)
        placed = copy.append([draft(500)])[0]
        again = store.append([draft(500)])[0]
        assert (placed.position, placed.offset) == (again.position, again.offset)


def test_a_copy_begins_where_the_original_does() -> None:
    disk = FaultyDisk()
    with original(disk) as store, copy_of(disk) as copy:
        start = 2 * SMALL.segment_bytes
        copy.copies.begin_at(start)
        copy.copies.take(bytes_of(store, start))
        assert (copy.first_position, copy.end_position) == (start, store.end_position)
        for key, queue in copy.queues.items():
            assert queue.next_offset == store.queues[key].next_offset
    with copy_of(disk) as copy:
        assert (copy.first_position, copy.end_position) == (start, store.end_position)
        with pytest.raises(ForeignLogError, match="segment_bytes"):
            copy.copies.begin_at(start + 1)


def test_a_topic_that_was_made_again_starts_again() -> None:
    disk = FaultyDisk()
    with original(disk) as store, copy_of(disk) as copy:
        feed(copy, bytes_of(store), 1000)
        store.delete_topic("orders")
        store.append([draft(number) for number in range(1, 30)])
        feed(copy, bytes_of(store), 100)
        queue = store.queues["orders", 1]
        copy.write_entries()
        store.write_entries()
        assert copy.queues["orders", 1].entries(0, 100) == queue.entries(0, 100)
    with copy_of(disk) as copy:
        assert copy.queues["orders", 1].next_offset == queue.next_offset


def test_a_damaged_byte_anywhere_is_never_written() -> None:
    disk = FaultyDisk()
    with original(disk, groups=2) as store:
        data = bytes_of(store)
        for at in range(0, len(data), 5):
            bad = bytearray(data)
            bad[at] ^= 0x40
            with copy_of(FaultyDisk()) as copy:
                with pytest.raises((CorruptRecordError, ForeignLogError)):
                    copy.copies.take(bytes(bad) + bytes(SMALL.segment_bytes))
                end = copy.end_position
                assert end <= at and bytes_of(copy) == data[:end]


def test_files_of_another_size_are_told() -> None:
    disk = FaultyDisk()
    with original(disk) as store:
        larger = StoreSettings(segment_bytes=8192, queue_file_entries=8, index_slots=16, index_entries=24)
        with copy_of(disk, larger) as copy, pytest.raises(ForeignLogError, match="mappedFileSizeCommitLog"):
            feed(copy, bytes_of(store), 10_000)


def test_a_disk_that_is_full_at_any_write_takes_nothing_by_halves() -> None:
    with original(FaultyDisk()) as store:
        data = bytes_of(store)
        for operation in range(1, 400):
            here = FaultyDisk()
            with copy_of(here) as copy:
                failing = here.operations + operation
                here.fail_at(failing, errno.ENOSPC)
                with contextlib.suppress(DiskFullError):
                    feed(copy, data, 2000)
                if here.operations < failing:
                    return
                assert bytes_of(copy) == data[: copy.end_position]
                assert copy.write_entries()
                copy.health.space_returned()
                feed(copy, data, 2000)
                same(store, copy)
        pytest.fail("the copy never came to its end")
