"""Reads with a test of records."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.store import queue_reader
from pyromq.store.message_store import MessageStore
from pyromq.store.read_result import ReadStatus
from pyromq.store.settings import StoreSettings
from pyromq.testing import FaultyDisk, ManualClock
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
    monkeypatch.setattr(queue_reader, "_FILTER_BYTES_MAX", 250)  # two records are less, three are more
    result = store.reader.read("orders", 0, 0, accept_record=refuse)
    assert (result.status, result.next_offset, len(looked)) == (ReadStatus.NO_MATCHED_MESSAGE, 3, 3)


def test_a_record_is_tested_after_its_tag() -> None:
    store, looked = filled(5), []
    result = store.reader.read(
        "orders", 0, 0, accept_tag=lambda tag: False, accept_record=lambda r: bool(looked.append(r))
    )
    assert (result.status, looked) == (ReadStatus.NO_MATCHED_MESSAGE, [])
