"""The scripted run that crash tests stop at every operation, and what must hold of a store afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from pyromq.store.derived.entry_tag import entry_tag
from pyromq.store.derived.queue_entry import ENTRY
from pyromq.store.files.disk import Disk
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import Flush, StoreSettings
from pyromq.testing import FaultyDisk, ManualClock
from pyromq.wire.batch import Batch, BatchItem
from pyromq.wire.fast.key_hashes import key_hash
from pyromq.wire.properties import encode_properties, message_keys
from pyromq.wire.record import (
    Draft,
    NothingWritten,
    Record,
    RecordFound,
    SegmentEnd,
    decode_record,
    is_indexed,
    is_visible,
    scan_record,
)

ROOT = Path("/store")
SMALL = StoreSettings(
    segment_bytes=4096, queue_file_entries=8, index_slots=16, index_entries=24, index_backlog_max=8, body_bytes_max=1500
)
SMALL_ASYNC = StoreSettings(
    flush=Flush.ASYNC, segment_bytes=4096, queue_file_entries=8, index_slots=16, index_entries=24, index_backlog_max=8
)


MADE_UP = b"TAGS\1\2__CRC32#\1TAGS\1x\2"  # a checksum of the sender's own, with a tag inside


def draft(number: int, *, topic: str = "orders", sys_flag: int = 0) -> Draft:
    """Message ``number``: sizes, queues and topics vary with it, and its body tells which it is."""
    body = f"message-{number};".encode() * (1 + number * 7 % 23)
    properties = {"UNIQ_KEY": f"7F0000010B3C18B4AAC2{number:012X}", "TAGS": f"Tag{number % 3}"}
    if number % 2:
        properties["KEYS"] = f"order-{number} customer-{number % 5}"
    return Draft(
        topic=topic if number % 5 else "%RETRY%billing",
        queue_id=number % 3,
        body=body,
        properties=encode_properties(properties) + (b"" if number % 7 else MADE_UP),
        born_ms=1_699_999_999_000 + number,
        sys_flag=sys_flag,
    )


@dataclass
class Witness:
    """What a careful client remembers of a run."""

    sent: list[Draft] = field(default_factory=list)  # in the order of staging
    acknowledged: int = 0  # so many of them were reported as durable


def run_script(store: MessageStore, clock: ManualClock, witness: Witness, *, groups: int = 12) -> None:
    """Turns of one to six messages each, a flush and an acknowledgement after each, now and then a batch and a seal."""
    number = len(witness.sent)
    for group in range(groups):
        count = 1 + group * 5 % 6
        drafts = [draft(number + n) for n in range(count)]
        if group % 4 == 3:
            drafts = [msgspec.structs.replace(each, topic="orders", queue_id=1) for each in drafts]
        witness.sent += drafts
        if group % 4 == 3:
            store.stage_batch(drafts[0], Batch.of(BatchItem(each.body, each.properties, each.flag) for each in drafts))
            store.commit()
        else:
            store.append(drafts)
        number += count
        clock.advance_ms(10)
        store.flush()
        witness.acknowledged = number
        if group % 3 == 0:
            note(store)
        if group % 5 == 4:
            store.seal()


def note(store: MessageStore) -> None:
    """Let recovery know how far the log is flushed, in one go."""
    store.write_entries()
    store.note_flushed()


def retain(store: MessageStore, count: int) -> int:
    """Delete the oldest files of the log, as maintenance does, in one go."""
    store.seal()
    deleted = store.delete_oldest(count)
    store.removal.run()
    store.removal.trim_queues()
    return deleted


def open_store(disk: Disk, clock: ManualClock, settings: StoreSettings = SMALL) -> MessageStore:
    return MessageStore.open(ROOT, settings, disk=disk, clock=clock)


def log_records(store: MessageStore) -> list[Record]:
    """Every record by walking the segments, as an independent reader would."""
    records = []
    for segment in store.log.segments:
        at = 0
        while segment.base + at < store.end_position:
            found = scan_record(segment.open_once().map_once(), at, segment.base + at)
            if isinstance(found, SegmentEnd):
                break
            assert isinstance(found, RecordFound), (segment.base + at, found)
            records.append(decode_record(segment.open_once().map_once(), at))
            at += found.size
        else:
            assert isinstance(scan_record(segment.open_once().map_once(), at, segment.base + at), NothingWritten)
    return records


def check_agreement(store: MessageStore) -> None:
    """Queues and index hold exactly what the log says, byte for byte."""
    expected_queues: dict[tuple[str, int], list[bytes]] = {}
    expected_index: list[tuple[int, int]] = []
    for record in log_records(store):
        topic = record.topic.decode()
        if is_visible(record.sys_flag):
            entries = expected_queues.setdefault((topic, record.queue_id), [])
            assert record.offset == len(entries), "offsets are gap-free"
            tag = entry_tag(topic, record.properties, record.stored_ms, store.settings.delay_ladder_ms)
            entries.append(ENTRY.pack(record.position, record.size, tag))
        if is_indexed(record.sys_flag):
            expected_index += [
                (key_hash(record.topic + b"#" + key), record.position) for key in message_keys(record.properties)
            ]
    for key, queue in store.queues.items():
        entries = expected_queues.pop(key, [])
        data = b"".join(bytes(segment.open_once().map_once()) for segment in queue.segments)
        wanted = b"".join(entries)
        assert data[: len(wanted)] == wanted, f"queue {key}"
        assert not data[len(wanted) :].strip(b"\0"), f"queue {key} has something behind its end"
        assert (queue.first, queue.end, queue.next_offset) == (0, len(entries), len(entries))
    assert not expected_queues, "queues are missing"
    store.indexer.index_all()
    indexed = [(entry[0], entry[1]) for file in store.index.files for entry in file.entries()]
    assert indexed == expected_index
    for record in log_records(store):
        for key in message_keys(record.properties):
            found = store.find(record.topic.decode(), key.decode(), count_max=1000)
            assert record.position in found or record.position + record.size > store.visible_end


def read_everything(store: MessageStore) -> dict[tuple[str, int], list[Record]]:
    """Every message through the ordinary read path."""
    found: dict[tuple[str, int], list[Record]] = {}
    for topic, queue_id in store.queues:
        offset, records = 0, found.setdefault((topic, queue_id), [])
        while True:
            result = store.reader.read(topic, queue_id, offset)
            if result.next_offset == offset:
                break
            offset, data, at = result.next_offset, result.to_bytes(), 0
            while at < len(data):
                records.append(decode_record(data, at))
                at += records[-1].size
    return found


def check_after_crash(store: MessageStore, witness: Witness, *, acknowledged: bool = True) -> int:
    """Every acknowledged record is there and what is there is a prefix of what was sent; returns how many."""
    records = log_records(store)
    if acknowledged:
        assert len(records) >= witness.acknowledged, f"lost {witness.acknowledged - len(records)} acknowledged records"
    for record, sent in zip(records, witness.sent, strict=False):
        assert (record.body, record.topic.decode(), record.queue_id) == (sent.body, sent.topic, sent.queue_id)
    assert len(records) <= len(witness.sent)
    check_agreement(store)
    served = read_everything(store)
    assert sorted(r.position for each in served.values() for r in each) == [r.position for r in records]
    return len(records)


def content(disk: FaultyDisk) -> dict[str, bytes]:
    """Everything on a disk but the files that change with every opening."""
    volatile = {"abort", "lock", "checkpoint", "pyromq-seal.json", "pyromq-seal.json.bak"}
    return {str(path): disk.read(path) for path in disk.files() if path.name not in volatile}
