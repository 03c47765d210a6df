"""What goes wrong with three members: their processes, their links, their power, their disks.

Each is a function of the round, and ends when the load has gone on and all three are in sync again.
"""

from __future__ import annotations

import asyncio
from typing import Final

from pyromq.errors import MQError
from tests.faults.agent_faults import cluster_of
from tests.faults.agents import ManagedMember
from tests.faults.proxy import Way
from tests.faults.rounds import Round

SWITCHES: Final = 3  # in one round
AWAY_S: Final = 4.0  # clients cannot reach the master for so long
SILENT_S: Final = 25.0  # a replica is silent for so long: longer than connections are allowed to be


async def _another_takes_over(this: Round) -> None:
    this.loses_apart = True
    assert await cluster_of(this).other_takes_over(), "nobody was in sync"
    await this.goes_on()


async def _all_are_there(this: Round) -> None:
    cluster = cluster_of(this)
    await cluster.come_back()
    await cluster.sort()
    await this.goes_on()


# --- processes and power ---


async def master_killed(this: Round) -> None:
    """kill -9 of broker and agent."""
    await this.some_time()
    await this.note_lag()
    await this.cluster.master.kill()
    await _another_takes_over(this)
    await _all_are_there(this)


async def master_of_async_set_killed(this: Round) -> None:
    """What the new one lacked may be lost, no more than the lag that was shown; the set stays an async one."""
    await master_killed(this)
    cluster = cluster_of(this)
    status = await cluster.status(cluster.master)
    if status is None or status.waits:
        this.problems.append(f"the set does not acknowledge as it did before: {status}")


async def master_hangs(this: Round) -> None:
    """SIGSTOP of broker and agent; they go on when another one is master."""
    await this.some_time()
    await this.note_lag()
    old = cluster_of(this).leader
    old.pause()
    await _another_takes_over(this)
    old.go_on()
    await _all_are_there(this)


async def master_loses_power(this: Round) -> None:
    await this.some_time()
    await this.note_lag()
    await cluster_of(this).leader.lose_power(this.rng.getrandbits(32))
    await _another_takes_over(this)
    await _all_are_there(this)


async def all_lose_power(this: Round) -> None:
    await this.some_time()
    await this.note_lag()
    await _power_cut(this)
    await this.goes_on()


async def _power_cut(this: Round) -> None:
    cluster = cluster_of(this)
    this.loses_apart = True
    await asyncio.gather(*(each.lose_power(this.rng.getrandbits(32)) for each in cluster.machines))
    await cluster.restart_both()


# --- links of the master ---


async def master_isolated(this: Round) -> None:
    """Nothing gets through to the master or from it, and nobody is told; it lives."""
    await this.note_lag()
    cluster_of(this).leader.isolate()
    await _another_takes_over(this)
    this.cluster.heal()
    await _all_are_there(this)


async def master_cut_off_from_leases(this: Round) -> None:
    await this.note_lag()
    cluster = cluster_of(this)
    chosen = this.rng.randrange(3)
    for proxy in cluster.leader.leases:
        proxy.part() if chosen == 0 else proxy.swallow((Way.FORWARD, Way.BACK)[chosen - 1])
    await _another_takes_over(this)
    cluster.heal()
    await _all_are_there(this)


async def master_cut_off_from_replicas(this: Round) -> None:
    """The log gets to neither of them; the master goes on alone, then they join again."""
    cluster = cluster_of(this)
    cluster.leader.replicas.part()
    await this.goes_on(promised=False)
    cluster.heal()
    await cluster.in_sync()
    await this.goes_on()


async def master_cut_off_from_clients(this: Round) -> None:
    """It keeps its lease: clients wait until they get through again."""
    this.cluster.master.clients.part()
    await asyncio.sleep(AWAY_S)
    this.cluster.heal()
    await _all_are_there(this)


# --- planned changes ---


async def switched(this: Round) -> None:
    """Some planned changes, one after the other, to any of the others."""
    for _ in range(SWITCHES):
        await switch(this)
        await this.goes_on()


async def switch(this: Round) -> None:
    cluster = cluster_of(this)
    this.loses_apart = True
    await cluster.in_sync()
    await this.note_lag()
    await cluster.switch_to(this.rng.choice(cluster.followers))
    await cluster.in_sync()


async def delayed_over_changes(this: Round) -> None:
    """Short lives while messages wait: two planned changes and two power cuts of all."""
    for change in (switch, _power_cut, switch, _power_cut):
        await change(this)
        await this.goes_on()


# --- silent replicas ---


def _a_replica(this: Round) -> ManagedMember:
    return this.rng.choice(cluster_of(this).followers)


async def replica_hangs(this: Round) -> None:
    """SIGSTOP of a replica and its agent, for longer than connections may be silent."""
    replica = _a_replica(this)
    replica.pause()
    await asyncio.sleep(SILENT_S)
    replica.go_on()
    await _all_are_there(this)


async def replicas_unheard(this: Round) -> None:
    """One way: replicas get the log, and the master does not hear how far they are."""
    cluster = cluster_of(this)
    cluster.leader.replicas.swallow(Way.FORWARD)
    await asyncio.sleep(SILENT_S)
    cluster.heal()
    await _all_are_there(this)


# --- disks of the master ---


async def _disk(this: Round, mood: str) -> None:
    """The master cannot write: another member, which can, takes its place."""
    old = cluster_of(this).leader
    await old.tell(f"disk {mood}")
    await _another_takes_over(this)
    try:
        await old.tell("disk good")
    except (EOFError, BrokenPipeError, MQError):  # it may have ended itself
        await old.kill()
    await old.kill()  # whatever it believes of its disk: it is started again
    await _all_are_there(this)


async def disk_full(this: Round) -> None:
    await _disk(this, "full")


async def disk_failing(this: Round) -> None:
    await _disk(this, "failing")
