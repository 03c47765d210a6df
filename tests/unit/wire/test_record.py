from __future__ import annotations

import struct
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.errors import CorruptRecordError, MessageTooLargeError, PropertiesTooLargeError
from pyromq.wire.flags import SysFlag
from pyromq.wire.record import (
    Damage,
    Draft,
    NothingWritten,
    RecordFound,
    SegmentEnd,
    checksum_property,
    decode_record,
    encode_record,
    find_record_after,
    is_indexed,
    is_visible,
    plain_properties,
    scan_record,
    split_records,
    with_checksum_room,
)
from pyromq.wire.record_layout import MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from tests.unit.wire.records import I64, POSITIONS, drafts, hosts

V4, V6 = bytes.fromhex("0a00000100002a9f"), bytes(range(16)) + b"\0\0\x2a\x9f"
POSITION = 1 << 33
DRAFT = Draft(
    topic="orders",
    queue_id=3,
    body=b"the body of a message",
    properties=b"UNIQ_KEY\x017F0000010B3C18B4AAC2000000000001\x02TAGS\x01TagA\x02KEYS\x01k1 k2\x02",
    flag=1,
    born_ms=1_700_000_000_000,
)


def encoded(draft: Draft = DRAFT, *, position: int = POSITION, store_host: bytes = V4, checksum: bool = True) -> bytes:
    return encode_record(
        draft, offset=41, position=position, stored_ms=1_700_000_000_001, store_host=store_host, checksum=checksum
    )


def scan(record: bytes, position: int = POSITION) -> object:
    return scan_record(memoryview(record), 0, position)


def flipped(record: bytes, bit: int) -> bytes:
    data = bytearray(record)
    data[bit // 8] ^= 1 << bit % 8
    return bytes(data)


# --- both ways ------------------------------------------------------------------------------------------------------


@settings(max_examples=300)
@given(drafts, hosts, I64, POSITIONS, I64, st.booleans())
def test_a_record_reads_back_in_every_field(
    draft: Draft, store_host: bytes, offset: int, position: int, stored_ms: int, checksum: bool
) -> None:
    data = encode_record(
        draft, offset=offset, position=position, stored_ms=stored_ms, store_host=store_host, checksum=checksum
    )
    record = decode_record(data)
    born_flag = SysFlag.BORN_HOST_V6 if len(draft.born_host) == 20 else 0
    store_flag = SysFlag.STORE_HOST_V6 if len(store_host) == 20 else 0
    assert record.sys_flag == draft.sys_flag | born_flag | store_flag
    assert (record.topic.decode(), record.queue_id, record.body) == (draft.topic, draft.queue_id, draft.body)
    assert (record.flag, record.born_ms, record.born_host) == (draft.flag, draft.born_ms, draft.born_host)
    assert (record.delivery_attempt, record.prepared_position) == (draft.delivery_attempt, draft.prepared_position)
    assert (record.offset, record.position, record.stored_ms) == (offset, position, stored_ms)
    assert (record.store_host, record.size) == (store_host, len(data))
    assert record.magic == (MAGIC_V1 if len(draft.topic) <= 127 else MAGIC_V2)
    assert record.body_crc == crc32(draft.body) & 0x7FFFFFFF
    assert record.properties == draft.properties + (data[-20:] if checksum else b"")
    found = RecordFound(
        record.size, record.queue_id, offset, record.sys_flag, stored_ms, record.topic, record.properties
    )
    assert scan(data, position) == found


@pytest.mark.parametrize(("topic_bytes", "magic"), [(1, MAGIC_V1), (127, MAGIC_V1), (128, MAGIC_V2), (255, MAGIC_V2)])
def test_long_topics_have_the_second_version(topic_bytes: int, magic: int) -> None:
    draft = Draft(topic="t" * topic_bytes, queue_id=0, body=b"b")
    record = decode_record(encoded(draft))
    assert (record.magic, record.topic) == (magic, b"t" * topic_bytes)


def test_a_topic_of_256_bytes_and_too_many_properties_are_refused() -> None:
    with pytest.raises(MessageTooLargeError):
        encoded(Draft(topic="t" * 256, queue_id=0, body=b""))
    fits = Draft(topic="t", queue_id=0, body=b"", properties=b"n\x01" + b"v" * 32_744 + b"\x02")
    assert decode_record(encoded(fits)).properties[:-20] == fits.properties
    with pytest.raises(PropertiesTooLargeError):
        encoded(Draft(topic="t", queue_id=0, body=b"", properties=b"n\x01" + b"v" * 32_745 + b"\x02"))


@pytest.mark.parametrize("born_host", [V4, V6])
@pytest.mark.parametrize("store_host", [V4, V6])
@pytest.mark.parametrize("claimed", [0, 0x10, 0x20, 0x30])
def test_the_length_of_hosts_and_not_the_draft_decides_the_flags(
    born_host: bytes, store_host: bytes, claimed: int
) -> None:
    draft = Draft(topic="t", queue_id=0, body=b"b", sys_flag=claimed | 8, born_host=born_host)
    record = decode_record(encoded(draft, store_host=store_host))
    assert (record.born_host, record.store_host) == (born_host, store_host)
    assert record.sys_flag & 0xF == 8


def test_records_of_a_pull_response_come_apart_in_order() -> None:
    records = [
        encoded(Draft(topic="t" * n, queue_id=n, body=b"b" * n), position=n * 1000, checksum=n % 2 == 0)
        for n in range(1, 200, 7)
    ]
    split = split_records(b"".join(records))
    assert [record.queue_id for record in split] == list(range(1, 200, 7))
    assert split_records(b"") == []
    with pytest.raises(CorruptRecordError):
        split_records(b"".join(records)[:-1])


# --- the checksum property ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("crc", "digits"),
    [(0, b"0000000000"), (1, b"1000000000"), (1234567890, b"0987654321"), (0xFFFFFFFF, b"7463847412")],
)
def test_the_checksum_stands_with_its_least_significant_digit_first(crc: int, digits: bytes) -> None:
    assert checksum_property(crc) == b"__CRC32#\x01" + digits + b"\x02"


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (b"", b""),
        (b"A\x01b\x02", b"A\x01b\x02"),
        (b"A\x01b", b"A\x01b\x02"),
        (b"__CRC32#\x010123456789\x02", b""),
        (b"__CRC32#\x010123456789", b""),
        (b"A\x01b\x02__CRC32#\x010123456789\x02", b"A\x01b\x02"),
        (b"A\x01b\x02__CRC32#\x010123456789", b"A\x01b\x02"),
        (b"__CRC32#\x01x\x02A\x01b\x02__CRC32#\x01\x02C\x01d", b"A\x01b\x02C\x01d\x02"),
        (b"MY__CRC32#\x010123456789\x02", b"MY__CRC32#\x010123456789\x02"),
    ],
)
def test_a_checksum_of_an_earlier_life_is_taken_out(given: bytes, stored: bytes) -> None:
    assert with_checksum_room(given) == stored
    record = decode_record(encoded(Draft(topic="t", queue_id=0, body=b"b", properties=given)))
    assert record.properties[:-20] == stored


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (b"", b""),
        (b"A\x01b", b"A\x01b"),
        (b"A\x01b\x02__CRC32#\x010123456789\x02", b"A\x01b\x02"),
        (b"A\x01b\x02__CRC32#\x010123456789", b"A\x01b"),
        (b"MY__CRC32#\x010123456789\x02", b"MY__CRC32#\x010123456789"),
        (b"MY__CRC32#\x0101234567891", b"MY__CRC32#\x0101234567891\x02"),
        (b"MY__CRC32#\x01other\x02", b"MY__CRC32#\x01other\x02"),
        (b"A\x01b\0", b"A\x01b\0\x02"),
        (b"__CRC32\x0101234567890\x02", b"__CRC32\x0101234567890\x02"),
        (b"__CRC32!\x010123456789\x02", b"__CRC32!\x010123456789"),
    ],
)
def test_no_property_a_client_may_send_makes_a_record_without_checksum_look_damaged(
    given: bytes, stored: bytes
) -> None:
    assert plain_properties(given) == stored
    data = encoded(Draft(topic="t", queue_id=0, body=b"b", properties=given), checksum=False)
    assert decode_record(data).properties == stored


