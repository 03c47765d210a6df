"""What goes wrong every few minutes of a long run, and ends again: planned changes, kills, pauses, cuts.

The first member is never killed: its process is as old as the run, and shows whether something grows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

from pyromq.replication.settings import Role
from tests.faults.agents import ManagedCluster, ManagedMember

SoakFault = Callable[[ManagedCluster, Random], Awaitable[None]]


async def _all_are_there(cluster: ManagedCluster) -> None:
    await cluster.come_back()
    await cluster.sort()
    await cluster.in_sync()


def elder(cluster: ManagedCluster) -> ManagedMember:
    """The member that is never killed."""
    return cluster.machines[0]


async def switched(cluster: ManagedCluster, rng: Random) -> None:
    """A planned change of the master."""
    await cluster.switch_to(rng.choice(cluster.followers))
    await _all_are_there(cluster)


async def master_killed(cluster: ManagedCluster, rng: Random) -> None:
    """kill -9 of broker and agent; a master that must live hands over first."""
    if cluster.leader is elder(cluster):
        await switched(cluster, rng)
    await cluster.leader.kill()
    assert await cluster.other_takes_over(), "nobody was in sync"
    await _all_are_there(cluster)


async def replica_killed(cluster: ManagedCluster, rng: Random) -> None:
    replica = rng.choice([each for each in cluster.followers if each is not elder(cluster)])
    await replica.kill()
    await asyncio.sleep(rng.uniform(1, 15))
    await replica.start(Role.REPLICA, 1)
    await _all_are_there(cluster)


async def master_hangs(cluster: ManagedCluster, rng: Random) -> None:
    """SIGSTOP of broker and agent, until another one is master."""
    old = cluster.leader
    old.pause()
    try:
        assert await cluster.other_takes_over(), "nobody was in sync"
        await asyncio.sleep(rng.uniform(0, 5))
    finally:
        old.go_on()
    await _all_are_there(cluster)


async def replica_hangs(cluster: ManagedCluster, rng: Random) -> None:
    replica = rng.choice(cluster.followers)
    replica.pause()
    try:
        await asyncio.sleep(rng.uniform(5, 30))
    finally:
        replica.go_on()
    await _all_are_there(cluster)


async def master_isolated(cluster: ManagedCluster, rng: Random) -> None:
    """Nothing gets through to the master or from it, nobody is told, and it lives."""
    cluster.leader.isolate()
    try:
        assert await cluster.other_takes_over(), "nobody was in sync"
        await asyncio.sleep(rng.uniform(0, 5))
    finally:
        cluster.heal()
    await _all_are_there(cluster)


async def clients_cut(cluster: ManagedCluster, rng: Random) -> None:
    """Every connection of clients is reset."""
    for each in cluster.machines:
        each.clients.cut()
    await _all_are_there(cluster)


async def leases_away(cluster: ManagedCluster, rng: Random) -> None:
    """Nobody reaches the lease store for longer than a lease."""
    for each in cluster.machines:
        for proxy in each.leases:
            proxy.part()
    await asyncio.sleep(cluster.pace.longer_s)
    cluster.heal()
    await _all_are_there(cluster)


FAULTS: Final[dict[str, tuple[SoakFault, int]]] = {
    "planned switch": (switched, 4),
    "master killed": (master_killed, 3),
    "master hangs": (master_hangs, 2),
    "master isolated": (master_isolated, 2),
    "replica killed": (replica_killed, 1),
    "replica hangs": (replica_hangs, 1),
    "connections of clients reset": (clients_cut, 1),
    "lease store away": (leases_away, 1),
}
"""By name: what happens, and how often beside the others."""


def choose(rng: Random) -> str:
    return rng.choices(list(FAULTS), [weight for _, weight in FAULTS.values()])[0]
