"""Changes of role: how long they take, and for how long the loop is blocked at most, on logs of several sizes.

``python -m benchmarks.bench_roles``: a broker opens a filled store, becomes a replica and a master again, some times.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from benchmarks.measure import machine
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.broker import Broker
from pyromq.replication.settings import ReplicationSettings, Role
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import Flush, StoreSettings
from pyromq.wire.record import Draft

TURNS = 3
SIZES = ((1, 8), (100, 8), (1_000, 8))  # topics, queues of each
LOG_BYTES = 1 << 29


def fill(folder: Path, topics: int, queues: int) -> int:
    """Messages of 1 KiB over all queues; returns how many."""
    store = MessageStore.open(folder, StoreSettings(flush=Flush.ASYNC))
    body, count = b"x" * 1024, 0
    while store.end_position < LOG_BYTES:
        store.append(
            [
                Draft(topic=f"topic-{number // queues}", queue_id=number % queues, body=body)
                for number in range(count % (topics * queues), min(count % (topics * queues) + 256, topics * queues))
            ]
        )
        count += 256
    store.close()
    return count


async def blocked_s(work: Callable[[], Coroutine[Any, Any, None]]) -> tuple[float, float]:
    """How long it took, and the longest that a timer of the loop was late meanwhile."""
    worst = 0.0

    async def tick() -> None:
        nonlocal worst
        while True:
            due = time.perf_counter() + 0.001
            await asyncio.sleep(0.001)
            worst = max(worst, time.perf_counter() - due)

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0.05)
    worst, begun = 0.0, time.perf_counter()
    await work()
    took = time.perf_counter() - begun
    ticking.cancel()
    return took, worst


async def turns(folder: Path) -> list[tuple[str, float, float]]:
    logging.disable(logging.ERROR)
    settings = BrokerSettings(
        port=0,
        vip_port=False,
        replication=ReplicationSettings(role=Role.SYNC_MASTER, port=0, master_address="127.0.0.1:1"),
    )
    broker, found = Broker(settings, folder), []
    await broker.start()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)  # as a broker process does (``standalone``)
    try:
        for _ in range(TURNS):
            for role, number in ((Role.REPLICA, 1), (Role.SYNC_MASTER, 0)):
                took, worst = await blocked_s(lambda role=role, number=number: broker.change_role(role, number))  # type: ignore[misc]
                found.append((role.value, took, worst))
    finally:
        await broker.stop()
    return found


def main() -> None:
    print(machine())
    print(f"{'topics × queues':>18} {'becomes':>12} {'took, ms':>9} {'loop blocked at most, ms':>25}")
    for topics, queues in SIZES:
        folder = Path(tempfile.mkdtemp(prefix="pyromq-bench-"))
        try:
            fill(folder, topics, queues)
            for role, took, worst in asyncio.run(turns(folder)):
                print(f"{topics:>12} × {queues:<3} {role:>12} {took * 1e3:9.0f} {worst * 1e3:25.1f}", flush=True)
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
