"""What the next record of a lease says: who is in sync, what they have, who is away.

A replica joins in three steps: it comes near (``JOIN_BYTES_MAX``), its master is asked to wait for it, and only when it
has everything acknowledged the record names it. It leaves in the other order: the record first, then the waiting.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from msgspec.structs import replace

from pyromq.failover.record import BrokerStatus, LeaseRecord, MemberStatus
from pyromq.failover.sight import Sight

JOIN_BYTES_MAX: Final = 4 << 20  # a replica so near is waited for


def away(sight: Sight, record: LeaseRecord) -> dict[str, int]:
    """The members that the record does not name in sync, each with the moment since when."""
    return {each: record.away.get(each, sight.wall_ms) for each in record.everybody if each not in record.in_sync}


def new(
    sight: Sight, broker: BrokerStatus, number: int, members: tuple[str, ...], to: BrokerStatus | None = None
) -> LeaseRecord:
    """Return the record of a lease that the store has lost, or never had; for another member, with all that it has."""
    holder, before = to or broker, sight.record
    record = LeaseRecord(
        holder=holder.address,
        number=number,
        in_sync=(holder.address,),
        confirmed=to.durable_end if to is not None else 0,
        metadata=holder.metadata,
        duration_ms=round(sight.timing.duration_s * 1000),
        renewals=before.renewals + 1 if before else 0,
        decided=before.decided if before else 0,
        members=members,
        waits=broker.waits,
    )
    return replace(record, away=away(sight, record))


def renewed(sight: Sight, broker: BrokerStatus, record: LeaseRecord) -> LeaseRecord:
    """Return the record that prolongs a lease, with what its members have now."""
    named = [broker.replica(each) for each in record.in_sync if each != sight.me]
    others = [each for each in named if each is not None]
    if len(others) < len(named):  # one has not said how far it is: no more is known of it than before
        others.append(MemberStatus(address="", position=record.confirmed, metadata=record.metadata))
    record = replace(record, members=tuple(sorted({*record.members, *record.in_sync})))
    return replace(
        record,
        away=away(sight, record),
        waits=broker.waits,
        confirmed=_confirmed(broker, others, record),
        metadata=min([broker.metadata, *(each.metadata for each in others)]),
        duration_ms=round(sight.timing.duration_s * 1000),
        renewals=record.renewals + 1,
        handed=False,
        forced=False,
    )


def _confirmed(broker: BrokerStatus, others: Sequence[MemberStatus], record: LeaseRecord) -> int:
    """What every member in sync has on disk; under one lease it only grows, also when a disk is replaced.

    A tail that the master's disk may still refuse does not count: no other member could reach it afterwards.
    """
    confirmed = min([broker.durable_end, *(each.position for each in others)])
    return max(confirmed, record.confirmed) if broker.waits else confirmed


def taken(sight: Sight, broker: BrokerStatus, record: LeaseRecord, kept: tuple[BrokerStatus, ...] = ()) -> LeaseRecord:
    """The next lease; ``kept`` are members in sync that stay it: they have everything that was acknowledged."""
    record = replace(
        record,
        holder=sight.me,
        number=record.number + 1,
        in_sync=(sight.me, *sorted(each.address for each in kept)),
        confirmed=min([broker.durable_end, *(each.durable_end for each in kept)]),
        metadata=min([broker.metadata, *(each.metadata for each in kept)]),
        wanted="",
        handed=False,
        forced=False,
        renewals=record.renewals + 1,
        members=record.everybody,
    )
    return replace(record, away=away(sight, record))


def given(
    sight: Sight, broker: BrokerStatus, record: LeaseRecord, to: BrokerStatus, in_sync: tuple[str, ...]
) -> LeaseRecord:
    """The next lease, for another member."""
    record = replace(taken(sight, broker, record), holder=to.address, in_sync=in_sync)
    return replace(record, away=away(sight, record))


def in_sync(sight: Sight, broker: BrokerStatus, record: LeaseRecord) -> tuple[str, ...]:
    """Who stays named, and who may be named now."""

    def is_heard(member: str) -> bool:
        return sight.now_s - sight.heard_s.get(member, float("-inf")) <= sight.timing.absent_s

    heard = [each for each in broker.replicas if is_heard(each.address)]
    if not broker.waits:  # what was acknowledged since is lost with the master: the lag that is shown
        near = [each for each in heard if is_near(broker, each)]
        known = [each for each in near if each.address in record.in_sync or each.metadata >= broker.metadata]
        return (sight.me, *sorted(each.address for each in known))
    is_new = sight.now_s - sight.since_s <= sight.timing.absent_s / 2
    named = [each for each in heard if each.address in record.in_sync]
    stay = [each.address for each in named if is_new or _has_confirmed(broker, each, record)]
    if is_new:  # they follow the new master within a moment
        stay += [each for each in record.in_sync if each != sight.me and broker.replica(each) is None]
    join = [each.address for each in heard if _may_join(broker, each)]
    return (sight.me, *sorted({*stay, *join}))


def _has_confirmed(broker: BrokerStatus, member: MemberStatus, record: LeaseRecord) -> bool:
    """False for a member that had everything, and came back with less: with another disk, which lacks messages."""
    return member.position >= min(record.confirmed, broker.end)


def _may_join(broker: BrokerStatus, member: MemberStatus) -> bool:
    has_everything = member.position >= broker.acknowledged and member.metadata >= broker.metadata
    return member.address in broker.required and has_everything


def is_near(broker: BrokerStatus, member: MemberStatus) -> bool:
    return broker.end - member.position <= JOIN_BYTES_MAX


def required_members(record: LeaseRecord, broker: BrokerStatus, slow: Collection[str] = ()) -> tuple[str, ...]:
    """The replicas that a master waits for: those in sync, and those about to be; not those that get no nearer."""
    near = [each.address for each in broker.replicas if is_near(broker, each) and each.address not in slow]
    named = [each for each in record.in_sync if each != record.holder]
    return tuple(sorted({*near, *named})) if broker.waits else ()
