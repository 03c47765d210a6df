"""Appends: CPU and rate by body size, group size and flush mode, on this machine's disk."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

from benchmarks.measure import Row, measure
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import Flush, StoreSettings
from pyromq.wire.batch import Batch, BatchItem
from pyromq.wire.record import Draft

BODIES = ((128, "128 B"), (1024, "1 KiB"), (65536, "64 KiB"))
QUEUES = 4


def drafts(body_bytes: int, count: int) -> list[Draft]:
    body = os.urandom(body_bytes)
    return [
        Draft(
            topic="orders",
            queue_id=number % QUEUES,
            body=body,
            properties=b"UNIQ_KEY\x017F0000010B3C18B4AAC2%012X\x02WAIT\x01true\x02TAGS\x01TagA\x02MSG_REGION\x01DefaultRegion\x02"
            % number,
            born_ms=1_700_000_000_000,
        )
        for number in range(count)
    ]


def rows() -> list[Row]:
    found = []
    for body_bytes, label in BODIES:
        total = 200_000_000 // (body_bytes + 2000)
        found.append(_appends(f"async, groups of 256, {label}", body_bytes, total, 256, Flush.ASYNC, index=False))
        if body_bytes == 1024:
            found.append(_appends(f"async, groups of 32, {label}", body_bytes, total, 32, Flush.ASYNC, index=False))
            found.append(_appends(f"async, one by one, {label}", body_bytes, total // 4, 1, Flush.ASYNC, index=False))
            found.append(_appends(f"async, groups of 256, {label}, with keys", body_bytes, total, 256, Flush.ASYNC))
        found.append(_batches(f"async, batches of 32, {label}", body_bytes, total))
        found.append(_appends(f"sync, groups of 256, {label}", body_bytes, total, 256, Flush.SYNC, index=False))
        found.append(
            _appends(f"sync, groups of 16, {label}", body_bytes, min(total, 16_000), 16, Flush.SYNC, index=False)
        )
    found.append(_raw_fsync())
    return found


def _store(folder: Path, flush: Flush, *, index: bool) -> MessageStore:
    backlog = 4_096 if index else 1 << 40
    settings = StoreSettings(flush=flush, segment_bytes=1 << 30, index_backlog_max=backlog)
    return MessageStore.open(folder / "store", settings)


def _appends(name: str, body_bytes: int, total: int, group: int, flush: Flush, *, index: bool = True) -> Row:
    messages = drafts(body_bytes, group)

    def run() -> int:
        store = stores.pop()
        for _ in range(total // group):
            store.append(messages)
            if flush is Flush.SYNC:
                store.flush()
        return total // group * group

    folder = Path(tempfile.mkdtemp(prefix="pyromq-bench-"))
    try:
        stores = [_store(folder / str(number), flush, index=index) for number in range(3)]
        return measure(name, run, bytes_per_operation=body_bytes)
    finally:
        shutil.rmtree(folder)


def _batches(name: str, body_bytes: int, total: int) -> Row:
    messages = drafts(body_bytes, 32)
    batch = Batch.of(BatchItem(each.body, each.properties) for each in messages)

    def run() -> int:
        store = stores.pop()
        for _ in range(total // 32):
            store.stage_batch(messages[0], batch)
            store.commit()
        return total // 32 * 32

    folder = Path(tempfile.mkdtemp(prefix="pyromq-bench-"))
    try:
        stores = [_store(folder / str(number), Flush.ASYNC, index=False) for number in range(3)]
        return measure(name, run, bytes_per_operation=body_bytes)
    finally:
        shutil.rmtree(folder)


def _raw_fsync() -> Row:
    """What the disk itself allows: 4 KiB written and synced, nothing else."""
    with tempfile.TemporaryFile() as file:

        def run() -> int:
            until, count = time.monotonic() + 1, 0
            while time.monotonic() < until:
                os.pwrite(file.fileno(), b"x" * 4096, 4096 * count)
                os.fdatasync(file.fileno())
                count += 1
            return count

        return measure("raw disk: write 4 KiB and fdatasync", run)
