"""Reads with a test of records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pyromq.store import queue_scan
from pyromq.store.derived import queue_entry
from pyromq.store.derived.queue_entry import ENTRY, positions_and_sizes, tag_hashes
from pyromq.store.message_store import QUEUES_AT_ONCE, MessageStore
from pyromq.store.read_result import ReadResult, ReadStatus
from pyromq.store.settings import StoreSettings
from pyromq.testing import FaultyDisk, ManualClock
from pyromq.wire.java_hash import java_hash
from pyromq.wire.record import Draft, decode_record

SETTINGS = StoreSettings(
    segment_bytes=64 << 10,
    queue_file_entries=100,
    index_slots=10,
    index_entries=100,
    scan_entries_max=8,
    full_percent=100,
)


def filled(count: int) -> MessageStore:
    store = MessageStore.open(Path("/data"), SETTINGS, disk=FaultyDisk(), clock=ManualClock())
    store.append([Draft(topic="orders", queue_id=0, body=b"%02d" % number) for number in range(count)])
    store.flush()
    return store


def test_a_new_queue_lacks_its_file_until_its_range_is_read() -> None:
    store = MessageStore.open(Path("/data"), SETTINGS, disk=FaultyDisk(), clock=ManualClock())
    assert not store.reader.lacks_file("orders", 0), "nothing was sent to it"
    queues = range(2 * QUEUES_AT_ONCE)
    for number in queues:
        store.stage(Draft(topic="orders", queue_id=number, body=b""))
    store.commit()
    lacking = [number for number in queues if store.reader.lacks_file("orders", number)]
    assert lacking, "not all entries are written with their messages"
    assert store.reader.range_of("orders", lacking[0]) is not None
    assert not store.reader.lacks_file("orders", lacking[0])
    store.close()


def test_records_that_pass_are_read_and_the_others_passed_over() -> None:
    store = filled(20)
    result = store.reader.read(
        "orders", 0, 2, accept_record=lambda record: decode_record(record).body in (b"03", b"07")
    )
    assert (result.status, result.count, result.next_offset) == (ReadStatus.FOUND, 2, 10)
    assert [decode_record(run).body for run in result.runs] == [b"03", b"07"]


def test_a_read_looks_at_so_many_records_and_bytes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    store, looked = filled(20), []

    def refuse(record: memoryview) -> bool:
        looked.append(decode_record(record).body)
        return False

    result = store.reader.read("orders", 0, 0, accept_record=refuse)
    assert (result.status, result.next_offset, len(looked)) == (ReadStatus.NO_MATCHED_MESSAGE, 8, 8)
    looked.clear()
    monkeypatch.setattr(queue_scan, "_FILTER_BYTES_MAX", 250)  # two records are less, three are more
    result = store.reader.read("orders", 0, 0, accept_record=refuse)
    assert (result.status, result.next_offset, len(looked)) == (ReadStatus.NO_MATCHED_MESSAGE, 3, 3)


def test_a_record_is_tested_after_its_tag() -> None:
    store, looked = filled(5), []
    result = store.reader.read(
        "orders", 0, 0, accept_tag=lambda tag: False, accept_record=lambda r: bool(looked.append(r))
    )
    assert (result.status, looked) == (ReadStatus.NO_MATCHED_MESSAGE, [])


@pytest.mark.parametrize("seed", range(12))
def test_messages_that_are_read_all_at_once_are_those_that_are_read_one_by_one(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neighbours, lost ones, several segments and queue files, tags, limits of all kinds, records to be verified."""
    monkeypatch.setattr(queue_scan, "core", None)
    rng = Random(seed)
    sizes = rng.choice(((6_000, 40, 25, 9_000), (60_000, 100, 80, 90_000)))
    segment_bytes, entries, scanned, hot_bytes = sizes
    settings = replace(
        SETTINGS,
        segment_bytes=segment_bytes,
        queue_file_entries=entries,
        scan_entries_max=scanned,
        hot_bytes=hot_bytes,
    )
    store = MessageStore.open(Path("/data"), settings, disk=FaultyDisk(), clock=ManualClock())
    for _ in range(150):
        tag = rng.choice((b"", b"TAGS\x01a\x02", b"TAGS\x01a\x02", b"TAGS\x01b\x02"))
        body = b"x" * rng.choice((0, 10, 10, 500))
        store.append([Draft(topic="orders", queue_id=rng.choice((0, 0, 1)), body=body, properties=tag)])
        if ("orders", 0) in store.queues and rng.random() < 0.02:
            store.write_entries()
            store.queues["orders", 0].stage_filler(1, store.end_position)
            store.queues["orders", 0].write_staged()
    store.flush()
    store.log.trusted_from = rng.choice((0, 6_000, 20_000))
    plain, found, together = store.reader.scan._scan_plain, 0, 0
    for _ in range(400):
        offset, count, bytes_max = rng.randrange(80), rng.choice((1, 2, 5, 32)), rng.choice((None, None, 1, 300, 4_000))
        codes = rng.choice((None, frozenset((java_hash("a"),)), frozenset((java_hash("a"), 0)), frozenset((1,))))

        def read() -> ReadResult:
            return store.reader.read(
                "orders",
                0,
                offset,  # noqa: B023 - it is called at once
                count_max=count,  # noqa: B023
                bytes_max=bytes_max,  # noqa: B023
                accept_tag=codes.__contains__ if codes else None,  # noqa: B023
            )

        monkeypatch.setattr(store.reader.scan, "_scan_plain", lambda *_: None)
        expected = read()
        monkeypatch.setattr(store.reader.scan, "_scan_plain", plain)
        assert read() == expected
        found += expected.count > 0
        if not expected.count:
            continue
        queue, limits = store.queues["orders", 0], store.reader.scan.limits_in_memory(count, bytes_max)
        within = (store.reader.scan.plain_from, store.end_position)
        accept_tag = codes.__contains__ if codes else None
        records = store.reader.scan.plain_records(queue, offset, expected.end, limits, accept_tag, within)
        if records is not None:
            facts = (b"".join(records.pieces()), len(records.positions), records.size_bytes, records.next_offset)
            assert facts == (expected.to_bytes(), expected.count, expected.size_bytes, expected.next_offset)
            together += 1
    assert found > 100
    assert together > 10 or store.reader.scan.plain_from > 0, "most are old, or have to be verified"


