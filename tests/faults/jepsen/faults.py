"""The list: power of all members, power of one during a cut, one flipped bit, a truncated file, a pause with a cut.

Jepsen's analysis of NATS 2.12.1 had 14 % of acknowledged messages lost by power failures of all nodes, and half of them
by one flipped bit or a truncated file on one node. Each function here leaves three members that run and are in sync, or
says in the trial what did not come back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from pyromq.replication.settings import Role
from tests.faults.agents import ManagedCluster, ManagedMember
from tests.faults.jepsen.elements import ElementLoad

LOG: Final = "commitlog"
_ELEMENTS: Final = 300  # before, between and after faults


@dataclass
class Trial:
    """What a fault may use, and says."""

    cluster: ManagedCluster
    load: ElementLoad
    rng: Random
    notes: list[str] = field(default_factory=list)  # what was damaged
    problems: list[str] = field(default_factory=list)
    handed_over: int = 0
    stayed_away: int = 0


JepsenFault = Callable[[Trial], Awaitable[None]]


async def _all_are_there(this: Trial) -> None:
    await this.cluster.come_back()
    await this.cluster.sort()
    await this.load.grow(_ELEMENTS)


# --- power ---


async def all_lose_power(this: Trial) -> None:
    """In the middle of sends, of all three at once; again and again."""
    for _ in range(3):
        await this.load.grow(_ELEMENTS)
        cluster = this.cluster
        await asyncio.gather(*(each.lose_power(this.rng.getrandbits(32)) for each in cluster.machines))
        await cluster.restart_both()
    await this.load.grow(_ELEMENTS)


async def master_loses_power_replica_is_cut_off(this: Trial) -> None:
    """One replica hears nothing; the master loses its power; the cut heals when another one is master."""
    for _ in range(2):
        await this.load.grow(_ELEMENTS)
        cluster = this.cluster
        silent = this.rng.choice(cluster.followers)
        silent.isolate()
        await asyncio.sleep(this.rng.uniform(0, 3))
        await cluster.leader.lose_power(this.rng.getrandbits(32))
        await asyncio.sleep(this.rng.uniform(0, 6))
        cluster.heal()
        await _all_are_there(this)


# --- pauses and cuts ---


async def paused_while_cut_off(this: Trial) -> None:
    """The master hangs and is cut off, a replica hangs too for a while; the master goes on before the cut heals."""
    for _ in range(2):
        await this.load.grow(_ELEMENTS)
        cluster = this.cluster
        old, other = cluster.leader, this.rng.choice(cluster.followers)
        old.isolate()
        old.pause()
        other.pause()
        await asyncio.sleep(this.rng.uniform(0, 8))
        other.go_on()
        await asyncio.sleep(this.rng.uniform(0, 4))
        old.go_on()
        await asyncio.sleep(this.rng.uniform(0, 2))
        cluster.heal()
        await cluster.sort()
        await _all_are_there(this)


# --- files ---


async def bit_of_log_flipped(this: Trial) -> None:
    await _damage_one(this, is_log=True, how=_flip)


async def bit_of_old_log_flipped(this: Trial) -> None:
    """In a file that is full: recovery does not look there."""
    await _damage_one(this, is_log=True, how=_flip, is_old=True)


async def bit_of_other_file_flipped(this: Trial) -> None:
    await _damage_one(this, is_log=False, how=_flip)


async def log_truncated(this: Trial) -> None:
    await _damage_one(this, is_log=True, how=_truncate)


async def other_file_truncated(this: Trial) -> None:
    await _damage_one(this, is_log=False, how=_truncate)


async def _damage_one(this: Trial, *, is_log: bool, how: Callable[[Path, Random], str], is_old: bool = False) -> None:
    """Any member, also the master, is killed; one of its files changes; it starts again, and may be master next."""
    await this.load.grow(3 * _ELEMENTS)
    cluster = this.cluster
    victim = this.rng.choice(cluster.machines)
    was_master = victim is cluster.leader
    await victim.kill()
    if was_master:
        assert await cluster.other_takes_over(), "nobody was in sync"
    files = _files(victim, is_log=is_log)
    file = this.rng.choice(files[:-1] if is_old else files)
    this.notes.append(f"{file.relative_to(victim.folder)}: {how(file, this.rng)}")
    try:
        await victim.start(Role.REPLICA, 1)
    except EOFError:  # its process has ended, with the reason on standard error
        await victim.kill()
        this.stayed_away += 1
        this.notes.append(f"{victim.name} does not start with that")
        await this.load.grow(_ELEMENTS)
        return
    await _all_are_there(this)


def _files(member: ManagedMember, *, is_log: bool) -> list[Path]:
    """Files with something in them; of the lock and the mark of a running broker nothing can be lost."""
    found = [each for each in member.folder.rglob("*") if each.is_file() and each.stat().st_size]
    return sorted(
        each
        for each in found
        if (LOG in each.relative_to(member.folder).parts) == is_log and each.name not in ("lock", "abort")
    )


def _flip(file: Path, rng: Random) -> str:
    """A bit of what was written: behind that there are zeros, up to the size of the file."""
    data = bytearray(file.read_bytes())
    used = len(data.rstrip(b"\0")) or len(data)
    place = rng.randrange(used)
    bit = rng.randrange(8)
    data[place] ^= 1 << bit
    with file.open("r+b") as opened:
        opened.seek(place)
        opened.write(data[place : place + 1])
    return f"bit {bit} of byte {place:,} flipped, of {used:,}"


def _truncate(file: Path, rng: Random) -> str:
    data = file.read_bytes()
    used = len(data.rstrip(b"\0")) or len(data)
    size = rng.randrange(used)
    with file.open("r+b") as opened:
        opened.truncate(size)
    return f"truncated to {size:,} bytes, of {used:,}"