# --- damage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("topic", ["orders", "t" * 200])
def test_every_cut_is_damage(checksum: bool, topic: str) -> None:
    data = encoded(Draft(topic=topic, queue_id=0, body=b"body", properties=b"A\x01b\x02"), checksum=checksum)
    for size in range(len(data)):
        assert isinstance(scan(data[:size]), Damage)
        with pytest.raises(CorruptRecordError):
            decode_record(data[:size])


@pytest.mark.parametrize("draft", [DRAFT, Draft(topic="t" * 130, queue_id=1, body=b"", born_host=V6)])
@pytest.mark.parametrize("store_host", [V4, V6])
def test_every_flipped_bit_of_a_record_with_checksum_is_found(draft: Draft, store_host: bytes) -> None:
    data = encoded(draft, store_host=store_host)
    assert isinstance(scan(data), RecordFound)
    missed = [bit for bit in range(8 * len(data)) if not isinstance(scan(flipped(data, bit)), Damage)]
    assert missed == []


def test_flipped_bits_in_body_and_lengths_of_a_record_without_checksum_are_found() -> None:
    data = encoded(checksum=False)
    body_at = 88
    topic_at = body_at + len(DRAFT.body)
    properties_at = topic_at + 1 + len("orders")
    covered = [*range(0, 12), *range(28, 36), *range(84, topic_at + 1), properties_at, properties_at + 1]
    missed = [
        bit
        for byte in covered
        for bit in range(8 * byte, 8 * byte + 8)
        if not isinstance(scan(flipped(data, bit)), Damage)
    ]
    assert missed == []


