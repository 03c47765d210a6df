"""Brokers and their failover agents as processes, with a name server and a lease store; any of them can be killed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from pyromq.aio import Admin
from pyromq.errors import MQError
from pyromq.failover.opening import open_lease_store
from pyromq.failover.record import BrokerStatus, LeaseRecord, MemberRole
from pyromq.nameserver.server import NameServer
from pyromq.nameserver.settings import NameServerSettings
from pyromq.testing import AsyncServerProcess, free_port
from tests.integration.broker_process import SMALL
from tests.integration.waiting import PATIENCE_S

LEASE_S = 3.0
CLUSTER = "DefaultCluster"


class Member:
    """A broker and its agent."""

    def __init__(self, folder: Path, rig: FailoverRig, number: int, role: str, **settings: str) -> None:
        nameserver, store = rig.nameserver, rig.store
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.address = folder, f"127.0.0.1:{free_port()}"
        port = self.address.rpartition(":")[2]
        chosen = {
            **SMALL,
            "replication.replica_id": str(10 + number),
            "replication.port": str(free_port()),
            **{name.replace("__", "."): value for name, value in settings.items()},
        }
        assigned = [part for name, value in chosen.items() for part in ("--set", f"broker.{name}={value}")]
        broker_id = str(number) if role == "replica" else "0"
        self.broker = AsyncServerProcess(
            *("broker", "--data", str(folder / "store"), "--port", port, "--no-metrics", "--name", rig.name),
            *("--nameserver", nameserver, "--role", role, "--broker-id", broker_id, "--failover", "--log", "info"),
            *assigned,
        )
        self.agent = AsyncServerProcess(
            *("failover", "--store", store, "--broker", self.address, "--lease", str(rig.lease_s), "--log", "debug"),
        )

    async def start(self) -> None:
        await self.broker.start()
        await self.agent.start()

    def use(self, sources: Path | None) -> None:
        """Broker and agent are of these sources when they are started again; None: of those that run the tests."""
        for program in (self.broker, self.agent):
            program.set_environment(PYTHONPATH=str(sources or os.environ.get("PYTHONPATH", "")))

    async def stop(self) -> None:
        """As an operator does: the agent hands over if its broker is master, then the broker."""
        await self.agent.stop()
        await self.broker.stop()

    async def kill(self) -> None:
        await self.agent.kill()
        await self.broker.kill()

    def pause(self) -> None:
        self.broker.pause()
        self.agent.pause()

    def resume(self) -> None:
        self.broker.resume()
        self.agent.resume()


class FailoverRig:
    """``async with failover_rig(folder, store) as rig``: members run, and one of them is master."""

    def __init__(
        self, folder: Path, nameserver: str, store: str, *, roles: list[str], lease_s: float, **settings: str
    ) -> None:
        self.nameserver, self.store, self.lease_s = nameserver, store, lease_s
        self.name = f"broker-{free_port()}"  # a lease store serves many tests
        self.members = [
            Member(folder / f"member-{number}", self, number, kind, **settings) for number, kind in enumerate(roles)
        ]
        self.admin = Admin(nameserver)

    def use(self, sources: Path | None) -> None:
        """All members are of these sources when they are started."""
        for member in self.members:
            member.use(sources)

    async def __aenter__(self) -> Self:
        await self.admin.__aenter__()
        await asyncio.gather(*(member.start() for member in self.members))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self.members:
            await member.kill()
        await self.admin.__aexit__(kind, error, trace)
        if error is not None:
            for member in self.members:
                for program in (member.broker, member.agent):
                    error.add_note(f"--- {member.address}\n{program.log[-6_000:]}")

    def member(self, address: str) -> Member:
        return next(each for each in self.members if each.address == address)

    async def status(self, member: Member) -> BrokerStatus | None:
        try:
            return await self.admin.replication.status(member.address)
        except MQError:
            return None

    async def record(self) -> LeaseRecord | None:
        store = open_lease_store(self.store, CLUSTER, self.name)
        try:
            found = await store.read()
        finally:
            await store.close()
        return found.record if found else None

    async def master(self, *, but_not: Member | None = None, in_sync: int = 1) -> Member:
        """Once one may acknowledge, and the record names so many members that have everything."""
        for _ in range(round(PATIENCE_S / 0.05)):
            for member in self.members:
                if member is but_not or not member.broker.is_running:
                    continue
                status = await self.status(member)
                if status is not None and status.role is MemberRole.MASTER and status.granted_s > 0:
                    record = await self.record()
                    if record is None or record.holder != member.address or len(record.in_sync) < in_sync:
                        continue
                    if await self._leads(member):
                        return member
            await asyncio.sleep(0.05)
        raise AssertionError("no master")

    async def _leads(self, member: Member) -> bool:
        """Clients are sent there."""
        table = (await self.admin.brokers.cluster()).broker_addr_table
        return self.name in table and table[self.name].broker_addrs.get(0) == member.address

    async def addresses(self) -> dict[int, str]:
        """What name servers tell clients, by broker id."""
        return dict((await self.admin.brokers.cluster()).broker_addr_table[self.name].broker_addrs)

    async def bodies(self, topic: str) -> set[str]:
        """Everything that the master has of a topic."""
        found: set[str] = set()
        async with Admin(self.nameserver) as admin:  # with routes of its own: the other may not know the new master
            for queue, place in (await admin.topics.stats(topic)).items():
                found |= {
                    message.body.decode()
                    async for message in admin.messages.walk(queue, place.min_offset, place.max_offset)
                }
        return found

    async def caught_up(self, master: Member, replica: Member) -> None:
        """Once the replica has the whole log, on its disk."""
        for _ in range(round(PATIENCE_S / 0.05)):
            one, other = await self.status(master), await self.status(replica)
            if one is not None and other is not None and one.end == other.flushed:
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"{replica.address} does not catch up")

    async def follows(self, member: Member) -> BrokerStatus:
        """Once it follows the master under the newest lease."""
        for _ in range(round(PATIENCE_S / 0.05)):
            status, record = await self.status(member), await self.record()
            if status is not None and record is not None and status.role is MemberRole.REPLICA:
                if status.following == "FOLLOWING" and status.number == record.number == status.log_number:
                    return status
            await asyncio.sleep(0.05)
        raise AssertionError(f"{member.address} does not follow")


@asynccontextmanager
async def failover_rig(
    folder: Path,
    store: str,
    *,
    count: int = 2,
    role: str = "sync-master",
    lease_s: float = LEASE_S,
    sources: Path | None = None,
    **settings: str,
) -> AsyncIterator[FailoverRig]:
    """One master and replicas of it; ``store.flush`` and the like are given as ``store__flush``."""
    roles = [role, *["replica"] * (count - 1)]
    async with NameServer(NameServerSettings(port=0)) as names:
        rig = FailoverRig(folder, str(names.address), store, roles=roles, lease_s=lease_s, **settings)
        rig.use(sources)
        async with rig:
            yield rig
