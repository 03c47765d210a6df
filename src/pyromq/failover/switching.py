"""A planned change of master, as somebody who asks for it sees it: the agents carry it out, this watches them.

asked ─▶ the master holds sends ─▶ the lease names the other ─▶ it is master ─▶ the old one follows
   └ given up: the other was not in sync, or took too long; the old master goes on
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from pyromq.clock import machine_s
from pyromq.failover.record import BrokerStatus, LeaseConflictError, LeaseError, LeaseRecord, MemberRole
from pyromq.failover.rules import asked_to_hand_over
from pyromq.failover.store import LeaseStore, StoredLease

StatusOf = Callable[[str], Awaitable[BrokerStatus | None]]

_LOOK_AGAIN_S: Final = 0.05
_SWITCH_S: Final = 30.0
_ATTEMPTS: Final = 20  # to write what a busy holder renews at the same moment


class SwitchGivenUpError(LeaseError):
    """The master is the same as before; nothing was lost or refused."""


async def current(store: LeaseStore) -> StoredLease:
    """Read the lease as it is in the store. Raises LeaseError, also when there is no lease."""
    found = await store.read()
    if found is None:
        raise LeaseError(
            "there is no lease of this broker: no failover agent stands beside it. Start agents (pyromq failover), or "
            "change roles by hand: stop senders, wait until the replica has everything, start both in their new roles"
        )
    return found


def choose(record: LeaseRecord, wanted: str) -> str:
    """Who shall be master: the wanted one, or the only one there is. Raises LeaseError."""
    if wanted:
        return wanted
    others = [each for each in record.in_sync if each != record.holder]
    if len(others) == 1:
        return others[0]
    if not others:
        raise LeaseError(f"no replica of {record.holder} has everything at this moment: look at pyromq cluster leases")
    raise LeaseError(f"several replicas have everything, choose one with --to: {', '.join(others)}")


async def switch(store: LeaseStore, status_of: StatusOf, wanted: str = "") -> AsyncIterator[str]:
    """Says what happens, until the new master serves and the old one could be it again. Raises LeaseError."""
    before, to = await _ask(store, wanted)
    old = before.holder
    yield f"asked {old} to hand over to {to}"
    until_s, shown = machine_s() + _SWITCH_S, set[str]()
    while machine_s() < until_s:
        record = (await current(store)).record
        if record.holder == old and not record.wanted:
            raise SwitchGivenUpError(f"given up: {to} did not get everything in time; {old} goes on as master")
        if record.holder not in (old, to):
            raise SwitchGivenUpError(f"{record.holder} has become master meanwhile, under lease {record.number}")
        for step in [each for each in await _steps(record, status_of, old, to) if each not in shown]:
            shown.add(step)
            yield step
        if f"{old} has everything" in shown:
            return
        await asyncio.sleep(_LOOK_AGAIN_S)
    raise LeaseError(f"not everything is in place after {_SWITCH_S:g} s: look at the logs of both agents")


async def _ask(store: LeaseStore, wanted: str) -> tuple[LeaseRecord, str]:
    for _ in range(_ATTEMPTS):
        found = await current(store)
        to = choose(found.record, wanted)
        try:
            await store.write(asked_to_hand_over(found.record, to), found.version)
        except LeaseConflictError:
            continue
        return found.record, to
    raise LeaseError("the lease changes too fast to ask for anything: try again")


async def _steps(record: LeaseRecord, status_of: StatusOf, old: str, to: str) -> list[str]:
    """What can be said to have happened."""
    if record.holder == old:
        status = await status_of(old)
        return [f"{old} holds sends"] if status is not None and status.held else []
    steps = [f"lease {record.number} is {to}'s"]
    new = await status_of(to)
    if new is not None and new.role is MemberRole.MASTER and new.number == record.number and new.granted_s > 0:
        steps.append(f"{to} is master")
        former = await status_of(old)
        if former is not None and former.role is MemberRole.REPLICA and former.following == "FOLLOWING":
            steps.append(f"{old} follows {to}")
            if old in record.in_sync:
                steps.append(f"{old} has everything")
    return steps
