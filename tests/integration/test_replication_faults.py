"""Disks that fail, on either side: what a replica has is never more than its master keeps, nor claimed in vain."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from pyromq import Message
from pyromq.replication.follower import Following
from pyromq.replication.settings import Role
from pyromq.results import SendStatus
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import Flush
from pyromq.testing import CrashMode, FaultyDisk
from pyromq.testing.faulty_disk import FaultyFile
from tests.integration.replication_pair import SMALL, a_pair
from tests.integration.test_replication import log_bytes, same_stores
from tests.integration.waiting import until

pytestmark = pytest.mark.integration

ASYNC = replace(SMALL, flush=Flush.ASYNC)


class HeldDisk(FaultyDisk):
    """Syncs wait while they are held."""

    def __init__(self) -> None:
        super().__init__()
        self._free = threading.Event()
        self._free.set()
        self.waiting = 0
        self.before_each(self._wait)

    def _wait(self, kind: str) -> None:
        if kind == "sync" and threading.current_thread() is not threading.main_thread():
            self.waiting += 1
            self._free.wait(60)
            self.waiting -= 1

    @contextmanager
    def held(self) -> Iterator[None]:
        self._free.clear()
        try:
            yield
        finally:
            self._free.set()


class _SteadyFile(FaultyFile):
    def sync(self) -> None:
        disk = self._disk
        assert isinstance(disk, SteadyDisk)
        with disk.looking:
            super().sync()


class SteadyDisk(FaultyDisk):
    """What threads do to it waits while a test looks: a crash is one moment, and the same for all files."""

    def __init__(self) -> None:
        super().__init__()
        self.looking = threading.RLock()

    def open(self, path: Path, *, writable: bool = True) -> FaultyFile:
        return _steady(super().open(path, writable=writable))

    def create(self, path: Path, size: int, *, reserve_bytes: int = 0, sync_folders: bool = True) -> FaultyFile:
        with self.looking:
            return _steady(super().create(path, size, reserve_bytes=reserve_bytes, sync_folders=sync_folders))

    def write(self, path: Path, data: bytes) -> None:
        with self.looking:
            super().write(path, data)

    def rename(self, old: Path, new: Path) -> None:
        with self.looking:
            super().rename(old, new)

    def sync_folder(self, path: Path) -> None:
        with self.looking:
            super().sync_folder(path)


def _steady(file: FaultyFile) -> FaultyFile:
    file.__class__ = _SteadyFile
    return file


async def test_a_replica_does_not_get_what_is_not_on_its_masters_disk(tmp_path: Path) -> None:
    disk = HeldDisk()
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        master = await pair.start_master(Role.ASYNC_MASTER, store=ASYNC, disk=disk)
        replica = await pair.start_replica(store=ASYNC, replica_reads=True)
        await producer.send(Message("orders", b"1"))
        await pair.caught_up()
        with disk.held():
            receipt = await producer.send(Message("orders", b"2"))
            assert receipt.status is SendStatus.SEND_OK, "with async flush it is answered at once"
            await until(lambda: disk.waiting, "the disk is slow")
            durable = master.store.flushed_position
            assert master.store.end_position > durable
            assert [each.sent for each in pair.leader.replicas] == [durable]
            assert replica.store.end_position == durable == replica.store.visible_end
        await pair.caught_up()
        same_stores(master, replica)


@pytest.mark.parametrize("flush", list(Flush))
async def test_a_crash_of_the_master_takes_back_nothing_that_a_replica_has(tmp_path: Path, flush: Flush) -> None:
    """Power fails at the master, at many moments, while messages come."""
    rng, disk, store = Random(20_261_116), SteadyDisk(), replace(SMALL, flush=flush)
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        await pair.start_master(Role.ASYNC_MASTER, store=store, disk=disk)
        replica = await pair.start_replica(store=store)
        sends: list[asyncio.Task[object]] = []
        for moment in range(12):
            sends += [
                asyncio.ensure_future(producer.send(Message("orders", rng.randbytes(rng.randrange(1, 2_000)))))
                for _ in range(10)
            ]
            for _ in range(rng.randrange(30)):
                await asyncio.sleep(0)
            shown = log_bytes(replica.store)
            with disk.looking:
                after = disk.after_crash(CrashMode.FORGET if moment % 2 else CrashMode.MIX, rng)
            with MessageStore.open(tmp_path / "master", store, disk=after) as recovered:
                assert log_bytes(recovered)[: len(shown)] == shown, moment
        await asyncio.gather(*sends)
        await pair.caught_up()


async def test_a_replica_whose_disk_cannot_be_trusted_confirms_nothing(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        master = await pair.start_master()
        replica = await pair.start_replica(disk=disk)
        await until(lambda: pair.leader.replicas.in_sync(pair.leader.end), "in sync")
        assert (await producer.send(Message("orders", b"1"))).status is SendStatus.SEND_OK
        confirmed = replica.store.flushed_position
        disk.fail_syncs()
        sent = await asyncio.gather(*(producer.send(Message("orders", b"%d" % number)) for number in range(20)))
        assert SendStatus.SEND_OK not in {receipt.status for receipt in sent}, "no disk but the master's has them"
        await until(lambda: pair.follower.state is Following.WAITING, "it stops to follow")
        assert "check the disk" in pair.follower.reason and not replica.store.health.trusted
        assert replica.store.flushed_position == confirmed
        assert pair.leader.replicas.in_sync(pair.leader.end) == []
        assert log_bytes(master.store).startswith(log_bytes(replica.store))


async def test_a_disk_that_is_stuck_holds_its_confirmations_back_and_nothing_else(tmp_path: Path) -> None:
    disk = HeldDisk()
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        master = await pair.start_master(confirm_timeout_ms=300)
        replica = await pair.start_replica(disk=disk)
        await until(lambda: pair.leader.replicas.in_sync(pair.leader.end), "in sync")
        with disk.held():
            receipt = await producer.send(Message("orders", b"1"))
            assert receipt.status is SendStatus.FLUSH_SLAVE_TIMEOUT
            await until(lambda: replica.store.end_position == master.store.end_position, "written, not on disk")
            assert replica.store.visible_end < replica.store.end_position, "nor shown"
            assert pair.follower.attached.is_set(), "it still follows"
        await until(lambda: pair.leader.replicas.confirmed(pair.leader.end) == pair.leader.end, "confirmed, late")
        same_stores(master, replica)
