"""Seals whose long part runs on a worker, and what happens to the store meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq.store.message_store import MessageStore
from pyromq.store.sealing.seal import load_seal
from pyromq.store.settings import StoreSettings
from pyromq.testing import CrashMode, FaultyDisk, ManualClock
from pyromq.wire.record import Draft

ROOT = Path("/data")
SETTINGS = StoreSettings(segment_bytes=4096, queue_file_entries=8, index_slots=16, index_entries=64)


def put(store: MessageStore, *topics: str) -> None:
    store.append([Draft(topic=topic, queue_id=0, body=b"x", properties=b"") for topic in topics])
    store.flush()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    """On a real disk: files that are closed there cannot be synced any more."""
    with MessageStore.open(tmp_path, SETTINGS) as opened:
        yield opened


def test_a_topic_that_is_deleted_under_a_seal_does_no_harm(store: MessageStore) -> None:
    put(store, "orders", "bills")
    job = store.seals.job()
    assert job is not None
    store.delete_topic("orders")
    job.sync()
    assert not job.save()
    assert store.health.writable and store.seal()


def test_a_deletion_between_save_and_its_news_is_not_forgotten() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    store = MessageStore.open(ROOT, SETTINGS, disk=disk, clock=clock)
    put(store, "orders", "bills", "letters")
    job = store.seals.job()
    assert job is not None
    job.sync()
    assert job.save()
    store.delete_topic("orders")
    store.seals.finish(job, None)
    store.delete_topic("bills")
    disk = disk.after_crash(CrashMode.FORGET)
    with MessageStore.open(ROOT, SETTINGS, disk=disk, clock=clock) as reopened:
        assert set(reopened.queues) == {("letters", 0)}


def test_a_seal_speaks_only_of_what_is_synced_though_another_is_under_way() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    store = MessageStore.open(ROOT, SETTINGS, disk=disk, clock=clock)
    put(store, "orders")
    under_way = store.seals.job()
    assert under_way is not None and store.seal()
    disk = disk.after_crash(CrashMode.FORGET)
    with MessageStore.open(ROOT, SETTINGS, disk=disk, clock=clock) as reopened:
        assert reopened.recovered.rebuilt == []


def test_an_older_seal_does_not_replace_a_newer_one() -> None:
    disk = FaultyDisk()
    store = MessageStore.open(ROOT, SETTINGS, disk=disk, clock=ManualClock())
    put(store, "orders")
    older = store.seals.job()
    assert older is not None
    older.sync()
    put(store, "orders")
    assert store.seal()
    assert not older.save()
    seal = load_seal(disk, ROOT)
    assert seal is not None and seal.position == store.seals.position == store.end_position
