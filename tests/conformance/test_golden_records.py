"""Records and batches whose exact bytes other implementations write and expect."""

from __future__ import annotations

from zlib import crc32

import pytest

from pyromq.wire.batch import BatchItem, decode_batch, encode_batch
from pyromq.wire.java_hash import tag_hash
from pyromq.wire.properties import decode_properties, find_property
from pyromq.wire.record import Draft, Record, RecordFound, decode_record, encode_record, scan_record, split_records

EXAMPLE = bytes.fromhex(
    "00000068 daa320a7 3610a686 00000003 00000000 0000000000000007 0000000000001000 00000000"
    "0000018bcfe56800 7f0000010000c350 0000018bcfe56801 7f00000100002a9f 00000000 0000000000000000"
    "00000005 68656c6c6f 01 54 0007 54414753014102"
)
BORN_HOST, STORE_HOST = bytes.fromhex("7f0000010000c350"), bytes.fromhex("7f00000100002a9f")
DRAFT = Draft(
    topic="T", queue_id=3, body=b"hello", properties=b"TAGS\x01A\x02", born_ms=1_700_000_000_000, born_host=BORN_HOST
)
V6 = bytes.fromhex("20010db8000000000000000000000001 0000c350")
BATCH = bytes.fromhex("0000001f 00000000 00000000 00000000 00000002 6869 0007 54414753014102")


def encoded(draft: Draft, *, store_host: bytes = STORE_HOST, checksum: bool = False) -> bytes:
    return encode_record(
        draft, offset=7, position=4096, stored_ms=1_700_000_000_001, store_host=store_host, checksum=checksum
    )


def test_the_worked_example_is_written_byte_for_byte() -> None:
    assert len(EXAMPLE) == 104
    assert encoded(DRAFT) == EXAMPLE


def test_the_worked_example_is_read_field_by_field() -> None:
    assert decode_record(EXAMPLE) == Record(
        position=4096,
        size=104,
        magic=0xDAA320A7,
        body_crc=crc32(b"hello") & 0x7FFFFFFF,
        queue_id=3,
        flag=0,
        offset=7,
        sys_flag=0,
        born_ms=1_700_000_000_000,
        born_host=BORN_HOST,
        stored_ms=1_700_000_000_001,
        store_host=STORE_HOST,
        delivery_attempt=0,
        prepared_position=0,
        topic=b"T",
        properties=b"TAGS\x01A\x02",
        body=b"hello",
    )
    assert decode_properties(decode_record(EXAMPLE).properties) == {"TAGS": "A"}
    assert split_records(EXAMPLE * 3) == [decode_record(EXAMPLE)] * 3


def test_the_example_with_a_checksum_has_20_more_bytes_least_significant_digit_first() -> None:
    record = encoded(DRAFT, checksum=True)
    assert len(record) == 124
    covered, trailer = record[:-20], record[-20:]
    digits = f"{crc32(covered) & 0x7FFFFFFF:010d}"[::-1].encode()
    assert trailer == b"__CRC32#\x01" + digits + b"\x02"
    assert covered == bytes.fromhex("0000007c") + EXAMPLE[4:95] + b"\x00\x1b" + EXAMPLE[97:]
    assert find_property(decode_record(record).properties, b"__CRC32#") == digits


def test_a_topic_of_128_bytes_has_the_second_version_and_a_length_of_two_bytes() -> None:
    topic = "%RETRY%" + "g" * 121
    record = encode_record(
        Draft(topic=topic, queue_id=0, body=b"b"),
        offset=0,
        position=0,
        stored_ms=0,
        store_host=STORE_HOST,
        checksum=False,
    )
    assert record[4:8] == bytes.fromhex("daa320ab")
    assert record[84:] == b"\x00\x00\x00\x01b" + b"\x00\x80" + topic.encode() + b"\x00\x00"
    assert len(record) == 92 + 1 + 128


@pytest.mark.parametrize(
    ("born_host", "store_host", "sys_flag", "more_bytes"),
    [(BORN_HOST, STORE_HOST, 0, 0), (V6, STORE_HOST, 0x10, 12), (BORN_HOST, V6, 0x20, 12), (V6, V6, 0x30, 24)],
)
def test_ipv6_hosts_are_announced_by_flags_and_move_what_follows(
    born_host: bytes, store_host: bytes, sys_flag: int, more_bytes: int
) -> None:
    record = encoded(
        Draft(topic="T", queue_id=3, body=b"hello", properties=b"TAGS\x01A\x02", born_host=born_host),
        store_host=store_host,
    )
    assert len(record) == 104 + more_bytes
    assert record[36:40] == sys_flag.to_bytes(4, "big")
    assert record[48 : 48 + len(born_host)] == born_host
    at = 48 + len(born_host)
    assert record[at : at + 8] == (1_700_000_000_001).to_bytes(8, "big")
    assert record[at + 8 : at + 8 + len(store_host)] == store_host
    assert record[84 + more_bytes :] == EXAMPLE[84:]
    found = scan_record(memoryview(record), 0, 4096)
    assert isinstance(found, RecordFound)
    assert decode_record(record).store_host == store_host


def test_the_batch_example_both_ways() -> None:
    item = BatchItem(b"hi", b"TAGS\x01A\x02")
    assert encode_batch([item]) == BATCH
    assert decode_batch(BATCH + BATCH).items() == [item, item]


def test_tags_have_the_hashes_that_clients_filter_by() -> None:
    tags = {b"TagA": 2598919, b"TagB": 2598920, b"null": 3392903, "é".encode(): 233, "\U0001f600".encode(): 1772899}
    assert {tag: tag_hash(tag) for tag in tags} == tags
