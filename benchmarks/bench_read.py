"""Reads: responses of 32 messages as slices of the log, with and without a tag filter."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from benchmarks.bench_append import QUEUES, drafts
from benchmarks.measure import Row, measure
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import Flush, StoreSettings
from pyromq.wire.java_hash import tag_hash

MESSAGES = 51_200


def rows() -> list[Row]:
    folder = Path(tempfile.mkdtemp(prefix="pyromq-bench-"))
    try:
        store = MessageStore.open(folder, StoreSettings(flush=Flush.ASYNC, index_backlog_max=1 << 40))
        for _ in range(MESSAGES // 256):
            store.append(drafts(1024, 256))
        accepted = {tag_hash(b"TagB")}

        def read() -> int:
            count = 0
            for queue_id in range(QUEUES):
                offset = 0
                while (result := store.reader.read("orders", queue_id, offset)).count:
                    offset, count = result.next_offset, count + result.count
                    result.to_bytes()
            return count

        def scan() -> int:
            count = 0
            for queue_id in range(QUEUES):
                offset, end = 0, MESSAGES // QUEUES
                while offset < end:
                    result = store.reader.read("orders", queue_id, offset, accept_tag=accepted.__contains__)
                    count, offset = count + result.next_offset - offset, result.next_offset
            return count

        found = [
            measure("message of a read of 32, 1 KiB, 4 queues mixed", read, bytes_per_operation=1024),
            measure("message passed over by a tag filter", scan),
        ]
        store._release()
        return found
    finally:
        shutil.rmtree(folder)
