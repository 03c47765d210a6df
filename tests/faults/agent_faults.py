"""What goes wrong with two brokers under agents. ``AGENT_FAULTS`` lists it as the table shows it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from pyromq.replication.settings import Role
from tests.faults.agents import ManagedCluster
from tests.faults.proxy import BOTH
from tests.faults.rounds import Fault, Round


def cluster_of(this: Round) -> ManagedCluster:
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
    cluster = cluster_of(this)
    old = cluster.leader
    await old.kill_broker()
    await other_takes_over(this)
    await old.start_broker(Role.REPLICA, 1)
    await cluster.sort()
    await cluster.in_sync()
    await this.goes_on()


async def agent_killed(this: Round) -> None:
    """The broker lives, stops acknowledging before its lease ends, and becomes a replica when its agent is back."""
    await this.some_time()
    await this.note_lag()
    cluster = cluster_of(this)
    old = cluster.leader
    await old.kill_agent()
    await other_takes_over(this)
    await old.start_agent()
    await cluster.sort()
    await cluster.in_sync()
    await this.goes_on()


async def machine_paused(this: Round) -> None:
    """SIGSTOP of broker and agent, longer than a lease; then they go on, as if nothing had happened."""
    await this.some_time()
    await this.note_lag()
    cluster = cluster_of(this)
    old = cluster.leader
    old.pause()
    await other_takes_over(this)
    old.go_on()
    await cluster.sort()
    await cluster.in_sync()
    await this.goes_on()


async def master_cut_off_from_leases(this: Round) -> None:
    """Both ways, or one; it loses its lease while clients and replica still reach it."""
    await this.note_lag()
    cluster = cluster_of(this)
    chosen = this.rng.randrange(3)
    for proxy in cluster.leader.leases:
        proxy.part() if chosen == 0 else proxy.swallow(BOTH[chosen - 1])
    await other_takes_over(this)
    cluster.heal()
    await cluster.sort()
    await cluster.in_sync()
    await this.goes_on()


async def leases_away(this: Round) -> None:
    """The lease store is away for longer than a lease: nobody is master, then somebody is again."""
    await this.note_lag()
    cluster = cluster_of(this)
    for proxy in (proxy for machine in cluster.machines for proxy in machine.leases):
        proxy.part()
    await asyncio.sleep(cluster.pace.longer_s)
    cluster.heal()
    this.loses_apart = True
    await cluster.sort()
    await cluster.in_sync()
    await this.goes_on()


async def cut_apart(this: Round) -> None:
    """The log does not get through to the replica; the master goes on without it, then it joins again."""
    cluster = cluster_of(this)
    cluster.leader.replicas.part()
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


async def other_takes_over(this: Round) -> None:
    this.loses_apart = True
    if await cluster_of(this).other_takes_over():
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
