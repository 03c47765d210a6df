"""Key index: keys added in bulk, lookups by key."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from random import Random

from benchmarks.measure import Row, measure
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import Flush, StoreSettings
from pyromq.wire.record import Draft

MESSAGES = 50_000
_UNIQUE_KEYS = {
    "ids of one client": "7F0000010B3C18B4AAC2{0:012X}",
    "keys of a Spark sink": "0123456789ABCDEF0123456789ABCDEF{0:08X}FEDCBA9876543210",
    "keys with nothing in common": "{1:032X}",
}


def rows() -> list[Row]:
    found = []
    for name, layout in _UNIQUE_KEYS.items():
        found.append(_added(f"messages indexed, {name}", layout, ""))
        found.append(_added("… with a second key", layout, "KEYS\x01order-{0}\x02"))
    return [*found, _lookups()]


def _messages(unique_key: str, second: str) -> list[Draft]:
    rng = Random(1)
    layout = f"UNIQ_KEY\x01{unique_key}\x02WAIT\x01true\x02TAGS\x01TagA\x02{second}"
    texts = [layout.format(number, rng.getrandbits(128)) for number in range(MESSAGES)]
    return [Draft(topic="orders", queue_id=0, body=b"x" * 100, properties=text.encode()) for text in texts]


def _added(name: str, unique_key: str, second: str) -> Row:
    """As a busy broker does it: some thousand messages at a time, into one file."""
    folder = Path(tempfile.mkdtemp(prefix="pyromq-bench-"))
    try:
        store = MessageStore.open(folder, StoreSettings(flush=Flush.ASYNC, index_backlog_max=1 << 40))
        messages = _messages(unique_key, second)
        store.append(messages)
        store.indexer.index_all()  # the file is there, its pages were touched

        def index() -> int:
            store.indexer.index_all()
            return MESSAGES

        taken = []
        for _ in range(3):
            store.append(messages)
            taken.append(measure(name, index, repeat=1))
        store._release()
        return min(taken, key=lambda row: row.cpu_us)
    finally:
        shutil.rmtree(folder)


def _lookups() -> Row:
    folder = Path(tempfile.mkdtemp(prefix="pyromq-bench-"))
    try:
        store = MessageStore.open(folder, StoreSettings(flush=Flush.ASYNC, index_backlog_max=1 << 40))
        store.append(_messages("{1:032X}", "KEYS\x01order-{0}\x02"))
        store.indexer.index_all()
        rng = Random(1)
        wanted = [f"order-{rng.randrange(MESSAGES)}" for _ in range(20_000)]

        def look_up() -> int:
            for key in wanted:
                assert store.find("orders", key, count_max=1)
            return len(wanted)

        found = measure("lookups by key, record verified", look_up)
        store._release()
        return found
    finally:
        shutil.rmtree(folder)
