"""Records: encode, scan (as recovery does), decode; hashes of keys."""

from __future__ import annotations

from benchmarks.bench_append import drafts
from benchmarks.measure import Row, measure
from pyromq.store.message_store import LOOPBACK_HOST
from pyromq.wire.fast.key_hashes import key_hashes
from pyromq.wire.java_hash import java_hash
from pyromq.wire.record import decode_record, encode_record, scan_record

COUNT = 20_000


def rows() -> list[Row]:
    (draft,) = drafts(1024, 1)
    record = encode_record(draft, offset=7, position=0, stored_ms=1_700_000_000_000, store_host=LOOPBACK_HOST)
    view = memoryview(record)

    def encode() -> int:
        for _ in range(COUNT):
            encode_record(draft, offset=7, position=0, stored_ms=1_700_000_000_000, store_host=LOOPBACK_HOST)
        return COUNT

    def scan() -> int:
        for _ in range(COUNT):
            scan_record(view, 0, 0)
        return COUNT

    def decode() -> int:
        for _ in range(COUNT):
            decode_record(view)
        return COUNT

    keys = [f"orders#7F0000010B3C18B4AAC2{number:012X}" for number in range(1_000)]
    raw = [key.encode() for key in keys]

    def hash_one_by_one() -> int:
        for key in keys:
            java_hash(key)
        return len(keys)

    def hash_together() -> int:
        return len(key_hashes(raw))

    size = len(record)
    return [
        measure("record encoded, 1 KiB body, checksum", encode, bytes_per_operation=size),
        measure("record scanned and verified", scan, bytes_per_operation=size),
        measure("record decoded, every field", decode, bytes_per_operation=size),
        measure("key hashed alone", hash_one_by_one),
        measure("key hashed among 1 000", hash_together),
    ]
