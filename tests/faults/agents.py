"""Brokers under failover agents: nobody makes a replica the master by hand, the lease decides.

    machine = broker and agent; agent ──▶ a proxy for each node ──▶ lease store
    replica ──▶ 127.0.0.2:port of the master, and its port for replicas, each through a proxy of the master

A master that comes back, or goes on after a pause, becomes a replica by itself; what it has beyond the new master's log
is cut and kept.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pyromq.aio import Admin
from pyromq.broker.base.settings import BrokerSettings
from pyromq.cli.servers.failover import FailoverFlags
from pyromq.errors import MQError
from pyromq.failover.opening import open_lease_store
from pyromq.failover.record import BrokerStatus, LeaseRecord
from pyromq.failover.store import LeaseStore
from pyromq.failover.switching import switch
from pyromq.net import Address
from pyromq.replication.settings import ReplicationSettings, Role
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import StoreSettings
from pyromq.wire.json.membership import MemberRole
from tests.faults.broker_worker import AgentPlan, WorkerProcess, disk_after_power, serve_agent
from tests.faults.cluster import CLIENTS_HOST, REPLICATION, STORE, Cluster, Member, ids_in
from tests.faults.lease_servers import LeaseServer
from tests.faults.load import BROKER
from tests.faults.proxy import BOTH, Proxy

_LOOK_AGAIN_S: Final = 0.05
_PATIENCE_S: Final = 120


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast members notice things."""

    lease_s: float
    replication: ReplicationSettings
    register_interval_ms: int

    @property
    def longer_s(self) -> float:
        """A time that is longer than a lease and what others wait beyond it."""
        return self.lease_s * 1.5


BRISK: Final = Pace(6.0, REPLICATION, 1_000)  # a busy machine renews a lease of 6 s all the same
DEFAULT: Final = Pace(FailoverFlags().lease, ReplicationSettings(), BrokerSettings().register_interval_ms)


class ManagedMember(Member):
    """A machine with a broker and its agent; ``powered``: its disk is in memory, and loses what was not flushed."""

    def __init__(
        self,
        folder: Path,
        number: int,
        leases: LeaseServer,
        pace: Pace,
        *,
        powered: bool = False,
        store: StoreSettings = STORE,
    ) -> None:
        super().__init__(folder, f"member-{number}", store)
        self.number, self.pace = number, pace
        self._server = leases
        self._agent: WorkerProcess | None = None
        self.agent_log = folder / f"{self.name}-agent.log"
        self.leases = tuple(Proxy(each) for each in leases.addresses)
        self.replicas = Proxy(self.replication_address, host=CLIENTS_HOST, port=self.replication_address.port)
        self.cluster = ""
        self.agent_environment: dict[str, str] = {}
        if powered:
            self.image = folder / f"{self.name}.image"
            self.folder = Path("/") / self.name

    @property
    def proxies(self) -> tuple[Proxy, ...]:
        return *super().proxies, *self.leases, self.replicas

    @property
    def lease_url(self) -> str:
        return self._server.url([proxy.address for proxy in self.leases])

    @property
    def public_address(self) -> str:
        """What the lease calls it."""
        return f"{CLIENTS_HOST}:{self.address.port}"

    def settings(self, role: Role, broker_id: int) -> dict[str, Any]:
        """A replica's id is its own, whichever was asked for."""
        given = {**super().settings(role, broker_id), "cluster": self.cluster}
        given["broker_id"] = 1 + self.number if role is Role.REPLICA else 0
        given["register_interval_ms"] = self.pace.register_interval_ms
        given["replication"] = replace(
            self.pace.replication,
            role=role,
            port=self.replication_address.port,
            advertised_host=CLIENTS_HOST,
            managed=True,
            replica_id=1 + self.number,
        )
        return given

    async def start(self, role: Role, broker_id: int) -> None:
        await super().start(role, broker_id)
        await self.start_agent()

    async def start_agent(self) -> None:
        address = str(self.address)
        plan = AgentPlan(address, self.lease_url, self.pace.lease_s, self.agent_log, self.agent_environment)
        self._agent = WorkerProcess(serve_agent, plan)
        assert await self._agent.answer(_PATIENCE_S) == "ready"

    @property
    def pids(self) -> dict[str, int]:
        return super().pids | ({f"{self.name} agent": self._agent.pid} if self._agent is not None else {})

    async def kill_agent(self) -> None:
        if self._agent is not None:
            agent, self._agent = self._agent, None
            await agent.kill()

    async def kill(self) -> None:
        """Broker and agent, in one moment: a broker that is about to be killed must not be told so by its agent."""
        await asyncio.gather(self.kill_agent(), super().kill())

    async def kill_broker(self) -> None:
        await super().kill()

    async def start_broker(self, role: Role, broker_id: int) -> None:
        await super().start(role, broker_id)

    async def lose_power(self, seed: int) -> None:
        assert self._process is not None
        await asyncio.gather(self.kill_agent(), self._process.last_words(f"power {seed}"))
        await super().kill()

    def _signal(self, number: signal.Signals) -> None:
        for process in (self._process, self._agent):
            assert process is not None
            os.kill(process.pid, number)

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def isolate(self) -> None:
        """Its packets, and those that are meant for it, are dropped: nobody is told, nothing is reset."""
        for proxy in (self.clients, self.names, self.replicas, *self.leases):
            proxy.swallow(*BOTH)

    @property
    def log(self) -> str:
        return super().log + (self.agent_log.read_text(errors="replace") if self.agent_log.exists() else "")

    async def stored_ids(self) -> set[str]:
        if self.image is None:
            return await super().stored_ids()
        await self.tell("image")
        return await asyncio.to_thread(self._ids_in_image, self.image)

    def _ids_in_image(self, image: Path) -> set[str]:
        with MessageStore.open(self.folder, STORE, disk=disk_after_power(image)) as store:
            return ids_in(store)


