"""What an agent does next, given what it sees. Pure: the same sight gives the same step.

An agent is *sure* of the lease store while it has watched it without a gap since the holder said that it is master by
this record. A record that moves says less: backups may be restored one after the other. One that is not sure, after a
restart or because the store went back, asks the other members before its broker acknowledges (``doubt``).
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from pyromq.failover import doubt, next_record
from pyromq.failover.doubt import Ask, Census
from pyromq.failover.record import BrokerStatus, LeaseError, LeaseRecord, MemberRole, MemberStatus
from pyromq.failover.sight import (
    AskHolder,
    Follow,
    HoldSends,
    KeepWaiting,
    Promote,
    ReleaseSends,
    Sight,
    Step,
    Write,
)
from pyromq.wire.json.membership import parting

RENEWED: Final = "renewed"


def decide(sight: Sight) -> Step:
    record, broker = sight.record, sight.broker
    if broker is None:
        return KeepWaiting("the broker does not answer")
    if broker.changing:
        return KeepWaiting("the broker changes its role")
    if sight.is_granted and (again := _written_again(sight, broker)) is not None:
        return again
    if record is None or record.number < broker.number:
        return _begin(sight, broker)
    if record.holder == sight.me:
        return _verified(sight, broker, record) or _hold_on(sight, broker, record)
    if sight.is_expired:
        return _take(sight, broker, record)
    if _waits_for_successor(sight, broker, record):
        return KeepWaiting(f"{record.holder} is being promoted, sends wait")
    if doubt.is_forked(broker, record):
        return KeepWaiting(doubt.forked(record))
    if broker.role is MemberRole.MASTER or broker.master != record.holder or broker.number != record.number:
        return Follow(record.holder, record.number, record.decided)
    if not sight.is_sure and not sight.is_holder_asked:
        return AskHolder(record.holder)
    return KeepWaiting(f"{record.holder} is master")


# --- the holder ------------------------------------------------------------------------------------------------------


def _written_again(sight: Sight, broker: BrokerStatus) -> Step | None:
    """The record of a master whose time is running, when the store was set back, emptied or set forward under it.

    Nobody can have taken the lease meanwhile. One that another holds is of a state that this set had left behind; who
    follows it already knows its number, so the next one is written. Not for a broker that was started anew, and has no
    time of its own: if the store was set back to before a renewal that nobody else saw, the other has taken the lease.
    """
    mine, record = sight.mine, sight.record
    if mine is None or broker.role is not MemberRole.MASTER or broker.number != mine.number:
        return None
    number = mine.number
    if record is not None and record.number >= mine.number:
        if record.holder != mine.holder and not record.forced and broker.granted_s > 0:
            number = record.number + 1
        elif record.holder != mine.holder or not record.is_older_than(mine):
            return None
    if sight.is_restarted and (step := _without_its_end(sight, broker, replace(mine, number=number))) is not None:
        return step
    members = next_record.in_sync(sight, broker, mine)
    again = replace(mine, number=number, in_sync=members, members=mine.everybody, wanted="")
    text = "set back" if number == mine.number else "set to a state that was left behind"
    return Write(next_record.renewed(sight, broker, again), f"the lease store was {text}: lease {number} is written")


def _begin(sight: Sight, broker: BrokerStatus) -> Step:
    """There is no lease, or an older one than this broker has seen."""
    census = sight.census
    if census is None:
        return Ask(_known(sight, broker))
    highest = census.highest(broker)
    if not highest:
        problem = _not_first(sight, broker, census)
    else:
        problem = doubt.not_last_master(sight.me, broker, census, sight.record) or _lacks_answers(sight, broker, census)
    if problem:
        return KeepWaiting(problem)
    if not highest:
        return Write(next_record.new(sight, broker, 1, _known(sight, broker)), "the first lease")
    if not sight.is_expired:
        return KeepWaiting("the lease is made again when every earlier one has ended")
    return _made_again(sight, broker, census)


def _made_again(sight: Sight, broker: BrokerStatus, census: Census) -> Step:
    """The lease that the store has lost, by its last master; for another member if that has the end of this log.

    Replicas get what is on the master's disk: if one has more, this disk has lost its end. The record would say who was
    in sync; without it each member may be the only one that has all of what was acknowledged, so all have to answer.
    """
    known, copy, newest = _known(sight, broker), _longer_copy(broker, census), sight.newest
    has_seen_more = newest is not None and newest.number >= broker.number and newest.confirmed > broker.end
    missing = set(known) - {sight.me, *census.answers}
    if (copy is not None or has_seen_more) and broker.waits and missing:
        return KeepWaiting(doubt.end_elsewhere(broker, missing))
    if copy is not None and copy.unfit:
        return KeepWaiting(doubt.unfit_for(copy))
    number = max(census.highest(broker), newest.number if newest is not None else 0) + 1
    record = next_record.new(sight, broker, number, known, copy)
    return Write(record, "the store has lost the lease: it is made again")


def _not_first(sight: Sight, broker: BrokerStatus, census: Census) -> str:
    """Why this broker does not make the first lease of all; empty when it may."""
    if broker.role is not MemberRole.MASTER:
        return "there is no lease yet: the broker that was started as master makes it"
    newest = sight.newest
    if newest is not None and (newest.renewals or newest.holder != sight.me):
        return doubt.forgotten(newest)
    return doubt.lacks_any(sight.me, _known(sight, broker), census.answers)


def _verified(sight: Sight, broker: BrokerStatus, record: LeaseRecord) -> Step | None:
    """None when this broker may go on by this record; else whom it asks, or what it waits for."""
    if sight.is_sure:
        return None
    if record.forced:
        return (
            None
            if sight.is_expired
            else KeepWaiting("an operator has chosen this broker: every earlier lease ends first")
        )
    census = sight.census
    if census is None:
        return Ask(doubt.known(sight.me, broker, record))
    if record.number < census.highest(broker):
        return KeepWaiting(doubt.set_back(census, broker, record))
    if problem := _lacks_answers(sight, broker, census):
        return KeepWaiting(problem)
    if (broker.role is MemberRole.REPLICA or broker.number < record.number) and (longer := census.longer_log(broker)):
        if record.holder != sight.me:
            return _given_way(sight, broker, record, longer)
        if longer.log_number >= record.number:
            return KeepWaiting(doubt.behind(sight.me, longer, record))
    return None  # also a holder that was never promoted: what is longer is an older master's, never acknowledged tail


def _given_way(sight: Sight, broker: BrokerStatus, record: LeaseRecord, longer: BrokerStatus) -> Step:
    """The next lease for a member that has all that this one has, and more, whether the record names it or not."""
    if longer.metadata < broker.metadata or not _can_replace(broker, longer):
        return KeepWaiting(doubt.behind(sight.me, longer, record))
    given = next_record.given(sight, broker, record, longer, in_sync=(longer.address, sight.me))
    return Write(given, f"{longer.address} has a longer log: the lease is its")


def _can_replace(broker: BrokerStatus, longer: BrokerStatus) -> bool:
    """Whether its log goes on where ours ends, on a disk that takes messages."""
    return _continues(broker, longer) and not longer.unfit


def _continues(broker: BrokerStatus, longer: BrokerStatus) -> bool:
    """Whether its log goes on where ours ends, and none of its leases is another one than ours of that number."""
    theirs = {each.number: each for each in longer.epochs}
    if any(each.number in theirs and not each.is_same(theirs[each.number]) for each in broker.epochs):
        return False
    parted = parting(broker.epochs, longer.epochs)
    return parted is None or parted >= broker.end


def _longer_copy(broker: BrokerStatus, census: Census) -> BrokerStatus | None:
    """The longest log that goes on where ours ends, under our lease; of two, that of a disk which takes messages."""
    longer = [each for each in census.answers.values() if each.end > broker.end]
    copies = [each for each in longer if each.log_number == broker.log_number and _continues(broker, each)]
    return max(copies, key=lambda each: (each.end, not each.unfit), default=None)


def _known(sight: Sight, broker: BrokerStatus) -> tuple[str, ...]:
    """All members that anybody has reported; the agent may remember some that store and disk have lost."""
    return doubt.known(sight.me, broker, sight.record or sight.newest, sight.census)


def _lacks_answers(sight: Sight, broker: BrokerStatus, census: Census) -> str:
    is_patient = sight.now_s - sight.asked_s < sight.timing.alone_s
    return doubt.lacks_answers(_known(sight, broker), broker, census, is_patient=is_patient)


def _hold_on(sight: Sight, broker: BrokerStatus, record: LeaseRecord) -> Step:
    is_promoted = broker.role is MemberRole.MASTER and broker.number >= record.number
    if not is_promoted and not record.forced:
        if _is_other_disk(broker, record):
            way_out = doubt.successor("another member", sight.me, record)
            return KeepWaiting(f"the lease is ours, but this disk is new, or another member's: {way_out}")
        if sight.me not in record.in_sync or broker.end < record.confirmed:
            return KeepWaiting(f"the lease is ours, but the log ends at {broker.end} and must reach {record.confirmed}")
    if is_promoted and sight.is_restarted and (step := _without_its_end(sight, broker, record)) is not None:
        return step
    if not sight.is_sure and broker.number and _is_one_missing(sight, broker):  # the first lease stays the first one
        return Write(
            next_record.taken(sight, broker, record),
            "a member is missing: what it may have alone is under an older lease",
        )
    if not is_promoted:
        return Promote(record.number, record.waits)
    if record.wanted and record.wanted != sight.me:
        return _hand_over(sight, broker, record)
    if broker.held:
        return ReleaseSends()
    if sight.now_s - sight.failing_s > 2 * sight.timing.renew_s and (other := _that_can_write(sight, broker, record)):
        asked = replace(next_record.renewed(sight, broker, record), wanted=other)
        return Write(asked, f"the disk of this broker fails ({broker.unfit}): {other} shall be master")
    members = next_record.in_sync(sight, broker, record)
    is_due = sight.now_s - sight.renewed_s >= sight.timing.renew_s
    if is_due or set(members) != set(record.in_sync) or record.wanted:
        renewed = replace(record, in_sync=members, members=record.everybody, wanted="")
        return Write(next_record.renewed(sight, broker, renewed), RENEWED)
    return KeepWaiting("the lease is ours")


def _is_other_disk(broker: BrokerStatus, record: LeaseRecord) -> bool:
    """Whether the holder has not the disk that it was master with.

    An empty one has seen no lease. A copy of another member's was written under this very lease, which that one
    followed: promoted with it, the broker would begin the lease a second time, and lack what the copy had not got yet.
    """
    if not broker.number:
        return record.renewals > 0
    return broker.role is MemberRole.REPLICA and broker.log_number >= record.number


def _without_its_end(sight: Sight, broker: BrokerStatus, record: LeaseRecord) -> Step | None:
    """What a master does that was started anew; None when it goes on.

    Replicas get what is on its disk. If one has more now, the end of this log is lost, and what was acknowledged there:
    the disk may be a copy from a backup. If the record says that more was confirmed, all members in sync have to answer
    that they have no more: with asynchronous flushes all may have lost it. Who has newer topics, groups and users gets
    the lease likewise; a change of these counts before it is on all disks, so that nobody waits for one.
    """
    others = tuple(each for each in record.in_sync if each != sight.me)
    if sight.census is None:
        return Ask(others, only=True) if others else None
    answers, longest = sight.census.answers, sight.census.longer_log(broker)
    is_as_long_enough = longest is None and broker.metadata < record.metadata
    able = [
        each for each in answers.values() if each.end > broker.end or (is_as_long_enough and each.end == broker.end)
    ]
    able = [each for each in able if _goes_on_with(broker, each, record)]
    if able:
        other = max(able, key=lambda each: each.end)
        given = next_record.given(sight, broker, record, other, in_sync=(other.address,))
        given = replace(given, confirmed=other.durable_end)
        return Write(given, f"this master has lost something: {other.address} has it, and the lease is its")
    may_be_elsewhere = longest is not None or not answers.keys() >= set(others)
    if others and broker.end < record.confirmed and may_be_elsewhere and not record.forced:
        return KeepWaiting(doubt.end_lost(broker, record))
    return None


def _goes_on_with(broker: BrokerStatus, longer: BrokerStatus, record: LeaseRecord) -> bool:
    is_same = longer.log_number == broker.log_number and longer.metadata >= record.metadata
    return is_same and _can_replace(broker, longer)


def _is_one_missing(sight: Sight, broker: BrokerStatus) -> bool:
    """Whether one of three or more members is away: it could be master under the next number, in a store that was set
    back since.
    """
    if sight.census is None:
        return False
    known = _known(sight, broker)
    return len(known) > 2 and len(sight.census.that_remember(broker)) < len(known)


# --- planned changes -------------------------------------------------------------------------------------------------


def asked_to_hand_over(record: LeaseRecord, to: str) -> LeaseRecord:
    """The record with which somebody asks the holder for a planned change. Raises LeaseError when it cannot be."""
    if to == record.holder:
        raise LeaseError(f"{to} is the master already")
    if to not in record.in_sync:
        others = ", ".join(each for each in record.in_sync if each != record.holder) or "nobody"
        raise LeaseError(f"{to} may lack acknowledged messages; in sync with {record.holder}: {others}")
    return replace(record, wanted=to, renewals=record.renewals + 1)


def _hand_over(sight: Sight, broker: BrokerStatus, record: LeaseRecord) -> Step:
    """Sends are held until the wanted member has everything; then the record names it. Else all goes on as before."""
    wanted = broker.replica(record.wanted)
    end = _wanted_end(sight, broker)
    is_too_long = sight.held_s is not None and sight.now_s - sight.held_s > sight.timing.hold_s
    if record.wanted not in record.in_sync or wanted is None or is_too_long:
        return Write(
            next_record.renewed(sight, broker, replace(record, wanted="")),
            f"{record.wanted} is not in sync: change given up",
        )
    has_everything = wanted.position >= end and wanted.metadata >= broker.metadata
    is_ready = has_everything if broker.held else _is_prepared(sight, broker, wanted)
    if not is_ready and sight.now_s - sight.renewed_s >= sight.timing.renew_s:
        return Write(next_record.renewed(sight, broker, record), RENEWED)
    if not broker.held:
        return HoldSends() if is_ready else KeepWaiting(f"{record.wanted} prepares to be master, sends go on")
    if not is_ready:
        return KeepWaiting(f"{record.wanted} still has {end - wanted.position} bytes to read")
    behind = [each.address for each in broker.replicas if each.address in record.in_sync and each.position < end]
    if behind and sight.held_s is not None and sight.now_s - sight.held_s < sight.timing.hold_s / 2:
        return KeepWaiting(f"{', '.join(behind)} shall have everything, too: what waits for them is answered then")
    others = tuple(each for each in record.in_sync if each != sight.me)
    named = others if len(others) > 1 else record.in_sync  # of two, the old master is waited for
    handed = next_record.renewed(sight, broker, replace(record, in_sync=named, members=record.everybody))
    handed = replace(handed, holder=record.wanted, number=record.number + 1, wanted="", handed=True)
    return Write(handed, f"handed over to {record.wanted}")


def _is_prepared(sight: Sight, broker: BrokerStatus, wanted: MemberStatus) -> bool:
    """Whether the change will be quick, so that sends need to wait for a moment only.

    All agents have seen by now that it is wanted, and look often; the next master has the tables, and nearly the log. A
    master that cannot write does not wait for that, nor does anybody for ever.
    """
    waited_s, timing = sight.now_s - sight.wanted_s, sight.timing
    is_near = wanted.metadata >= broker.metadata and next_record.is_near(broker, wanted)
    return bool(broker.unfit) or waited_s > timing.hold_s / 2 or (is_near and waited_s > 1.5 * timing.look_s)


def _wanted_end(sight: Sight, broker: BrokerStatus) -> int:
    """Up to where the next master shall have the log.

    What a failing disk does not take was never acknowledged where masters wait for replicas; else it was, and may still
    be flushed if the disk is merely full.
    """
    is_patient = sight.held_s is None or sight.now_s - sight.held_s < sight.timing.hold_s / 2
    return broker.flushed if broker.failing and (broker.waits or not is_patient) else broker.end


def _that_can_write(sight: Sight, broker: BrokerStatus, record: LeaseRecord) -> str:
    """A member in sync whose store takes messages, the one with the longest log; empty when there is none."""
    named = [each for each in broker.replicas if each.address in record.in_sync and each.writable]
    return max(named, key=lambda each: each.position).address if named else ""


def _waits_for_successor(sight: Sight, broker: BrokerStatus, record: LeaseRecord) -> bool:
    """The old master still holds sends: when it sends clients away, the new one shall be there for them."""
    is_predecessor = broker.role is MemberRole.MASTER and broker.held and broker.number + 1 == record.number
    is_in_time = sight.held_s is not None and sight.now_s - sight.held_s <= sight.timing.hold_s
    return record.handed and is_predecessor and is_in_time


# --- the others ------------------------------------------------------------------------------------------------------


def _take(sight: Sight, broker: BrokerStatus, record: LeaseRecord) -> Step:
    if sight.me not in record.in_sync:
        return KeepWaiting(f"the lease of {record.holder} has expired, but this broker may lack acknowledged messages")
    if broker.end < record.confirmed:
        return KeepWaiting(f"the log ends at {broker.end}, acknowledged is {record.confirmed}")
    if broker.metadata < record.metadata:
        return KeepWaiting(
            f"topics and groups are of version {broker.metadata}, the master's were of {record.metadata}"
        )
    if (step := _verified(sight, broker, record)) is not None:
        return step
    others = tuple(each for each in record.in_sync if each not in (sight.me, record.holder))
    if others and sight.is_sure and sight.census is None:
        return Ask(others, only=True)
    kept = _that_answer(sight, record, others) if sight.is_sure else ()
    return Write(next_record.taken(sight, broker, record, kept), f"{record.holder} has not renewed its lease")


def _that_answer(sight: Sight, record: LeaseRecord, members: tuple[str, ...]) -> tuple[BrokerStatus, ...]:
    """Members in sync that answer: they stay in sync, and the new master waits for them from the start."""
    answers = [sight.census.answers[each] for each in members if sight.census and each in sight.census.answers]
    return tuple(
        each
        for each in answers
        if each.role is MemberRole.REPLICA and each.end >= record.confirmed and each.metadata >= record.metadata
    )
