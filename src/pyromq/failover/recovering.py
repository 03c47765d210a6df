"""An operator makes a member the master when agents may not: what that costs, and the record that says so.

The plan compares logs by their epochs: where a member wrote, or copied, what the chosen one does not have. When that
member follows the chosen one, these bytes are cut from its log and kept in its folder (``cut``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from pyromq.clock import machine_s
from pyromq.failover.record import BrokerStatus, LeaseConflictError, LeaseError, LeaseRecord
from pyromq.failover.store import LeaseStore, StoredLease
from pyromq.failover.switching import StatusOf
from pyromq.wire.json.membership import parting

_MISSING_AHEAD: Final = 100  # a member that does not answer has seen fewer leases beyond those that others have
_LOOK_AGAIN_S: Final = 0.1
_RECOVER_S: Final = 30.0  # beyond the end of every earlier lease
DURATION_MS: Final = 4_000  # of a store that lost the record; the holder writes its own with the first renewal


class MemberCost(msgspec.Struct, frozen=True, kw_only=True):
    """A member as the plan sees it, and what it has that the chosen one lacks."""

    member: str
    is_chosen: bool = False
    answers: bool = False
    role: str = ""
    lease: int | None = None
    log_lease: int | None = None
    end: int | None = None
    agrees_to: int | None = None  # up to there its log is that of the chosen one
    lost_bytes: int | None = None  # None: nobody knows, it does not answer


class RecoveryPlan(msgspec.Struct, frozen=True, kw_only=True):
    record: LeaseRecord  # to be written
    members: tuple[MemberCost, ...]

    @property
    def lost_bytes(self) -> int:
        return sum(each.lost_bytes or 0 for each in self.members)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Members that do not answer: what they have alone is not known."""
        return tuple(each.member for each in self.members if not each.answers)


def plan_recovery(record: LeaseRecord | None, statuses: Mapping[str, BrokerStatus | None], chosen: str) -> RecoveryPlan:
    """What making that member the master means. Raises LeaseError when it does not answer, or another is master."""
    best = statuses.get(chosen)
    if best is None:
        answering = ", ".join(sorted(each for each, status in statuses.items() if status is not None)) or "nobody"
        raise LeaseError(f"{chosen} does not answer, so nobody knows what it has; answering: {answering}")
    for address, status in statuses.items():
        if status is not None and status.granted_s > 0 and address != chosen:
            raise LeaseError(
                f"{address} is master and acknowledges: use pyromq cluster switch, or --from {address}; if {chosen} "
                f"has what {address} lacks, stop {address} and its agent first"
            )
    costs = [_cost(address, status, best) for address, status in sorted(statuses.items())]
    seen = [record.number if record else 0, *(status.number for status in statuses.values() if status is not None)]
    number = max(seen) + (1 if all(each.answers for each in costs) else _MISSING_AHEAD)
    return RecoveryPlan(
        record=LeaseRecord(
            holder=chosen,
            number=number,
            decided=number,
            in_sync=(chosen,),
            confirmed=0,
            metadata=0,
            duration_ms=record.duration_ms if record else DURATION_MS,
            renewals=record.renewals + 1 if record else 0,
            members=tuple(sorted(statuses)),
            forced=True,
        ),
        members=tuple(costs),
    )


def _cost(address: str, status: BrokerStatus | None, best: BrokerStatus) -> MemberCost:
    if status is None:
        return MemberCost(member=address)
    agrees_to = min(status.end, best.end)
    if (parted := parting(status.epochs, best.epochs)) is not None:
        agrees_to = min(agrees_to, parted)
    return MemberCost(
        member=address,
        is_chosen=address == best.address,
        answers=True,
        role=status.role.value,
        lease=status.number,
        log_lease=status.log_number,
        end=status.end,
        agrees_to=status.end if address == best.address else agrees_to,
        lost_bytes=0 if address == best.address else max(0, status.end - agrees_to),
    )


async def survey(
    record: LeaseRecord | None, registered: Iterable[str], status_of: StatusOf
) -> dict[str, BrokerStatus | None]:
    """Every member that the record, name servers or another member knows of, with what it says; None: no answer."""
    statuses: dict[str, BrokerStatus | None] = {}
    left = {*registered, *(record.everybody if record else ())}
    while left:
        asked = sorted(left)
        statuses |= zip(asked, await asyncio.gather(*(status_of(each) for each in asked)), strict=True)
        left = everybody(record, statuses) - statuses.keys()
    return statuses


async def recover(store: LeaseStore, plan: RecoveryPlan, found: StoredLease | None, status_of: StatusOf) -> LeaseRecord:
    """Write what was planned, and wait until the chosen member acknowledges. Raises LeaseError."""
    try:
        await store.write(plan.record, found.version if found else None)
    except LeaseConflictError as error:
        raise LeaseError("the lease has changed since the plan was made: look at the new plan") from error
    chosen, until_s = plan.record.holder, machine_s() + plan.record.duration_ms / 1000 + _RECOVER_S
    while machine_s() < until_s:
        status = await status_of(chosen)
        if status is not None and status.number >= plan.record.number and status.granted_s > 0:
            return plan.record
        await asyncio.sleep(_LOOK_AGAIN_S)
    raise LeaseError(
        f"lease {plan.record.number} is {chosen}'s, but it is not master yet: look at the log of its agent"
    )


def without_member(record: LeaseRecord, member: str) -> LeaseRecord:
    """The record with which a member that is gone for good is no longer waited or asked for. Raises LeaseError."""
    if member == record.holder or member in record.in_sync:
        raise LeaseError(f"{member} is in sync and may be master next: stop its agent and its broker first")
    if member not in record.members:
        raise LeaseError(f"{member} is no member; members: {', '.join(record.everybody)}")
    members = tuple(each for each in record.members if each != member)
    return msgspec.structs.replace(record, members=members, renewals=record.renewals + 1)


def everybody(record: LeaseRecord | None, statuses: Mapping[str, BrokerStatus | None]) -> set[str]:
    """All members that the record or anybody who answers knows of."""
    found = {*statuses, *(record.everybody if record else ())}
    for status in statuses.values():
        found |= set(status.members) if status is not None else set()
    return found
