"""Files of a store are their owner's, and a log file that another program takes away is noticed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq.errors import UntrustedDiskError
from pyromq.store.files.disk import RealDisk
from pyromq.store.maintenance import Maintenance
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import Flush, StoreSettings
from pyromq.store.tables.topics import TopicTable
from pyromq.testing import FaultyDisk, ManualClock
from pyromq.wire.record import Draft

ROOT = Path("/data")
SIZES = StoreSettings(segment_bytes=4_096, queue_file_entries=8, index_slots=8, index_entries=40, full_percent=100)


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_folders_and_files_are_for_their_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    root = tmp_path / "new" / "store"
    with MessageStore.open(root, SIZES) as store:
        store.append([Draft(topic="orders", queue_id=0, body=b"x" * 3_000, properties=b"KEYS\x01k\x02")] * 3)
        store.seal()
        TopicTable.load(RealDisk(), root).save()
        names = sorted(root.rglob("*"))
        kinds = {path.is_dir(): set[int]() for path in names}
        for path in (root, *names):
            kinds[path.is_dir()].add(path.stat().st_mode & 0o777)
    assert kinds == {True: {0o700}, False: {0o600}}
    assert len(names) > 8


def taken_away(root: Path, store: MessageStore, how: str) -> None:
    if how == "removed":
        store.log.segments.last.path.unlink()
    elif how == "renamed":
        store.log.segments.last.path.rename(root / "elsewhere")
    elif how == "replaced":
        path = store.log.segments.last.path
        path.unlink()
        path.write_bytes(bytes(4_096))
    elif how == "folder renamed":
        (root / "commitlog").rename(root / "elsewhere")
    else:
        store.log.segments.first.path.unlink()


@pytest.mark.parametrize("how", ["removed", "renamed", "replaced", "folder renamed", "older removed"])
def test_a_log_file_that_is_taken_away_makes_the_store_read_only(
    how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock, root = ManualClock(), tmp_path / "store"
    store = MessageStore.open(root, SIZES, clock=clock)
    maintenance = Maintenance(store, RealDisk(), clock)
    for _ in range(4):
        store.append([Draft(topic="orders", queue_id=0, body=b"x" * 3_000)])
    store.flush()
    maintenance.tick()
    assert store.health.trusted
    taken_away(root, store, how)
    for _ in range(4):  # of older files one is looked for in each look
        clock.advance_ms(1_000)
        maintenance.tick()
    assert not store.health.trusted and "removed or renamed by another program" in caplog.text
    with pytest.raises(UntrustedDiskError, match="another program"):
        store.append([Draft(topic="orders", queue_id=0, body=b"y")])
    store._release()


@pytest.mark.parametrize("flush", list(Flush))
def test_no_flush_of_a_removed_file_counts(flush: Flush) -> None:
    disk = FaultyDisk()
    store = MessageStore.open(ROOT, StoreSettings(flush=flush, segment_bytes=4_096), disk=disk, clock=ManualClock())
    store.append([Draft(topic="orders", queue_id=0, body=b"x")])
    store.flush()
    flushed = store.flushed_position
    disk.remove(store.log.segments.last.path)
    store.append([Draft(topic="orders", queue_id=0, body=b"y")])  # nobody has noticed yet
    with pytest.raises(UntrustedDiskError, match="removed"):
        store.flush()
    assert store.flushed_position == flushed
    with pytest.raises(UntrustedDiskError):
        store.append([Draft(topic="orders", queue_id=0, body=b"z")])


def test_a_flush_of_a_removed_file_fails_on_a_real_disk_too(tmp_path: Path) -> None:
    store = MessageStore.open(tmp_path / "store", SIZES)
    store.append([Draft(topic="orders", queue_id=0, body=b"x")])
    store.log.segments.last.path.unlink()
    with pytest.raises(UntrustedDiskError, match="removed"):
        store.flush()
    store._release()
