"""Brokers under failover agents: nobody makes a replica the master by hand, the lease decides.

    machine = broker and agent; agent ──▶ proxy ──▶ etcd
    replica ──▶ 127.0.0.2:port of the master, and its port for replicas, each through a proxy of the master

A master that comes back, or goes on after a pause, becomes a replica by itself; what it has beyond the new master's log
is cut and kept.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pyromq.aio import Admin
from pyromq.errors import MQError
from pyromq.failover.opening import open_lease_store
from pyromq.failover.record import BrokerStatus, LeaseRecord
from pyromq.net import Address
from pyromq.replication.settings import Role
from pyromq.store.settings import StoreSettings
from pyromq.wire.json.membership import Role as MemberRole
from tests.faults.broker_worker import AgentPlan, WorkerProcess, serve_agent
from tests.faults.cluster import CLIENTS_HOST, STORE, Cluster, Member
from tests.faults.load import BROKER
from tests.faults.proxy import Proxy, Way
from tests.faults.rounds import Fault, Round

LEASE_S: Final = 6.0  # a busy machine renews it all the same
LONGER_S: Final = LEASE_S * 1.5  # than a lease and what others wait beyond it
_LOOK_AGAIN_S: Final = 0.05
_PATIENCE_S: Final = 120


class ManagedMember(Member):
    """A machine with a broker and its agent."""

    def __init__(self, folder: Path, name: str, store: StoreSettings, lease_store: Address, number: int) -> None:
        super().__init__(folder, name, store)
        self._number = number
        self._agent: WorkerProcess | None = None
        self.agent_log = folder / f"{name}-agent.log"
        self.leases = Proxy(lease_store)
        self.replicas = Proxy(self.replication_address, host=CLIENTS_HOST, port=self.replication_address.port)
        self.promoted_role = Role.SYNC_MASTER
        self.cluster = ""

    @property
    def proxies(self) -> tuple[Proxy, ...]:
        return *super().proxies, self.leases, self.replicas

    @property
    def lease_url(self) -> str:
        return f"etcd:http://{self.leases.address}"

    @property
    def public_address(self) -> str:
        """What the lease calls it."""
        return f"{CLIENTS_HOST}:{self.address.port}"

    def settings(self, role: Role, broker_id: int) -> dict[str, Any]:
        given = {**super().settings(role, broker_id), "cluster": self.cluster}
        given["replication"] = replace(
            given["replication"],
            managed=True,
            promoted_role=self.promoted_role,
            replica_id=10 + self._number,
            master_address="",
            master_replication_address="",
        )
        return given

    async def start(self, role: Role, broker_id: int) -> None:
        await super().start(role, broker_id)
        await self.start_agent()

    async def start_agent(self) -> None:
        plan = AgentPlan(str(self.address), self.lease_url, LEASE_S, self.agent_log)
        self._agent = WorkerProcess(serve_agent, plan)
        assert await self._agent.answer(_PATIENCE_S) == "ready"

    async def kill_agent(self) -> None:
        if self._agent is not None:
            agent, self._agent = self._agent, None
            await agent.kill()

    async def kill(self) -> None:
        await self.kill_agent()
        await super().kill()

    async def kill_broker(self) -> None:
        await super().kill()

    async def start_broker(self, role: Role, broker_id: int) -> None:
        await super().start(role, broker_id)

    def pause(self) -> None:
        super().pause()
        assert self._agent is not None
        os.kill(self._agent.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        super().go_on()
        assert self._agent is not None
        os.kill(self._agent.pid, signal.SIGCONT)

    @property
    def log(self) -> str:
        return super().log + (self.agent_log.read_text(errors="replace") if self.agent_log.exists() else "")


class ManagedCluster(Cluster):
    def __init__(self, members: Sequence[ManagedMember], role: Role) -> None:
        super().__init__(members, role)
        self.machines = tuple(members)
        self.name = f"rounds-{members[0].address.port}"  # of its own: the lease of an earlier life says nothing
        for member in members:
            member.promoted_role, member.cluster = role, self.name

    def machine(self, member: Member) -> ManagedMember:
        return next(each for each in self.machines if each is member)

    async def record(self) -> LeaseRecord | None:
        store = open_lease_store(f"etcd:http://{self.machines[0].leases.target}", self.name, BROKER)
        try:
            found = await store.read()
        finally:
            await store.close()
        return found.record if found else None

    async def status(self, member: Member) -> BrokerStatus | None:
        async with Admin(self.nameserver) as admin:
            try:
                return await admin.member(str(member.address))
            except MQError:
                return None

    async def in_sync(self) -> None:
        """The record names both."""
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                record = await self.record()
                if record is not None and len(record.in_sync) == 2:
                    return
                await asyncio.sleep(_LOOK_AGAIN_S)

    async def fail_over(self) -> None:
        """Until the other broker may acknowledge; one that was not in sync must not, and the old one is started."""
        if not await self.other_takes_over():
            if not self.replica.is_running:
                await self.replica.start(Role.REPLICA, 1)
            await self.sort()

    async def other_takes_over(self) -> bool:
        """The replica is the master now; False when it was not in sync, and waits for the old one."""
        self.members.reverse()
        async with asyncio.timeout(_PATIENCE_S):
            while not await self._is_master(self.master):
                record, other = await self.record(), self.machine(self.master).public_address
                if record is not None and record.holder != other and other not in record.in_sync:
                    return False
                await asyncio.sleep(_LOOK_AGAIN_S)
        return True

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
        """Any of the two may be master by now."""
        if await self.has_master() is not self.master:
            self.members.reverse()

    async def come_back(self) -> None:
        if not self.replica.is_running:
            await self.replica.start(Role.REPLICA, 1)
        await self.in_sync()

    async def restart_both(self) -> None:
        for member in self.members:
            await member.start(Role.REPLICA, 1)  # the last lease says what it is
        await self.sort()
        await self.in_sync()


def two_managed(folder: Path, lease_store: str) -> list[ManagedMember]:
    folder.mkdir(parents=True, exist_ok=True)
    store = Address.parse(lease_store.rpartition("/")[2])
    return [ManagedMember(folder, name, STORE, store, number) for number, name in enumerate(("first", "second"))]


# --- what goes wrong ---


def _cluster(this: Round) -> ManagedCluster:
    assert isinstance(this.cluster, ManagedCluster)
    return this.cluster


async def machine_killed(this: Round) -> None:
    """Broker and agent, with kill -9."""
    await this.some_time()
    await this.kill_master()
    await this.take_over()


async def broker_killed(this: Round) -> None:
    """Its agent lives, and waits for it."""
    await this.some_time()
    await this.note_lag()
    cluster = _cluster(this)
    old = cluster.machine(cluster.master)
    await old.kill_broker()
    await _other_takes_over(this)
    await old.start_broker(Role.REPLICA, 1)
    await cluster.sort()
    await cluster.in_sync()
    await this.goes_on()


async def agent_killed(this: Round) -> None:
    """The broker lives, stops acknowledging before its lease ends, and becomes a replica when its agent is back."""
    await this.some_time()
    await this.note_lag()
    cluster = _cluster(this)
    old = cluster.machine(cluster.master)
    await old.kill_agent()
    await _other_takes_over(this)
    await old.start_agent()
    await cluster.sort()
    await cluster.in_sync()
    await this.goes_on()


async def machine_paused(this: Round) -> None:
    """SIGSTOP of broker and agent, longer than a lease; then they go on, as if nothing had happened."""
    await this.some_time()
    await this.note_lag()
    cluster = _cluster(this)
    old = cluster.machine(cluster.master)
    old.pause()
    await _other_takes_over(this)
    old.go_on()
    await cluster.sort()
    await cluster.in_sync()
    await this.goes_on()


async def master_cut_off_from_leases(this: Round) -> None:
    """Both ways, or one; it loses its lease while clients and replica still reach it."""
    await this.note_lag()
    cluster = _cluster(this)
    proxy = cluster.machine(cluster.master).leases
    if (chosen := this.rng.randrange(3)) == 0:
        proxy.part()
    else:
        proxy.swallow((Way.FORWARD, Way.BACK)[chosen - 1])
    await _other_takes_over(this)
    cluster.heal()
    await cluster.sort()
    await cluster.in_sync()
    await this.goes_on()


async def leases_away(this: Round) -> None:
    """The lease store is away for longer than a lease: nobody is master, then somebody is again."""
    await this.note_lag()
    cluster = _cluster(this)
    for machine in cluster.machines:
        machine.leases.part()
    await asyncio.sleep(LONGER_S)
    cluster.heal()
    this.loses_apart = True
    await cluster.sort()
    await cluster.in_sync()
    await this.goes_on()


async def cut_apart(this: Round) -> None:
    """The log does not get through to the replica; the master goes on without it, then it joins again."""
    cluster = _cluster(this)
    cluster.machine(cluster.master).replicas.part()
    await this.goes_on(promised=False)
    cluster.heal()
    await cluster.in_sync()
    await this.goes_on()


async def both_machines_killed(this: Round) -> None:
    await this.some_time()
    await this.note_lag()
    await asyncio.gather(this.cluster.master.kill(), this.cluster.replica.kill())
    this.loses_apart = True
    await this.cluster.restart_both()
    await this.goes_on()


async def _other_takes_over(this: Round) -> None:
    this.loses_apart = True
    if await _cluster(this).other_takes_over():
        await this.goes_on(promised=False)


AGENT_FAULTS: Final[Mapping[str, Fault]] = {
    "agents: machine of the master killed": machine_killed,
    "agents: broker of the master killed": broker_killed,
    "agents: agent of the master killed": agent_killed,
    "agents: master paused longer than its lease": machine_paused,
    "agents: master cut off from the lease store": master_cut_off_from_leases,
    "agents: lease store away longer than a lease": leases_away,
    "agents: master and replica cut apart": cut_apart,
    "agents: both machines killed at once": both_machines_killed,
}
