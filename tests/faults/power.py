"""A broker in this process on a disk in memory, whose machine can lose its power: what was not flushed is gone.

``kill`` is the power cut. In one loop iteration all connections end and the disk is taken as it is durable then, with
some of the rest at random (``CrashMode.MIX``) or without it; whatever the broker does afterwards reaches nobody.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.broker import Broker
from pyromq.replication.settings import Role
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import Flush, StoreSettings
from pyromq.testing import CrashMode, FaultyDisk
from tests.faults.cluster import STORE, Member, ids_in


class PoweredMember(Member):
    """Its folder is on its own disk, which outlives it."""

    def __init__(self, folder: Path, name: str, store: StoreSettings, rng: Random) -> None:
        super().__init__(folder, name, store)
        self.folder = Path("/") / name
        self._rng = rng
        self._disk = FaultyDisk()
        self._broker: Broker | None = None
        self.loses_unflushed = store.flush is Flush.ASYNC

    async def start(self, role: Role, broker_id: int) -> None:
        for proxy in (self.clients, self.names, self.master, self.master_log):
            proxy.heal()
        settings = BrokerSettings(**self.settings(role, broker_id))
        self._broker = Broker(settings, self.folder, disk=self._disk, rng=self._rng)
        await self._broker.start()

    @property
    def is_running(self) -> bool:
        return self._broker is not None

    async def tell(self, command: str) -> None:
        match command.split():
            case "role", name, number:
                assert self._broker is not None
                await self._broker.change_role(Role(name), int(number))
            case _:
                raise NotImplementedError(command)

    async def stop(self) -> None:
        if self._broker is not None:
            broker, self._broker = self._broker, None
            await broker.stop()

    async def kill(self) -> None:
        if self._broker is None:
            return
        for proxy in self.proxies:
            proxy.part()
        mode = self._rng.choice((CrashMode.FORGET, CrashMode.MIX))
        self._disk = self._disk.after_crash(mode, self._rng)
        await self.stop()  # of a machine that is gone: nobody hears it, and its disk is another one

    def begin_anew(self, number: int) -> None:
        self._disk = FaultyDisk()

    async def stored_ids(self) -> set[str]:
        disk = self._disk.after_crash(CrashMode.KEEP)
        with MessageStore.open(self.folder, STORE, disk=disk) as store:
            return ids_in(store)


def two_machines(folder: Path, seed: str, flush: Flush = Flush.SYNC) -> list[Member]:
    store = replace(STORE, flush=flush)
    return [PoweredMember(folder, name, store, Random(f"{seed} {name}")) for name in ("first", "second")]
