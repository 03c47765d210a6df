"""A lease store that may have been set back or lost: what other members have to say before anything is acknowledged.

A send is answered SEND_OK when two members at least have it, under a lease whose number both keep on their disks. So of
``n`` members any ``n - 1`` know the newest lease under which that happened; one that has not heard of it, and hears of
no newer one from ``n - 2`` others, lacks nothing. Of two members one can be asked, or waited for.

    the store is behind what a member has seen   ─▶ only the master of the newest lease goes on; else an operator says
    nobody has seen more than the store          ─▶ the holder goes on; who takes over has the longest log
    too few answer                               ─▶ wait
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from pyromq.failover.record import BrokerStatus, LeaseRecord, MemberRole

OVERRULE: Final = "or decide with pyromq cluster recover"


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask these members what they have seen, then decide."""

    members: tuple[str, ...]
    only: bool = False  # nobody else: neither whom name servers know, such as a master that hangs, nor whom they know


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """What the members said that answered."""

    answers: dict[str, BrokerStatus] = field(default_factory=dict)  # by address, without our own
    named: frozenset[str] = frozenset()  # addresses that name servers have under this broker name

    def highest(self, broker: BrokerStatus) -> int:
        """The newest lease that anybody has seen."""
        return max([broker.number, *(each.number for each in self.answers.values())])

    def that_remember(self, broker: BrokerStatus) -> frozenset[str]:
        """The members whose answers count, and this one: who has a new disk has forgotten the leases before that.

        A store that was set back may have told it of an older one since.
        """
        everybody, is_first = {**self.answers, broker.address: broker}, not self.highest(broker)
        return frozenset(at for at, each in everybody.items() if is_first or (each.number and not each.is_new))

    def longer_log(self, broker: BrokerStatus) -> BrokerStatus | None:
        """The member with the longest log of the newest lease, if it is longer than that of this broker."""
        longest = max(self.answers.values(), key=_length, default=broker)
        return longest if _length(longest) > _length(broker) else None


def _length(broker: BrokerStatus) -> tuple[int, int]:
    """By what is there: a copy that has not come to where its lease began has nothing that was written under it."""
    written = [each.number for each in broker.epochs if each.start < broker.end]
    return max(written, default=0) if broker.epochs else broker.log_number, broker.end


def is_current(record: LeaseRecord, holder: BrokerStatus) -> bool:
    """Whether this member is master by this record at this moment, so that the store was not set back.

    It still has time, from this record or an earlier one of its lease. No backup can say that: its holder may be dead.
    """
    is_holder = (record.holder, record.number) == (holder.address, holder.number)
    return is_holder and holder.granted_s > 0 and 0 < holder.renewals <= record.renewals


def known(me: str, broker: BrokerStatus, record: LeaseRecord | None, census: Census | None = None) -> tuple[str, ...]:
    """All members of this broker name that anybody has reported."""
    found = {me, *broker.members, *({broker.master} - {""}), *(record.everybody if record is not None else ())}
    if census is not None:
        for each in census.answers.values():
            found |= set(each.members)
        new = census.answers.keys() - census.that_remember(broker)  # or with a new disk, if others know them
        found |= (census.named | census.answers.keys()) - new
    return tuple(sorted(found))


def lacks_answers(known: Collection[str], broker: BrokerStatus, census: Census, *, is_patient: bool) -> str:
    """Why there are too few answers to go on; empty when there are enough.

    If all members answer, nobody is left who could know more, however many of their disks are new.
    """
    me, heard = broker.address, census.that_remember(broker)
    missing = sorted(set(known) - heard)
    if set(known) <= {me, *census.answers} or (len(known) > 2 and len(missing) == 1):
        return ""
    names = ", ".join(missing)
    if len(known) == 2:
        if me in heard and not is_patient:
            return ""
        how_long = " a while" if me in heard else ""
        return f"not sure that the lease store is current: waiting{how_long} for {names}, {OVERRULE}"
    text = f"not sure that the lease store is current: {len(known) - 1} of {len(known)} members have to say what they "
    return f"{text}have seen, and {names} do not answer, or have an empty disk; start them, {OVERRULE}"


def lacks_any(me: str, known: Collection[str], heard: Collection[str]) -> str:
    """Why the first lease of all is not made; empty when everybody who is known has seen none either.

    A broker that has seen no lease may have lost its disk, so what it has seen says nothing.
    """
    missing = ", ".join(sorted(set(known) - set(heard) - {me}))
    text = "the first lease is made when every member that is known has answered: start"
    return f"{text} {missing} with --failover, {OVERRULE}" if missing else ""


