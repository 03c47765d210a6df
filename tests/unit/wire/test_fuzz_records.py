"""Whatever the bytes are, a reader of records gives a value or a typed error, and takes no more memory than they do."""

from __future__ import annotations

import struct
import tracemalloc
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from pyromq.errors import CorruptRecordError, ProtocolError
from pyromq.wire.batch import BatchItem, decode_batch, encode_batch
from pyromq.wire.properties import decode_properties, encode_properties, find_property, message_keys
from pyromq.wire.record import (
    Damage,
    Draft,
    NothingWritten,
    RecordFound,
    SegmentEnd,
    decode_record,
    encode_record,
    find_record_after,
    scan_record,
    split_records,
)
from pyromq.wire.record_layout import CHECKSUM_BYTES, MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from tests.running.seeds import seed_of

SEED = seed_of(20_240_601)

pytestmark = pytest.mark.seeded
ROUNDS = 80_000
V4, V6 = b"\x0a\0\0\1\0\0\x2a\x9f", bytes(range(20))
NUMBERS = (0, 1, 7, 8, 20, 88, 90, 91, 127, 128, 255, 256, 32_767, 32_768, 65_535, 2**31 - 1, 2**31, 2**32 - 1)
MAGICS = (MAGIC_V1, MAGIC_V2, MAGIC_BLANK)
LENGTHS_AT = (0, 4, 36, 84, 96, 108)  # total, magic, sysFlag, body length with no, one and two IPv6 hosts
Mutation = Callable[[bytearray, Random], None]