@pytest.mark.parametrize("accept_tag", [None, frozenset((java_hash("a"),)).__contains__])
@pytest.mark.parametrize("change", [(1 << 40, 0), (-700, 0), (700, 0), (0, 400), (0, -100_000)])
def test_an_entry_that_points_elsewhere_is_not_read_all_at_once(
    change: tuple[int, int], accept_tag: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the response would be shorter than its head says, and all that follow would be read at the wrong place."""
    monkeypatch.setattr(queue_scan, "core", None)
    store = MessageStore.open(Path("/data"), SETTINGS, disk=FaultyDisk(), clock=ManualClock())
    for number in range(20):  # of two queues in turns: no neighbours
        store.append([Draft(topic="orders", queue_id=number % 2, body=b"x" * 200, properties=b"TAGS\x01a\x02")])
    store.flush()
    store.write_entries()
    queue = store.queues["orders", 1]
    file = queue.segments.first.open_once()
    position, size, tag = ENTRY.unpack(file.read_at(5 * ENTRY.size, ENTRY.size))
    file.write_at(5 * ENTRY.size, ENTRY.pack(position + change[0], size + change[1], tag))
    within = (0, store.end_position)
    assert store.reader.scan.plain_records(queue, 0, queue.end, (5, 1 << 20), accept_tag, within) is not None
    assert store.reader.scan.plain_records(queue, 0, queue.end, (10, 1 << 20), accept_tag, within) is None


@pytest.mark.parametrize("count", [0, 1, 32, 128, 129, 3_000])
def test_numbers_of_many_entries_are_those_of_each(count: int) -> None:
    rng = Random(count)
    entries = [(rng.randrange(1 << 60), rng.randrange(1 << 30), rng.randrange(-1000, 1000)) for _ in range(count)]
    data = b"".join(ENTRY.pack(*entry) for entry in entries)
    positions, sizes = positions_and_sizes(data)
    assert list(zip(positions, sizes, tag_hashes(data), strict=True)) == entries


def test_what_clients_ask_for_fills_no_memory() -> None:
    for count in range(129, 400):
        positions_and_sizes(bytes(20 * count))
        tag_hashes(bytes(20 * count))
    assert queue_entry._struct_of.cache_info().currsize <= 258