def forgotten(newest: LeaseRecord) -> str:
    """The sentence about a store and a disk that both have lost what was seen."""
    return (
        f"lease {newest.number} of {newest.holder} was seen, but neither the lease store nor this disk has it: "
        f"another member has to answer, {OVERRULE}"
    )


def not_last_master(me: str, broker: BrokerStatus, census: Census, record: LeaseRecord | None) -> str:
    """Why this broker does not make the lease again that the store has lost; empty when it may."""
    highest = census.highest(broker)
    if broker.role is MemberRole.MASTER and broker.number == highest:
        if others := masters(census, highest) - {me}:
            names = ", ".join(sorted(others))
            return f"{names} and this broker were both master under lease {highest}: {_overrule_now()}"
        return _went_on(census, highest, record)
    return set_back(census, broker, record)


def _went_on(census: Census, highest: int, record: LeaseRecord | None) -> str:
    """The sentence about one of two that did not wait any longer: it renews the older lease, which does not end."""
    holder = census.answers.get(record.holder) if record is not None else None
    if holder is None or holder.role is not MemberRole.MASTER or holder.granted_s <= 0:
        return ""
    return (
        f"the lease store was set back: {holder.address} went on alone under lease {holder.number}, and this broker "
        f"was master under lease {highest}; what one of them has alone will be cut: {_overrule_now()}"
    )


def masters(census: Census, number: int) -> set[str]:
    """The brokers that were master under this lease, as the members say that have seen it."""
    seen = [each for each in census.answers.values() if each.number == number]
    return {each.address if each.role is MemberRole.MASTER else each.master for each in seen} - {""}


def set_back(census: Census, broker: BrokerStatus, record: LeaseRecord | None) -> str:
    """The sentence about a store that has less than a member has seen."""
    highest = census.highest(broker)
    has = f"has lease {record.number} of {record.holder}" if record is not None else "is empty"
    found = masters(census, highest) | ({broker.master} - {""} if broker.number == highest else set())
    who = f"its master, {' or '.join(sorted(found))}," if found else "its master"
    return f"the lease store {has}, but lease {highest} was seen: it was set back. {who} has to answer, {OVERRULE}"


def behind(me: str, longer: BrokerStatus, record: LeaseRecord) -> str:
    return f"{longer.address} has a longer log: {successor('it', me, record)}"


def successor(who: str, me: str, record: LeaseRecord) -> str:
    """What ends the wait of a member that may not go on.

    Agents go no further than to members in sync. If this one was alone in that, and its disk is new, what it had
    acknowledged alone is on no other member: agents do not decide that it is lost, the old disk may come back.
    """
    if set(record.in_sync) - {me}:
        return f"{who} takes over, {OVERRULE}"
    return f"nobody else is in sync, so nobody takes over: {_overrule_now()}"


def unfit_for(longer: BrokerStatus) -> str:
    return f"{longer.address} has a longer log, and cannot be master now ({longer.unfit}): mend that, {OVERRULE}"


def end_lost(broker: BrokerStatus, record: LeaseRecord) -> str:
    """What a master says that was started anew with less than was acknowledged."""
    what = (
        f"the log of this master ends at {broker.end}, acknowledged is {record.confirmed}: its disk has lost the rest"
    )
    return f"{what}. A member in sync takes over when the lease has ended, {OVERRULE}"


def end_elsewhere(broker: BrokerStatus, missing: Collection[str]) -> str:
    """What a last master says whose disk has lost its end, when the record is lost, too."""
    names = ", ".join(sorted(missing))
    lost = f"the disk of this broker has lost its log from {broker.end} on"
    return f"{lost}: {names} may have more of it, and has to answer, {OVERRULE}"


def is_forked(broker: BrokerStatus, record: LeaseRecord) -> bool:
    """Whether this broker was master under the number that the store, set back since, gave to another one."""
    return broker.role is MemberRole.MASTER and broker.number == record.number and record.holder != broker.address


def forked(record: LeaseRecord) -> str:
    return (
        f"the lease store was set back: {record.holder} has lease {record.number}, under which this broker was master; "
        f"what it has alone would be cut: {_overrule_now()}"
    )


def _overrule_now() -> str:
    return "decide with pyromq cluster recover"
