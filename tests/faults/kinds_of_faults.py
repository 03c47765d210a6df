"""What goes wrong in a round, each as a function of the round. ``FAULTS`` lists them as the table shows them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from tests.faults.proxy import BOTH, Way
from tests.faults.rounds import Fault, Round

DAY_MS: Final = 86_400_000
PAUSE_S: Final = 2.5  # longer than sends wait for replicas


# --- processes ---


async def master_killed(this: Round) -> None:
    """kill -9; the replica becomes the master, the old one comes back as its replica."""
    await this.some_time()
    await this.kill_master()
    await this.take_over()


async def replica_killed(this: Round) -> None:
    await this.some_time()
    await this.cluster.replica.kill()
    await this.goes_on(promised=False)
    await this.cluster.come_back()
    await this.goes_on()


async def both_killed(this: Round) -> None:
    """In the same moment; both come back as they were."""
    await this.some_time()
    await asyncio.gather(this.cluster.master.kill(), this.cluster.replica.kill())
    await this.cluster.restart_both()
    await this.goes_on()


async def replica_paused(this: Round) -> None:
    """SIGSTOP, mostly for longer than sends wait for a replica; then the master is killed."""
    this.cluster.replica.pause()
    await this.some_time(PAUSE_S * 2)
    this.cluster.replica.go_on()
    await this.cluster.in_sync()
    await this.some_time()
    await this.kill_master()
    await this.take_over()


async def master_paused(this: Round) -> None:
    """A person takes it for dead, makes sure that it is, and lets the replica take over."""
    await this.note_lag()
    this.cluster.master.pause()
    await this.some_time(PAUSE_S * 2)
    await this.cluster.master.kill()
    await this.take_over()


async def master_paused_and_back(this: Round) -> None:
    this.cluster.master.pause()
    await this.some_time(PAUSE_S * 2)
    this.cluster.master.go_on()
    await this.cluster.in_sync()
    await this.goes_on()


# --- networks ---


async def _killed_while_apart(this: Round) -> None:
    """The master goes on alone for a while, and is killed before the two meet again."""
    await this.goes_on(promised=False)
    await this.kill_master()
    this.cluster.heal()
    await this.take_over()


async def replica_cut_off(this: Round) -> None:
    """Between master and replica; it heals."""
    _cut_replica(this)
    await this.goes_on(promised=False)
    this.cluster.heal()
    await this.cluster.in_sync()
    await this.goes_on()


async def replica_cut_off_master_killed(this: Round) -> None:
    _cut_replica(this)
    await _killed_while_apart(this)


def _cut_replica(this: Round) -> None:
    this.cluster.replica.master.part()
    this.cluster.replica.master_log.part()


async def log_swallowed_master_killed(this: Round) -> None:
    """One way: the replica hears nothing, and its reports arrive."""
    this.cluster.replica.master_log.swallow(Way.BACK)
    await _killed_while_apart(this)


async def reports_swallowed_master_killed(this: Round) -> None:
    """The other way: the replica gets everything, and the master does not hear of it."""
    this.cluster.replica.master_log.swallow(Way.FORWARD)
    await _killed_while_apart(this)


async def half_closed(this: Round) -> None:
    """One side of the connection between the two ends, the other does not notice at once."""
    this.cluster.replica.master_log.half_close(this.rng.choice(BOTH))
    await this.some_time()
    await this.cluster.in_sync()
    await this.goes_on()


async def slow_network(this: Round) -> None:
    """Every piece between the two takes 100 ms; then the master is killed."""
    this.cluster.replica.master_log.delay_s = 0.1
    await this.goes_on()
    await this.kill_master()
    this.cluster.heal()
    await this.take_over()


async def clients_cut_off(this: Round) -> None:
    """Clients do not reach the master, which lives on; both ways, or one."""
    proxy = this.cluster.master.clients
    chosen = this.rng.randrange(3)
    proxy.part() if chosen == 0 else proxy.swallow(BOTH[chosen - 1])
    await this.some_time(PAUSE_S)
    this.cluster.heal()
    await this.goes_on()


async def name_server_cut_off(this: Round) -> None:
    """The master does not reach the name server, which forgets it."""
    this.cluster.master.names.part()
    await this.some_time(PAUSE_S)
    this.cluster.heal()
    await this.goes_on()


# --- disks and clocks ---


async def slow_replica_disk(this: Round) -> None:
    await this.cluster.replica.tell("disk slow")
    await this.goes_on()
    await this.kill_master()
    await this.cluster.replica.tell("disk good")
    await this.take_over()


async def full_replica_disk(this: Round) -> None:
    await this.cluster.replica.tell("disk full")
    await this.goes_on(promised=False)
    await this.some_time()
    if is_freed := this.rng.random() < 0.5:
        await this.cluster.replica.tell("disk good")
        await this.cluster.in_sync()
        await this.goes_on()
    await this.kill_master()
    if not is_freed:
        await this.cluster.replica.tell("disk good")
    await this.take_over()


async def clock_set(this: Round) -> None:
    """The master's wall clock is set by a day while messages wait; the replica's is not; the master is killed."""
    await this.cluster.master.tell(f"clock {this.rng.choice((DAY_MS, -DAY_MS))}")
    await this.goes_on()
    await this.kill_master()
    await this.take_over()


FAULTS: Final[Mapping[str, Fault]] = {
    "master killed": master_killed,
    "replica killed": replica_killed,
    "both killed at once": both_killed,
    "replica paused, then master killed": replica_paused,
    "master paused, then killed": master_paused,
    "master paused, goes on": master_paused_and_back,
    "master and replica cut apart": replica_cut_off,
    "cut apart, then master killed": replica_cut_off_master_killed,
    "log swallowed, then master killed": log_swallowed_master_killed,
    "reports swallowed, then master killed": reports_swallowed_master_killed,
    "half-closed connection": half_closed,
    "100 ms between the two, master killed": slow_network,
    "clients cut off from the master": clients_cut_off,
    "master cut off from the name server": name_server_cut_off,
    "slow disk of the replica, master killed": slow_replica_disk,
    "full disk of the replica, master killed": full_replica_disk,
    "clock of the master set by a day, killed": clock_set,
}

POWER_CUTS: Final[Mapping[str, Fault]] = {
    "power fails at the master": master_killed,
    "power fails at the replica": replica_killed,
    "power fails at both": both_killed,
}
"""The same on machines whose page cache is lost (``power``)."""
