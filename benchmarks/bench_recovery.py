"""Recovery: how fast a log is scanned, verified and dispatched again after a crash and after a clean stop."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.bench_append import drafts
from benchmarks.measure import Row
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import Flush, StoreSettings

LOG_BYTES = 1 << 30
SETTINGS = StoreSettings(flush=Flush.ASYNC, seal_bytes=1 << 60)


def rows(log_bytes: int = LOG_BYTES) -> list[Row]:
    label = f"{log_bytes / (1 << 30):.2g} GiB of 1 KiB messages"
    with filled_store(log_bytes) as folder:
        crashed = _open_times(f"after a crash, {label}", folder, forget_derived=False)
        nothing_left = _open_times(f"… with queues and index lost, {label}", folder, forget_derived=True)
        MessageStore.open(folder, SETTINGS).close()
        clean = _open_times(f"after a clean stop, {label}", folder, forget_derived=False)
        return [crashed, nothing_left, clean]


@contextmanager
def filled_store(log_bytes: int) -> Iterator[Path]:
    """A store whose process ended without closing it, sealed when it was empty."""
    folder = Path(tempfile.mkdtemp(prefix="pyromq-bench-"))
    try:
        store = MessageStore.open(folder, SETTINGS)
        messages = drafts(1024, 256)
        while store.end_position < log_bytes:
            store.append(messages)
        store.indexer.index_all()
        store.flush()
        store._release()  # as the kernel does with a killed process
        yield folder
    finally:
        shutil.rmtree(folder)


def _open_times(name: str, folder: Path, *, forget_derived: bool) -> Row:
    """Open a copy of the folder's derived state; the log itself is shared, nothing in it changes."""
    best: Row | None = None
    for _ in range(2):
        work = Path(tempfile.mkdtemp(prefix="pyromq-bench-"))
        try:
            shutil.copytree(folder, work, dirs_exist_ok=True, copy_function=_clone)
            if forget_derived:
                shutil.rmtree(work / "consumequeue")
                shutil.rmtree(work / "index")
            wall, cpu = time.perf_counter(), time.process_time()
            store = MessageStore.open(work, SETTINGS)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            scanned = max(1, store.end_position - store.recovered.scanned_from)
            records = max(1, store.recovered.records)
            store._release()
            row = Row(name, cpu / records * 1e6, records / wall, scanned / wall / 1e6 if scanned > 1 else None)
            best = row if best is None or row.cpu_us < best.cpu_us else best
        finally:
            shutil.rmtree(work)
    assert best is not None
    return best


def _clone(source: str, target: str) -> None:
    if "/commitlog/" in source:
        Path(target).hardlink_to(source)
    else:
        shutil.copy2(source, target)
