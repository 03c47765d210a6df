"""A bit of a replica's log turns while its messages rest: the scrub finds it, the replica mends it from its master."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from pyromq.aio import Admin, Message, Producer
from pyromq.replication.settings import Role
from pyromq.store.scrub import FILE_NAME
from tests.faults.agent_faults import cluster_of
from tests.faults.agents import ManagedMember
from tests.faults.rounds import Round
from tests.faults.three import faults

_BALLAST: Final = 100_000  # bytes of a message; files of the log are small here
_MESSAGES: Final = 25
_MENDED_S: Final = 60.0


async def bit_flipped(this: Round) -> None:
    """In the sealed middle of the log, while the replica is down: its next pass begins when it starts."""
    await _fill_a_file(this)
    cluster = cluster_of(this)
    await cluster.in_sync()
    replica = this.rng.choice(cluster.followers)
    await replica.kill()
    before, file = _first_file(cluster.leader).read_bytes(), _first_file(replica)
    bit = this.rng.randrange(len(before) // 4, len(before) // 2) * 8
    damaged = bytearray(file.read_bytes())
    damaged[bit // 8] ^= 1 << bit % 8
    file.write_bytes(damaged)
    (replica.folder / "config" / FILE_NAME).unlink(missing_ok=True)
    await replica.start(Role.REPLICA, 1)
    if not await _is_mended(file, before):
        this.problems.append(f"the bit {bit} of {file.name} is not what it was, {_MENDED_S:g} s later")
    await cluster.in_sync()
    await faults.master_killed(this)


async def _fill_a_file(this: Round) -> None:
    nameserver, name = this.cluster.nameserver, "ballast"
    async with Admin(nameserver) as admin, Producer(nameserver, group="makers") as producer:
        await admin.topics.create(name, queues=1)
        for _ in range(_MESSAGES):
            await producer.send(Message(name, this.rng.randbytes(_BALLAST)))


def _first_file(member: ManagedMember) -> Path:
    return min((member.folder / "commitlog").iterdir())


async def _is_mended(file: Path, wanted: bytes) -> bool:
    for _ in range(round(_MENDED_S / 0.2)):
        if await asyncio.to_thread(file.read_bytes) == wanted:
            return True
        await asyncio.sleep(0.2)
    return False
