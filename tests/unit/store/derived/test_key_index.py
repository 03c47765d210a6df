"""Index files, byte for byte, against the simple definition: key after key, as RocketMQ does it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.store.derived.index_file import ENTRY, HEADER
from pyromq.store.derived.key_index import KeyIndex, Unindexed
from pyromq.store.files.disk import Disk, RealDisk
from pyromq.store.settings import StoreSettings
from pyromq.testing import FaultyDisk, ManualClock
from pyromq.wire.java_hash import java_hash

FOLDER = Path("/data/index")
START_MS = 1_700_000_000_000


class PlainFile:
    """One index file, written an entry at a time."""

    def __init__(self, slots: int, capacity: int, seed: PlainFile | None) -> None:
        self.slots, self.capacity = slots, capacity
        self.begin_ms = self.end_ms = seed.end_ms if seed else 0
        self.begin_position = self.end_position = seed.end_position if seed else 0
        self.heads = [0] * slots
        self.used = 0
        self.entries: list[tuple[int, int, int, int]] = []

    def add(self, text: bytes, position: int, stored_ms: int) -> None:
        key_hash = abs(java_hash(text.decode("utf-8", "replace"))) % (1 << 31)
        if not self.entries:
            self.begin_ms, self.begin_position = stored_ms, position
        seconds = (stored_ms - self.begin_ms) // 1000
        slot = key_hash % self.slots
        self.used += not self.heads[slot]
        self.entries.append((key_hash, position, seconds if 0 <= seconds < 1 << 31 else 0, self.heads[slot]))
        self.heads[slot] = len(self.entries)
        self.end_ms, self.end_position = max(self.end_ms, stored_ms), position

    def contents(self) -> bytes:
        times = (self.begin_ms, self.end_ms, self.begin_position, self.end_position)
        header = HEADER.pack(*times, self.used, len(self.entries) + 1)
        table = b"".join(head.to_bytes(4, "big") for head in self.heads)
        entries = bytes(ENTRY.size) + b"".join(ENTRY.pack(*entry) for entry in self.entries)
        return (header + table + entries).ljust(len(header + table) + ENTRY.size * self.capacity, b"\0")


def plain_files(messages: list[Unindexed], slots: int, capacity: int) -> list[bytes]:
    files: list[PlainFile] = []
    for prefix, raw, position, stored_ms in messages:
        items = dict(item.split(b"\x01") for item in raw.split(b"\x02") if item)
        keys = [items.get(b"UNIQ_KEY", b""), *items.get(b"KEYS", b"").split(b" ")]
        keys = [key for key in keys if key][: capacity - 1]
        if keys and (not files or len(files[-1].entries) + 1 + len(keys) > capacity):
            files.append(PlainFile(slots, capacity, files[-1] if files else None))
        for key in keys:
            files[-1].add(prefix + key, position, stored_ms)
    return [file.contents() for file in files]


def contents(index: KeyIndex) -> list[bytes]:
    return [bytes(file.file.map_once()) for file in index.files]


def index_on(disk: Disk, slots: int, capacity: int, folder: Path = FOLDER) -> KeyIndex:
    settings_ = StoreSettings(index_slots=slots, index_entries=capacity)
    return KeyIndex(disk, folder, settings_, ManualClock(START_MS))


words = st.one_of(
    st.sampled_from(["a", "b", "order-1", "order-22", "7F0000010B3C18B4AAC2000000000001", "é", "polygenelubricants"]),
    st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x01\x02 "), min_size=1, max_size=20),
)
properties = st.builds(
    lambda unique, keys, unique_first: b"".join(
        sorted(
            [
                f"UNIQ_KEY\x01{unique}\x02".encode() if unique else b"",
                f"KEYS\x01{' '.join(keys)}\x02".encode() if "".join(keys) else b"",
            ],
            reverse=unique_first,
        )
    ),
    st.one_of(st.none(), words),
    st.lists(st.one_of(words, st.just("")), max_size=4),
    st.booleans(),
)
batches = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from([b"orders#", b"orders#", b"payments#", "zoë#".encode()]),
            properties,
            st.sampled_from([91, 300, 1 << 31, 1 << 33]),
            st.sampled_from([0, 0, 0, 1, 999, 1_000, 61_000, -5_000, 1 << 43]),
        ),
        max_size=40,
    ),
    max_size=4,
)


@settings(max_examples=300)
@given(batches, st.sampled_from([1, 3, 16, 1_000]), st.sampled_from([2, 3, 20, 500]))
def test_files_are_those_of_the_simple_definition(
    parts: list[list[tuple[bytes, bytes, int, int]]], slots: int, capacity: int
) -> None:
    index, everything = index_on(FaultyDisk(), slots, capacity), []
    position = 0
    for part in parts:
        messages = []
        for prefix, raw, step, later_ms in part:
            messages.append((prefix, raw, position, START_MS + later_ms))
            position += step
        index.add(messages)
        everything += messages
    assert contents(index) == plain_files(everything, slots, capacity)
    index.add(everything)
    assert contents(index) == plain_files(everything, slots, capacity), "what is in the index is passed over"


@pytest.mark.parametrize("keys_each", [0, 1, 2, 3])
@pytest.mark.parametrize("slots", [64, 5_000])
def test_thousands_of_keys_at_once_on_a_real_disk(tmp_path: Path, slots: int, keys_each: int) -> None:
    names = [b"", b"UNIQ_KEY\x01%032X%08X%016X\x02", b"UNIQ_KEY\x01%032X%08X%016X\x02KEYS\x01order-%d\x02"]
    names.append(names[2][:-1] + b" other-%d\x02")
    numbers = [(7, number, 9, number, number)[: (0, 3, 4, 5)[keys_each]] for number in range(3_000)]
    messages = [
        (b"orders#", names[keys_each] % values, at * 300, START_MS + at // 1_000) for at, values in enumerate(numbers)
    ]
    index = index_on(RealDisk(), slots, 4_000, tmp_path)
    for start in (0, 1, 2_500):
        index.add(messages[start : {0: 1, 1: 2_500, 2_500: 3_000}[start]])
    assert contents(index) == plain_files(messages, slots, 4_000)
    index.close()


@pytest.mark.parametrize("nonsense", [2, 3, 10, 0x7FFFFFFF, 0xFFFFFFFF])
def test_a_slot_with_nonsense_counts_as_empty(nonsense: int) -> None:
    index = index_on(FaultyDisk(), 1, 10)
    index.add([(b"t#", b"UNIQ_KEY\x01a\x02", 0, START_MS)])
    (file,) = index.files
    file.file.write_at(HEADER.size, nonsense.to_bytes(4, "big"))
    assert list(index.candidates("t", "a", 0, 1 << 50)) == []
    index.add([(b"t#", b"UNIQ_KEY\x01b\x02KEYS\x01c\x02", 100, START_MS)])
    assert [previous for _, _, _, previous in file.entries()] == [0, 0, 2]
    assert HEADER.unpack(file.file.read_at(0, HEADER.size))[4] == 2, "the slot was counted as used again"
    assert list(index.candidates("t", "c", 0, 1 << 50)) == [100]
