"""The commit log unrolls ``encode_record`` for speed: its records must be the same, byte for byte."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import msgspec
import pytest

from pyromq.store.files.segments import SegmentList
from pyromq.store.log.commit_log import CommitLog, TopicBytes
from pyromq.store.log.log_reader import LogReader
from pyromq.store.settings import StoreSettings
from pyromq.testing import FaultyDisk
from pyromq.wire.batch import Batch, BatchItem
from pyromq.wire.record import Draft, decode_record, encode_record

V4, V6 = bytes.fromhex("0a00000100002a9f"), bytes(range(16)) + b"\0\0\x2a\x9f"
CHECKSUM = b"__CRC32#\x010123456789\x02"
TOPICS = ["t", "t" * 127, "%RETRY%" + "g" * 121, "%RETRY%" + "g" * 248]
USUAL = [b"", b"A\x01b\x02", b"A\x01b", b"__CRC32\x0101234567890\x02"]
ODD = [b"A\x01b\x02" + CHECKSUM, CHECKSUM + b"A\x01b", CHECKSUM, CHECKSUM[:-1], b"MY" + CHECKSUM, b"A\x01b\0"]
STORED_MS = 1_700_000_000_001


def drafts(properties: list[bytes]) -> list[Draft]:
    choices = product(TOPICS, [b"", b"body" * 20], properties, [V4, V6], [0, 0x10, 0x35, 0x701])
    return [
        Draft(
            topic=topic,
            queue_id=number % 7,
            body=body,
            properties=text,
            flag=-number,
            sys_flag=sys_flag,
            born_ms=number,
            born_host=born_host,
            delivery_attempt=number % 3,
            prepared_position=number * 1000,
        )
        for number, (topic, body, text, born_host, sys_flag) in enumerate(choices)
    ]


def log_with(settings: StoreSettings, store_host: bytes) -> CommitLog:
    segments = SegmentList.load(FaultyDisk(), Path("/store/commitlog"), settings.segment_bytes)
    return CommitLog(segments, settings, store_host)


kinds_of_logs = pytest.mark.parametrize(
    ("checksums", "properties", "store_host"),
    [
        pytest.param(checksums, properties, host, id=f"{name}-{'v4' if host is V4 else 'v6'}")
        for checksums, properties, name in (
            (True, USUAL, "checksums"),
            (True, ODD, "checksums-odd"),
            (False, USUAL, "plain"),
            (False, ODD, "plain-odd"),
        )
        for host in (V4, V6)
    ],
)


@kinds_of_logs
def test_what_the_log_writes_is_what_encode_record_gives(
    checksums: bool, properties: list[bytes], store_host: bytes
) -> None:
    settings = StoreSettings(segment_bytes=16_384, checksums=checksums)
    log = log_with(settings, store_host)
    records = LogReader(log)
    placed = []
    for offset, draft in enumerate(drafts(properties)):
        position, size = log.stage(draft, TopicBytes(draft.topic), offset, STORED_MS)
        placed.append((draft, offset, position, size))
        if offset % 5 == 4:
            log.write_staged(STORED_MS)
    log.write_staged(STORED_MS)
    assert len({position // settings.segment_bytes for _, _, position, _ in placed}) > 2, "several segments"
    for draft, offset, position, size in placed:
        stored = bytes(records.bytes_at(position, size))
        assert stored == encode_record(
            draft, offset=offset, position=position, stored_ms=STORED_MS, store_host=store_host, checksum=checksums
        )
        assert decode_record(stored).body == draft.body
        assert records.verify(position).size == size
        assert records.stored_ms(position) == STORED_MS


@kinds_of_logs
@pytest.mark.parametrize("large_body", [b"small", b"large" * 4_000])
def test_a_batch_gives_the_records_that_its_messages_would_give(
    checksums: bool, properties: list[bytes], store_host: bytes, large_body: bytes
) -> None:
    settings = StoreSettings(segment_bytes=65_536, checksums=checksums)
    log = log_with(settings, store_host)
    records = LogReader(log)
    items = [BatchItem(b"body" * number, text, flag=-number) for number, text in enumerate(properties)]
    items.append(BatchItem(large_body))
    for offset, shared in enumerate(drafts([b""])):
        topic = TopicBytes(shared.topic)
        found = log.stage_batch(shared, Batch.of(items), topic, offset, STORED_MS)
        log.write_staged(STORED_MS)
        for number, (item, position, size) in enumerate(zip(items, found.positions, found.sizes, strict=True)):
            draft = msgspec.structs.replace(shared, body=item.body, properties=item.properties, flag=item.flag)
            assert bytes(records.bytes_at(position, size)) == encode_record(
                draft, offset=offset + number, position=position, stored_ms=STORED_MS, store_host=store_host,
                checksum=checksums,
            )  # fmt: skip
            assert records.verify(position).size == size
        assert found.positions[0] // settings.segment_bytes == found.positions[-1] // settings.segment_bytes
