"""A closed store: it keeps nothing of its queues in memory, and says so to whoever reads it."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from pyromq.errors import StoreClosedError
from pyromq.store.derived.consume_queue import ConsumeQueue, QueueSeal
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import StoreSettings
from pyromq.wire.record import Draft

QUEUES = 20


def test_queues_go_without_the_garbage_collector(tmp_path: Path) -> None:
    """A broker that changes its role leaves thousands: collecting them would hold up its loop."""
    gc.collect()
    before = _count()
    gc.disable()
    try:
        for _ in range(2):  # the second one finds a seal
            store = MessageStore.open(tmp_path, StoreSettings())
            store.append([Draft(topic="orders", queue_id=number, body=b"x") for number in range(QUEUES)])
            store.commit()
            assert _count() >= before + QUEUES
            store.close()
            assert _count() == before
    finally:
        gc.enable()


def _count() -> int:
    return sum(isinstance(each, ConsumeQueue | QueueSeal) for each in gc.get_objects())


def test_reads_are_refused_rather_than_answered_as_of_an_empty_queue(tmp_path: Path) -> None:
    store = MessageStore.open(tmp_path, StoreSettings())
    store.append([Draft(topic="orders", queue_id=0, body=b"x")])
    store.close()
    with pytest.raises(StoreClosedError):
        store.reader.range_of("orders", 0)
    with pytest.raises(StoreClosedError):
        store.reader.read("orders", 0, 0)
    with pytest.raises(StoreClosedError):
        store.reader.offset_by_time("orders", 0, 0)
