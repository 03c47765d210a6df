"""What goes wrong with the lease store of three members: it is away, its state is lost, or set back to an older one.

A is master, a copy of the store is taken ─▶ A dies ─▶ B takes over and promises ─▶ B and C die
─▶ the store is empty, or has the copy ─▶ A returns first, alone: it must not promise anything ─▶ B and C return

Or all members run while it is emptied or set back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pyromq.replication.settings import Role
from pyromq.wire.json.membership import MemberRole
from tests.faults.agent_faults import cluster_of
from tests.faults.agents import ManagedCluster, ManagedMember
from tests.faults.rounds import Round
from tests.faults.three import faults


async def store_lost(this: Round) -> None:
    await _old_master_first(this, cluster_of(this).leases.empty)


async def store_set_back(this: Round) -> None:
    await cluster_of(this).leases.save()
    await _old_master_first(this, cluster_of(this).leases.set_back)


async def store_lost_meanwhile(this: Round) -> None:
    """All members run: the master writes its lease again, and nobody is promoted by an empty store."""
    await _goes_on_without(this, cluster_of(this).leases.empty)


async def store_set_back_meanwhile(this: Round) -> None:
    """To a time when another one was master; that one is a replica now, and runs."""
    cluster = cluster_of(this)
    await cluster.leases.save()
    await faults.switch(this)
    await this.goes_on()
    await _goes_on_without(this, cluster.leases.set_back)


async def _goes_on_without(this: Round, happens: Callable[[], Awaitable[None]]) -> None:
    cluster = cluster_of(this)
    this.loses_apart = True
    await happens()
    await asyncio.sleep(cluster.pace.longer_s)
    await cluster.sort()
    await cluster.in_sync()
    await this.goes_on()


async def _old_master_first(this: Round, happens: Callable[[], Awaitable[None]]) -> None:
    cluster = cluster_of(this)
    await this.note_lag()
    old = cluster.leader
    await old.kill()
    this.loses_apart = True
    assert await cluster.other_takes_over(), "nobody was in sync"
    await this.goes_on()
    others = [each for each in cluster.machines if each is not old]
    await asyncio.gather(*(each.kill() for each in others))
    await happens()
    await old.start(Role.REPLICA, 1)
    await _stays_silent(this, cluster, old)
    this.rng.shuffle(others)
    for each in others:
        await each.start(Role.REPLICA, 1)
    await cluster.sort()
    await cluster.in_sync()
    await this.goes_on()


async def _stays_silent(this: Round, cluster: ManagedCluster, old: ManagedMember) -> None:
    """It lacks what others have promised: for longer than any lease lasts it may not acknowledge."""
    before = this.load.acknowledged
    for _ in range(round(cluster.pace.longer_s / 0.1)):
        status = await cluster.status(old)
        if status is not None and status.role is MemberRole.MASTER and status.granted_s > 0:
            this.problems.append(f"an old master acknowledges under lease {status.number}, alone, and lacks messages")
            return
        await asyncio.sleep(0.1)
    if this.load.acknowledged > before:
        this.problems.append(f"{this.load.acknowledged - before} sends acknowledged by a master that lacks messages")