def test_a_record_whose_end_was_never_written_is_damage_wherever_it_was_torn() -> None:
    for checksum in (False, True):
        data = encoded(checksum=checksum)
        for size in range(8, len(data)):
            torn = data[:size] + bytes(len(data) - size)
            assert isinstance(scan_record(memoryview(torn), 0, POSITION, may_be_torn=True), Damage), size


def test_a_record_knows_where_it_belongs() -> None:
    found = scan(encoded(), POSITION + 8)
    assert isinstance(found, Damage)
    assert str(POSITION) in found.reason


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (bytes(8), NothingWritten()),
        (bytes(500), NothingWritten()),
        (struct.pack(">II", 100, MAGIC_BLANK) + bytes(92), SegmentEnd()),
        (struct.pack(">II", 8, MAGIC_BLANK), SegmentEnd()),
    ],
)
def test_ends_are_told_from_damage(data: bytes, expected: object) -> None:
    assert scan(data) == expected
    with pytest.raises(CorruptRecordError, match="there is no record"):
        decode_record(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(7),
        struct.pack(">II", 0, 1) + bytes(100),
        struct.pack(">II", 1, 0) + bytes(100),
        struct.pack(">II", 99, MAGIC_BLANK) + bytes(92),
        struct.pack(">II", 101, MAGIC_BLANK) + bytes(92),
        *(struct.pack(">II", total, MAGIC_V1) + bytes(300) for total in (0, 8, 90, 91, 309, 2**31, 2**32 - 1)),
        *(struct.pack(">II", total, MAGIC_V2) + bytes(300) for total in (0, 91, 308)),
    ],
)
def test_what_is_neither_record_nor_end_is_damage(data: bytes) -> None:
    assert isinstance(scan(data, 0), Damage)


def test_without_verification_only_the_frame_is_looked_at() -> None:
    data = flipped(encoded(), 8 * 90)
    assert isinstance(scan(data), Damage)
    assert isinstance(scan_record(memoryview(data), 0, POSITION, verify=False), RecordFound)
    assert isinstance(scan_record(memoryview(data[:-1]), 0, POSITION, verify=False), Damage)


def test_a_record_may_start_anywhere_in_a_segment() -> None:
    data = bytes(1000) + encoded() + bytes(50)
    assert isinstance(scan_record(memoryview(data), 1000, POSITION), RecordFound)
    assert decode_record(data, 1000).position == POSITION


# --- after damage ---------------------------------------------------------------------------------------------------


def log_of(count: int, *, body_bytes: int = 40) -> tuple[bytearray, list[int]]:
    data, starts = bytearray(), []
    for number in range(count):
        starts.append(len(data))
        draft = Draft(topic="t", queue_id=0, body=bytes([number % 256]) * body_bytes)
        data += encoded(draft, position=POSITION + len(data))
    return data, starts


@pytest.mark.parametrize("damaged_byte", [0, 4, 7, 20, 40, 100])
def test_the_next_whole_record_is_found_behind_damage(damaged_byte: int) -> None:
    data, starts = log_of(5)
    data[starts[1] + damaged_byte] ^= 0xFF
    assert isinstance(scan_record(memoryview(data), starts[1], POSITION + starts[1]), Damage)
    assert find_record_after(memoryview(data), starts[1], POSITION + starts[1]) == starts[2]


def test_damage_over_several_records_is_skipped_and_the_last_one_leads_to_nothing() -> None:
    data, starts = log_of(5)
    data[starts[1] + 10 : starts[3] + 10] = bytes(starts[3] - starts[1])
    assert find_record_after(memoryview(data), starts[1], POSITION + starts[1]) == starts[4]
    data[starts[4] + 50] ^= 1
    assert find_record_after(memoryview(data), starts[1], POSITION + starts[1]) is None
    assert find_record_after(memoryview(data), len(data), POSITION + len(data)) is None


def test_a_record_inside_a_body_is_not_taken_for_one_of_the_log() -> None:
    inner = encoded(position=POSITION)
    outer = encoded(Draft(topic="t", queue_id=0, body=inner))
    after = encoded(position=POSITION + len(outer))
    data = bytearray(outer + after)
    data[20] ^= 1
    assert find_record_after(memoryview(data), 0, POSITION) == len(outer)


@pytest.mark.parametrize("shift", range(-8, 5))
def test_a_record_across_the_windows_of_the_search_is_found(shift: int) -> None:
    gap = (1 << 20) + shift
    record = encoded(position=POSITION + gap)
    data = b"\xff" * gap + record
    assert find_record_after(memoryview(data), 0, POSITION) == gap


# --- transactions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flag", "visible", "indexed"), [(0, True, True), (4, False, True), (8, True, True), (12, False, False)]
)
def test_prepared_and_rolled_back_messages_are_not_visible(flag: int, visible: bool, indexed: bool) -> None:
    for others in (0, 0x701, 0x30):
        assert (is_visible(flag | others), is_indexed(flag | others)) == (visible, indexed)
