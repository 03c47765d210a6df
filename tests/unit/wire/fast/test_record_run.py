"""``scan_run`` against ``scan_record``: the same records, as far as it goes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.wire.fast.record_run import scan_run
from pyromq.wire.record import Draft, RecordFound, scan_record
from tests.unit.wire.records import drafts, hosts, stored

POSITION = 1 << 30
V4 = bytes(8)


def run_of(parts: list[Draft], **how: object) -> tuple[bytes, list[int]]:
    data, starts = b"", []
    for draft in parts:
        starts.append(len(data))
        data += stored(draft, POSITION + len(data), **how)  # type: ignore[arg-type]
    return data, starts


def is_usual(draft: Draft, store_host: bytes) -> bool:
    return len(draft.topic) <= 127 and len(draft.born_host) == len(store_host) == 8


@settings(max_examples=300)
@given(st.lists(drafts, max_size=4), hosts, st.booleans())
def test_a_run_is_what_single_scans_find(parts: list[Draft], store_host: bytes, checksum: bool) -> None:
    data, starts = run_of(parts, store_host=store_host, checksum=checksum)
    found, end = scan_run(data, POSITION)
    usual = [checksum and is_usual(draft, store_host) for draft in parts]
    count = usual.index(False) if False in usual else len(usual)
    expected = [(POSITION + at, scan_record(memoryview(data), at, POSITION + at)) for at in starts[:count]]
    assert found == expected and all(isinstance(each, RecordFound) for _, each in found)
    assert end == [*starts, len(data)][count]


@settings(max_examples=100)
@given(st.lists(drafts, min_size=1, max_size=3), st.data())
def test_a_run_ends_before_a_flipped_bit(parts: list[Draft], chosen: st.DataObject) -> None:
    usual = [Draft(topic="orders", queue_id=1, body=draft.body, properties=draft.properties) for draft in parts]
    data, starts = run_of(usual)
    bit = chosen.draw(st.integers(min_value=0, max_value=8 * len(data) - 1))
    damaged = bytearray(data)
    damaged[bit // 8] ^= 1 << bit % 8
    found, end = scan_run(bytes(damaged), POSITION)
    before = [start for start in starts if start <= bit // 8]
    assert len(found) == len(before) - 1 and end == before[-1]


def test_a_run_ends_before_a_record_that_is_cut() -> None:
    data, starts = run_of([Draft(topic="orders", queue_id=1, body=b"body")] * 3)
    for size in range(starts[2], len(data)):
        assert scan_run(data[:size], POSITION)[1] == starts[2]
    assert scan_run(b"", POSITION) == ([], 0)
