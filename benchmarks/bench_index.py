"""Key index: keys added in bulk, lookups by key."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from random import Random

from benchmarks.bench_append import drafts
from benchmarks.measure import Row, measure
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import Flush, StoreSettings
from pyromq.wire.record import Draft

MESSAGES = 100_000


def rows() -> list[Row]:
    folder = Path(tempfile.mkdtemp(prefix="pyromq-bench-"))
    try:
        store = MessageStore.open(folder, StoreSettings(flush=Flush.ASYNC, index_backlog_max=1 << 40))
        messages = [
            Draft(
                topic="orders",
                queue_id=0,
                body=b"x" * 100,
                properties=draft.properties + b"KEYS\x01order-%d\x02" % number,
            )
            for number, draft in enumerate(drafts(1, MESSAGES))
        ]
        store.append(messages)

        def index() -> int:
            store.index_keys()
            return 2 * MESSAGES

        added = measure("keys added in bulk (two per message)", index, repeat=1)
        rng = Random(1)
        wanted = [f"order-{rng.randrange(MESSAGES)}" for _ in range(20_000)]

        def look_up() -> int:
            for key in wanted:
                assert store.find("orders", key, count_max=1)
            return len(wanted)

        found = measure("lookups by key, record verified", look_up)
        store._release()
        return [added, found]
    finally:
        shutil.rmtree(folder)
