"""Machines whose brokers keep their files on a forgetful mount: real processes that can lose their power."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

from pyromq.store.settings import StoreSettings
from tests.faults.agents import DEFAULT, ManagedMember, Pace
from tests.faults.cluster import STORE
from tests.faults.forgetful.mount import ForgetfulMount
from tests.faults.forgetful.volume import PowerLoss
from tests.faults.lease_servers import LeaseServer


class MountedMember(ManagedMember):
    """A broker and its agent; the broker's folder is on a volume of its own."""

    def __init__(
        self, folder: Path, number: int, leases: LeaseServer, pace: Pace, mount: ForgetfulMount, store: StoreSettings
    ) -> None:
        super().__init__(folder, number, leases, pace, store=store)
        self.mount = mount
        self.folder = mount.folder / "store"
        self.powers_lost: list[PowerLoss] = []

    async def lose_power(self, seed: int) -> None:
        """kill -9 of both processes, then everything is forgotten that they had not flushed."""
        await self.kill()
        mode = Random(seed).choice(list(PowerLoss))
        self.powers_lost.append(mode)
        await asyncio.to_thread(self.mount.lose_power, mode, seed)


@contextmanager
def mounted(
    folder: Path, leases: LeaseServer, *, count: int = 3, pace: Pace = DEFAULT, store: StoreSettings = STORE
) -> Iterator[list[ManagedMember]]:
    """Members of one set, each with a mount; they have to be dead when the block ends. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        mounts = [stack.enter_context(ForgetfulMount(folder / f"disk-{number}")) for number in range(count)]
        yield [MountedMember(folder, number, leases, pace, mount, store) for number, mount in enumerate(mounts)]