def flip_bits(data: bytearray, rng: Random) -> None:
    for _ in range(rng.choice((1, 1, 2, 8))):
        bit = rng.randrange(8 * len(data))
        data[bit // 8] ^= 1 << bit % 8


def cut(data: bytearray, rng: Random) -> None:
    del data[rng.randrange(len(data)) :]


def drop_bytes(data: bytearray, rng: Random) -> None:
    at = rng.randrange(len(data))
    del data[at : at + rng.randrange(1, 20)]


def insert_bytes(data: bytearray, rng: Random) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.choice((rng.randbytes(rng.randrange(1, 20)), b"\x01", b"\x02", b"\0" * 30))


def edit_a_length(data: bytearray, rng: Random) -> None:
    at = rng.choice((*LENGTHS_AT, rng.randrange(len(data))))
    if at + 4 <= len(data):
        struct.pack_into(">I", data, at, rng.choice((*NUMBERS, *MAGICS, len(data), len(data) + 1, len(data) - 1)))


def edit_a_short_length(data: bytearray, rng: Random) -> None:
    at = rng.randrange(len(data))
    if at + 2 <= len(data):
        struct.pack_into(">H", data, at, rng.choice(NUMBERS) & 0xFFFF)


MUTATIONS: tuple[Mutation, ...] = (flip_bits, cut, drop_bytes, insert_bytes, edit_a_length, edit_a_short_length)


def mutated(data: bytes, rng: Random) -> bytes:
    result = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if result:
            rng.choice(MUTATIONS)(result, rng)
    return bytes(result)


def records(rng: Random) -> list[bytes]:
    """Records of every shape, each believing to be at position 0."""
    return [
        encode_record(
            Draft(
                topic="t" * topic_bytes,
                queue_id=1,
                body=rng.randbytes(body_bytes),
                properties=encode_properties({"TAGS": "TagA", "KEYS": "k1 k2"}) if body_bytes else b"",
                born_host=born_host,
            ),
            offset=1,
            position=0,
            stored_ms=1,
            store_host=store_host,
            checksum=checksum,
        )
        for topic_bytes in (1, 127, 128, 255)
        for body_bytes in (0, 60)
        for born_host in (V4, V6)
        for store_host in (V4, V6)
        for checksum in (False, True)
    ]


def outcome(call: Callable[[], object]) -> str:
    """What came out; anything but a value or a typed error fails the test."""
    try:
        value = call()
    except (ProtocolError, CorruptRecordError) as error:
        return type(error).__name__
    return type(value).__name__


@pytest.fixture
def rng() -> Random:
    print(f"seed={SEED}")
    return Random(SEED)


def test_mutated_records_give_a_value_or_a_typed_error(
    rng: Random, record_property: Callable[[str, object], None]
) -> None:
    originals, counts = records(rng), Counter[str]()
    for _ in range(ROUNDS):
        data = mutated(rng.choice(originals), rng)
        found = scan_record(memoryview(data), 0, 0)
        assert isinstance(found, RecordFound | SegmentEnd | NothingWritten | Damage)
        if isinstance(found, RecordFound):
            assert found.size <= len(data)
        scan_record(memoryview(data), 0, 0, verify=False)
        counts["scan " + type(found).__name__] += 1
        counts["decode " + outcome(lambda data=data: decode_record(data))] += 1  # type: ignore[misc]
    print(f"rounds={ROUNDS} outcomes={dict(counts)}")
    record_property("mutations tried", ROUNDS)
    assert counts["decode CorruptRecordError"] > ROUNDS // 2


def test_no_mutated_record_with_checksum_passes_for_another_one(
    rng: Random, record_property: Callable[[str, object], None]
) -> None:
    originals = [record for record in records(rng) if record[-20:].startswith(b"__CRC32#")]
    passed = 0
    for _ in range(ROUNDS // 2):
        original = rng.choice(originals)
        data = bytearray(original[:-CHECKSUM_BYTES])
        rng.choice((flip_bits, edit_a_length, edit_a_short_length))(data, rng)
        data[:4] = original[:4]  # a smaller size could leave the checksum out
        data += original[-CHECKSUM_BYTES:]
        if isinstance(scan_record(memoryview(data), 0, 0), RecordFound):
            assert data == original
            passed += 1
    print(f"rounds={ROUNDS // 2} unchanged={passed}")
    record_property("mutations tried", ROUNDS // 2)


def test_mutated_pull_responses_give_records_or_a_typed_error(
    rng: Random, record_property: Callable[[str, object], None]
) -> None:
    originals, counts = records(rng), Counter[str]()
    rounds = ROUNDS // 4
    for _ in range(rounds):
        data = mutated(b"".join(rng.choices(originals, k=rng.randrange(1, 4))), rng)
        counts[outcome(lambda data=data: split_records(data))] += 1  # type: ignore[misc]
        if rng.random() < 0.1:
            found = find_record_after(memoryview(data), 0, 0)
            assert found is None or 0 <= found < len(data)
            counts["resynchronised" if found is not None else "nothing behind"] += 1
    print(f"rounds={rounds} outcomes={dict(counts)}")
    record_property("mutations tried", rounds)


def test_mutated_batches_give_items_or_a_typed_error(
    rng: Random, record_property: Callable[[str, object], None]
) -> None:
    originals = [
        encode_batch([BatchItem(rng.randbytes(size), b"K\x01v\x02" * (size % 3)) for _ in range(count)])
        for size in (0, 1, 30)
        for count in (1, 2, 5)
    ]
    counts = Counter[str]()
    for _ in range(ROUNDS):
        data = mutated(rng.choice(originals), rng)
        counts[outcome(lambda data=data: decode_batch(data))] += 1  # type: ignore[misc]
    print(f"rounds={ROUNDS} outcomes={dict(counts)}")
    record_property("mutations tried", ROUNDS)
    assert set(counts) == {"Batch", "RemoteProtocolError"}


def test_mutated_properties_give_a_dict_or_a_typed_error(
    rng: Random, record_property: Callable[[str, object], None]
) -> None:
    originals = [
        encode_properties({"TAGS": "TagA", "KEYS": "k1 k2 é", "UNIQ_KEY": "7F" * 16}),
        b"A\x01b",
        "名\x01値\x02".encode() * 3,
    ]
    counts = Counter[str]()
    for _ in range(ROUNDS):
        data = mutated(rng.choice(originals), rng)
        counts[outcome(lambda data=data: decode_properties(data))] += 1  # type: ignore[misc]
        message_keys(data)
        find_property(data, b"TAGS")
    print(f"rounds={ROUNDS} outcomes={dict(counts)}")
    record_property("mutations tried", ROUNDS)
    assert set(counts) == {"dict", "RemoteProtocolError"}


def test_noise_gives_no_record(rng: Random) -> None:
    for _ in range(ROUNDS // 4):
        data = rng.choice(MAGICS).to_bytes(4, "big") + rng.randbytes(rng.randrange(200))
        data = rng.choice((len(data) + 4, rng.choice(NUMBERS))).to_bytes(4, "big") + data
        assert not isinstance(scan_record(memoryview(data), 0, 0), RecordFound)
        assert outcome(lambda data=data: split_records(data)) == "CorruptRecordError"  # type: ignore[misc]


def test_lengths_that_promise_gigabytes_cost_nothing(rng: Random) -> None:
    originals = records(rng)
    tracemalloc.start()
    try:
        for _ in range(ROUNDS // 40):
            data = bytearray(rng.choice(originals))
            struct.pack_into(">I", data, rng.choice((0, 84)), rng.choice((2**31 - 1, 2**32 - 1, 2**30)))
            assert outcome(lambda data=data: decode_record(bytes(data))) in ("CorruptRecordError", "Record")  # type: ignore[misc]
            batch = bytearray(encode_batch([BatchItem(b"x" * 30, b"y" * 30)]))
            struct.pack_into(">i", batch, rng.choice((0, 16)), rng.choice((2**31 - 1, 2**30)))
            assert outcome(lambda batch=batch: decode_batch(bytes(batch))) == "RemoteProtocolError"  # type: ignore[misc]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20