class ManagedCluster(Cluster):
    """Two machines or more; the master comes first in ``members``, once ``sort`` has looked."""

    def __init__(self, members: Sequence[ManagedMember], role: Role, leases: LeaseServer) -> None:
        super().__init__(members, role)
        self.machines = tuple(members)
        self.leases = leases
        self.pace = members[0].pace
        self.name = f"rounds-{members[0].address.port}"  # of its own: the lease of an earlier life says nothing
        for member in members:
            member.cluster = self.name

    def machine(self, member: Member) -> ManagedMember:
        return next(each for each in self.machines if each is member)

    @property
    def leader(self) -> ManagedMember:
        """The machine of the master."""
        return self.machine(self.master)

    @property
    def followers(self) -> list[ManagedMember]:
        return [each for each in self.machines if each is not self.master]

    async def start(self, names: Address) -> None:
        self.nameserver = str(names)
        for number, member in enumerate(self.members):
            member.names.target = names
            await member.start(Role.REPLICA if number else self.role, number)
        await self.in_sync()

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[LeaseStore]:
        store = open_lease_store(self.leases.url(self.leases.addresses), self.name, BROKER)
        try:
            yield store
        finally:
            await store.close()

    async def record(self) -> LeaseRecord | None:
        async with self._opened() as store:
            found = await store.read()
        return found.record if found else None

    async def status(self, member: Member) -> BrokerStatus | None:
        return await self._status_of(str(member.address))

    async def _status_of(self, address: str) -> BrokerStatus | None:
        async with Admin(self.nameserver) as admin:
            try:
                return await admin.replication.status(address)
            except MQError:
                return None

    async def switch_to(self, member: ManagedMember) -> None:
        """A planned change, as ``pyromq cluster switch`` makes it. Raises LeaseError."""
        async with self._opened() as store:
            async for _ in switch(store, self._status_of, member.public_address):
                pass
        await self.sort()

    async def in_sync(self, count: int = 0) -> None:
        """The record names all members, or so many."""
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                record = await self.record()
                if record is not None and len(record.in_sync) >= (count or len(self.members)):
                    return
                await asyncio.sleep(_LOOK_AGAIN_S)

    async def fail_over(self) -> None:
        """Until another broker may acknowledge; one that was not in sync must not, and the old one is started."""
        old = self.leader
        if not await self.other_takes_over():
            if not old.is_running:
                await old.start(Role.REPLICA, 1)
            await self.sort()

    async def other_takes_over(self) -> bool:
        """Another member is the master now; False when none was in sync, and all wait for the old one."""
        old = self.leader
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                for member in self.followers:
                    if await self._is_master(member):
                        self._put_first(member)
                        return True
                record = await self.record()
                if record is not None and not set(record.in_sync) - {old.public_address}:
                    return False
                await asyncio.sleep(_LOOK_AGAIN_S)

    async def _is_master(self, member: Member) -> bool:
        status = await self.status(member) if member.is_running else None
        return status is not None and status.role is MemberRole.MASTER and status.granted_s > 0

    async def has_master(self) -> Member:
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                for member in self.members:
                    if await self._is_master(member):
                        return member
                await asyncio.sleep(_LOOK_AGAIN_S)

    async def sort(self) -> None:
        """Any of them may be master by now."""
        self._put_first(await self.has_master())

    def _put_first(self, master: Member) -> None:
        self.members.sort(key=lambda each: each is not master)

    async def come_back(self) -> None:
        for member in self.members:
            if not member.is_running:
                await member.start(Role.REPLICA, 1)
        await self.in_sync()

    async def restart_both(self) -> None:
        await asyncio.gather(*(member.start(Role.REPLICA, 1) for member in self.members))  # the lease says who is what
        await self.sort()
        await self.in_sync()


def managed(
    folder: Path,
    leases: LeaseServer,
    *,
    count: int = 2,
    pace: Pace = BRISK,
    powered: bool = False,
    store: StoreSettings = STORE,
) -> list[ManagedMember]:
    folder.mkdir(parents=True, exist_ok=True)
    return [ManagedMember(folder, number, leases, pace, powered=powered, store=store) for number in range(count)]
