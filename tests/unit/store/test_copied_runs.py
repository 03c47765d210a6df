"""A replica with the compiled core and one without: the same bytes, whatever they are, bring about the same stores."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pyromq.compiled_core import DESCRIPTION, core
from pyromq.errors import MQError
from pyromq.store import copied_log
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import StoreSettings
from pyromq.testing import FaultyDisk, ManualClock
from pyromq.wire.record import Draft, encode_record
from tests.running.seeds import seeds

pytestmark = pytest.mark.skipif(core is None, reason=f"nothing to compare: {DESCRIPTION}")
SETTINGS = StoreSettings(
    segment_bytes=16_384, queue_file_entries=16, index_slots=31, index_entries=60, index_backlog_max=5, full_percent=100
)
SEEDS = int(os.environ.get("PYROMQ_TRUTH_SEEDS", "60"))
HOST_V4, HOST_V6 = b"\x7f\0\0\1\0\0\x2a\x9f", b"\x20\x01" + bytes(14) + b"\0\0\x2a\x9f"
TOPICS = ("orders",) * 8 + ("payments", "t" * 127, "t" * 200, "SCHEDULE_TOPIC_XXXX", "%RETRY%g", "no name!", "übung")
ITEMS = (
    *(("UNIQ_KEY", "7F0000010000"), ("KEYS", "order-17"), ("KEYS", "a b  c#d"), ("KEYS", " "), ("KEYS", "ä 😀")),
    *(("TAGS", "TagA"), ("TAGS", "übung"), ("TAGS", ""), ("MYTAGS", "x"), ("note", "TAGS\x01x"), ("UNIQ_KEYS", "y")),
    *(("DELAY", "2"), ("DELAY", "x"), ("KEYS", " ".join(map(str, range(70)))), ("x", "#"), ("__CRC32#", "0123456789")),
)


def properties_of(rng: Random) -> bytes:
    items = [rng.choice(ITEMS if rng.random() < 0.1 else ITEMS[:2] + ITEMS[5:7]) for _ in range(rng.randrange(4))]
    text = "".join(f"{name}\x01{value}\x02" for name, value in items).encode()
    match rng.randrange(60):
        case 0:
            return text[:-1]
        case 1:
            return text + b"KEYS\x01\xff\xc3(\x02"  # no UTF-8
        case 2:
            return text + b"TAGS\x01"
    return text


def a_log(rng: Random, oddness: float) -> bytes:
    """A log as some broker may have it: blank marks, jumping offsets, records with checksums and without."""
    data, offsets = bytearray(), dict[tuple[str, int], int]()
    for _ in range(rng.randrange(1, 60)):
        is_odd = rng.random() < oddness
        topic, queue = rng.choice(TOPICS if is_odd else TOPICS[:9]), rng.randrange(3)
        if is_odd and rng.random() < 0.1:
            queue = rng.choice((-1, 65_535, 65_536))
        draft = Draft(
            topic=topic,
            queue_id=queue,
            body=rng.randbytes(rng.choice((0, 1, 100, 300, 300, 5_000))),
            properties=properties_of(rng),
            sys_flag=rng.choice((0, 4, 8, 12, 1, 0, 0)) if is_odd else 0,
            born_host=HOST_V6 if is_odd and rng.random() < 0.2 else HOST_V4,
        )
        offset = offsets.get((topic, queue), 0)
        if is_odd and rng.random() < 0.2:
            offset = max(0, offset + rng.choice((-3, 1, 5, 40)))
        where: dict[str, Any] = {"offset": offset, "stored_ms": 1_700_000_000_000 + len(data), "store_host": HOST_V4}
        has_checksum = rng.random() > oddness / 2
        record = encode_record(draft, position=len(data), checksum=has_checksum, **where)
        left = SETTINGS.segment_bytes - len(data) % SETTINGS.segment_bytes
        if len(record) + 8 > left:
            data += left.to_bytes(4, "big") + b"\xcb\xd4\x31\x94" + bytes(left - 8)
            record = encode_record(draft, position=len(data), checksum=has_checksum, **where)
        data += record
        offsets[topic, queue] = offset + (draft.sys_flag & 12 in (0, 8))
    return bytes(data)


def outcome(data: bytes, pieces: list[int]) -> dict[str, Any]:
    """All that a store has after the pieces arrived, and what it said of them."""
    disk, buffer, said = FaultyDisk(), bytearray(), ""
    with MessageStore.open(Path("/copy"), SETTINGS, disk=disk, clock=ManualClock()) as store:
        start = 0
        touched = set[tuple[str, int]]()
        for size in pieces:
            buffer += data[start : start + size]
            start += size
            before = store.end_position
            try:
                touched |= store.copies.take(buffer).keys()
            except MQError as error:
                said = f"{type(error).__name__}: {error}"
            del buffer[: store.end_position - before]
            if said:
                break
        store.indexer.index_all()
        store.write_entries()
        return {
            "said": said,
            "touched": touched,
            "end": (store.end_position, store.last_stored_ms, store.indexer.position),
            "queues": {
                key: (queue.first, queue.end, queue.next_offset, queue.entries(queue.first, 1_000))
                for key, queue in store.queues.items()
            },
            "keys": {
                key: list(store.index.candidates("orders", key, 0, 1 << 62))
                for key in ("7F0000010000", "order-17", "a", "c#d", "ä", "😀", "69", "y")
            },
            "index": [(file.next_entry, file.begin_ms, file.end_ms, file.end_position) for file in store.index.files],
            "log": b"".join(bytes(segment.open_once().map_once()) for segment in store.log_segments()),
        }


def compare(data: bytes, pieces: list[int], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    found = outcome(data, pieces)
    with monkeypatch.context() as patch:
        patch.setattr(copied_log, "core", None)
        expected = outcome(data, pieces)
    for name, value in expected.items():
        assert found[name] == value, name
    return expected


def pieces_of(rng: Random, size: int) -> list[int]:
    found: list[int] = []
    while sum(found) < size:
        found.append(rng.choice((1, 50, 400, 3_000, 20_000)))
    return found


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_the_same_bytes_bring_about_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(seed)
    data = a_log(rng, (0.02, 0.3, 0.9)[seed % 3])
    whole = compare(data, pieces_of(rng, len(data)), monkeypatch)
    if not whole["said"]:
        assert whole["end"][0] == len(data)


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_damage_is_found_by_both_at_the_same_place(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(1_000 + seed)
    data = bytearray(a_log(rng, 0.2))
    at = rng.randrange(len(data))
    match seed % 4:
        case 0:
            data[at] ^= 1 << rng.randrange(8)
        case 1:
            data[at : at + 30] = rng.randbytes(30)
        case 2:
            del data[at : at + rng.randrange(1, 40)]
        case 3:
            data[at:at] = data[max(0, at - 200) : at]
    compare(bytes(data) + bytes(SETTINGS.segment_bytes), pieces_of(rng, len(data) + 20_000), monkeypatch)


def test_ordinary_records_are_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, left = Random(5), list[int]()
    whole = copied_log.CopiedLog._whole

    def looked_at(self: Any, data: bytes, room: int) -> Any:
        records, size = whole(self, data, room)
        left.append(len(records))
        return records, size

    monkeypatch.setattr(copied_log.CopiedLog, "_whole", looked_at)
    data = a_log(rng, 0)
    assert outcome(data, [len(data)])["end"][0] == len(data)
    assert sum(left) <= 6, "only where a blank mark, or odd properties, stand in the way"


def test_a_full_disk_leaves_nothing_half_done() -> None:
    """What the core found is forgotten with the bytes that were not written."""
    data = next(log for log in (a_log(Random(seed), 0) for seed in count()) if len(log) > 30_000)
    disk, buffer = FaultyDisk(), bytearray(data)
    with MessageStore.open(Path("/copy"), SETTINGS, disk=disk, clock=ManualClock()) as store:
        store.copies.take(buffer[:9_000])
        end, queues = store.end_position, {key: queue.next_offset for key, queue in store.queues.items()}

        def full(kind: str) -> None:
            raise OSError(28, "no space")

        disk.before_each(full)
        with pytest.raises(MQError):
            store.copies.take(buffer[end:])
        disk.before_each(lambda kind: None)
        assert store.end_position == end
        assert {key: queue.next_offset for key, queue in store.queues.items() if key in queues} == queues
        del buffer[:end]  # nobody holds it any more
        store.health.space_returned()
        store.copies.take(buffer)
        assert store.end_position == len(data)


def test_wrong_arguments_are_refused_by_the_core() -> None:
    assert core is not None
    assert core.copied_records(b"", 0, 100, 10) is None
    assert core.copied_records(bytes(200), 0, 0, 10) is None
    assert core.copied_records(bytes(200), (1 << 63) - 1, 1 << 40, 10) is None
    with pytest.raises((TypeError, BufferError)):
        core.copied_records("text", 0, 100, 10)  # type: ignore[arg-type]
    with pytest.raises((TypeError, OverflowError)):
        core.copied_records(b"", 0, -1, 10)
    with pytest.raises(ValueError, match="one piece"):
        core.copied_records(memoryview(bytes(8))[::2], 0, 100, 10)
