"""The agent beside a broker: looks at the lease and at the broker, takes one step, waits, looks again.

While a set is well an agent reads the lease with every look, and asks its broker once in the time between two renewals:
there is nothing to decide before the record changes, ends, or has to be renewed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from pyromq.clock import SystemClock, machine_s
from pyromq.errors import MQError
from pyromq.failover.doubt import Ask, Census, is_current
from pyromq.failover.next_record import required_members
from pyromq.failover.record import BrokerStatus, LeaseConflictError, LeaseError, LeaseRecord, MemberRole
from pyromq.failover.rules import RENEWED, asked_to_hand_over, decide
from pyromq.failover.sight import (
    AskHolder,
    Follow,
    HoldSends,
    KeepWaiting,
    Promote,
    ReleaseSends,
    Sight,
    Step,
    Timing,
    Write,
)
from pyromq.failover.store import LeaseStore, StoredLease

logger = logging.getLogger(__name__)

_CHANGING_S: Final = 0.05
_AFTER_S: Final = 0.002  # the end of a lease, it is looked at
_NOTE_S: Final = 5.0  # what an agent waits for is passed to its broker again after so long
_LOG_AGAIN_S: Final = 60.0  # a sentence that comes again within this time is not logged
_REPORTED_MAX: Final = 64  # sentences that are remembered for that


class BrokerControl(Protocol):
    """What an agent asks of the broker beside it; each raises MQError and returns in bounded time."""

    async def status(self) -> BrokerStatus: ...

    async def grant(self, record: LeaseRecord, until_s: float, required: tuple[str, ...]) -> None:
        """Acknowledge until then, by the monotonic clock of this machine, and only what those replicas have.

        They are on the broker's disk as members before it obeys.
        """

    async def promote(self, number: int, waits: bool | None) -> None:
        """Be master, and wait for replicas or not; nothing is acknowledged before the first grant."""

    async def follow(self, master: str, number: int, decided: int = 0) -> None:
        """Be a replica of that broker; what the log has beyond the master's is put aside.

        Not if that was acknowledged under a lease after ``decided``, the newest one whose holder an operator chose.
        """

    async def hold(self) -> None: ...

    async def release(self) -> None: ...

    async def note(self, waiting: str, members: tuple[str, ...], newest: int = 0) -> None:
        """What the agent waits for, to be shown; and all members, to be kept (empty: as before).

        ``newest`` is the newest lease, of an agent that is sure of it: a disk that was empty knows as much as others.
        """


class Peers(Protocol):
    """The other members, and what name servers know of them."""

    async def census(self, members: tuple[str, ...], broker: BrokerStatus, *, only: bool = False) -> Census:
        """Return what they say, in bounded time; who does not answer is left out. Never raises.

        Unless ``only`` these are asked, so are members that name servers or those who answer know of.
        """


@dataclass
class AgentState:
    """What an agent remembers between two looks, and what it shows."""

    found: StoredLease | None = None
    seen_s: float = 0.0
    renewed_s: float = float("-inf")
    heard_s: dict[str, float] = field(default_factory=dict)
    ends: deque[tuple[float, int]] = field(default_factory=deque)  # of the broker's log: when it was seen, where it was
    held_s: float | None = None
    wanted: tuple[str, float] = ("", float("-inf"))  # who shall be master instead of the broker, and since when
    step: str = "not looked yet"
    is_store_reached: bool = False
    broker: BrokerStatus | None = None  # as it was seen last
    read_s: float = float("-inf")  # when the record was read last
    is_sure: bool = False  # that the store was not set back since it was known to be current
    holder_asked: StoredLease | None = None  # the record about which its holder was asked last
    asked_s: float = float("inf")  # since when other members are asked
    since_s: float = float("-inf")  # when the broker was promoted
    promoted: int = 0  # the lease under which that was, until the first grant
    failing_s: float = float("inf")  # since when its store takes no messages
    mine: LeaseRecord | None = None  # the newest one that was written for this broker as holder
    newest: LeaseRecord | None = None  # of all that were seen
    reported_s: dict[str, float] = field(default_factory=dict)  # when each sentence was logged
    noted: tuple[str, float] = ("", float("-inf"))  # what the broker got last, and when
    is_news: bool = True  # the record is another one than at the last step
    stepped_s: float = float("-inf")  # when that was

    def note_record(self, found: StoredLease | None, now_s: float, blind_s: float) -> None:
        """A record that is older than the last one, or was not looked at for so long, may be of a store set back."""
        before, is_blind = self.found, now_s - self.read_s > blind_s
        if found != before or is_blind:
            self.seen_s = now_s  # after the read: it cannot be older than that
            self.is_news = True
        if is_blind or (before is not None and (found is None or found.record.is_older_than(before.record))):
            self.is_sure = False
        self.read_s, self.found, self.is_store_reached = now_s, found, True
        if found is not None and (self.newest is None or self.newest.is_older_than(found.record)):
            self.newest = found.record

    def note_broker(self, broker: BrokerStatus) -> None:
        """Remember the broker; one that has seen a newer lease than the store has makes its agent unsure."""
        self.broker = broker
        if self.found is not None and self.found.record.number < broker.number:
            self.is_sure = False
        self.note_holder(broker)

    def note_holder(self, holder: BrokerStatus | None) -> None:
        """Be sure of the store if this member is master by the record that was found."""
        if self.found is not None and holder is not None:
            self.is_sure |= is_current(self.found.record, holder)

    def note_wanted(self, now_s: float) -> None:
        """Remember since when another master is asked for."""
        wanted = self.found.record.wanted if self.found else ""
        if wanted != self.wanted[0]:
            self.wanted = wanted, now_s

    def note_positions(self, broker: BrokerStatus, now_s: float, absent_s: float) -> None:
        """A replica is as old as the moment at which its master had no more than it has now; a new one is young."""
        while self.ends and self.ends[0][0] < now_s - absent_s:
            self.ends.popleft()
        self.ends.append((now_s, broker.end))
        for each in broker.replicas:
            at_s = max((at_s for at_s, end in self.ends if end <= each.position), default=float("-inf"))
            self.heard_s[each.address] = max(at_s, self.heard_s.get(each.address, now_s))

    @property
    def is_settled(self) -> bool:
        """The broker is what the record says, and nothing is about to change."""
        if self.found is None or self.broker is None or self.broker.changing:
            return False
        record, broker = self.found.record, self.broker
        if record.wanted or record.handed or broker.number != record.number:
            return False
        return (broker.role is MemberRole.MASTER and broker.granted_s > 0) == (record.holder == broker.address)


class Agent:
    """``run`` until cancelled. Whatever fails is tried again at the next look; nothing is assumed to have worked."""

    def __init__(
        self,
        me: str,
        store: LeaseStore,
        broker: BrokerControl,
        peers: Peers,
        *,
        timing: Timing | None = None,
        now_s: Callable[[], float] = machine_s,
        wall_ms: Callable[[], int] | None = None,
    ) -> None:
        self.me = me
        self._store = store
        self._broker = broker
        self._peers = peers
        self._timing = timing or Timing()
        self._now_s = now_s
        self._wall_ms = wall_ms or SystemClock().now_ms
        self.state = AgentState()

    async def run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(self._pause_s())

    def _pause_s(self) -> float:
        """While masters change, every look is a step that clients wait for; so is the one when a lease has ended."""
        state, look_s = self.state, self._timing.look_s
        is_waiting = not state.is_store_reached or state.asked_s != float("inf")
        if not state.is_settled and not is_waiting:
            return min(_CHANGING_S, look_s)
        left_s = state.seen_s + self._timing.ended_after_s(state.found.record if state.found else None) - self._now_s()
        return min(look_s, left_s + _AFTER_S) if left_s > 0 else look_s

    async def hand_over(self) -> bool:
        """Before a planned stop: make a member in sync the master. False when there is none, or it took too long."""
        until_s, is_asked = self._now_s() + 2 * self._timing.hold_s, False
        while self._now_s() < until_s:
            await self.look()
            state = self.state
            if state.found is None or state.found.record.holder != self.me:
                if state.is_settled:
                    return is_asked
            elif not state.found.record.wanted:
                others = [each for each in state.found.record.in_sync if each != self.me]
                if is_asked or not others or not state.is_store_reached:
                    return False
                is_asked = await self._ask_for_change(state.found, others[0])
            await asyncio.sleep(min(_CHANGING_S, self._timing.look_s))
        return False

    async def _ask_for_change(self, found: StoredLease, to: str) -> bool:
        try:
            await self._store.write(asked_to_hand_over(found.record, to), found.version)
        except LeaseError as error:
            self._report(f"not handed over: {error}")
            return False
        return True

    async def look(self) -> None:
        """One look and one step."""
        try:
            await self._note_record()
            if self._may_rest():
                return
            text = await self._step()
        except LeaseConflictError as error:
            text = f"somebody else was faster: {error}"
        except LeaseError as error:
            self.state.is_store_reached = False
            text = f"lease store: {error}"
        except MQError as error:
            text = f"broker: {error}"
        self._report(text)

    async def _note_record(self) -> None:
        found = await self._store.read()
        self.state.note_record(found, self._now_s(), self._timing.duration_s)

    def _may_rest(self) -> bool:
        """Whether everything is as it was at the last step, and that was shorter ago than a renewal."""
        state, timing, now_s = self.state, self._timing, self._now_s()
        if state.is_news or not (state.is_sure and state.is_settled and state.asked_s == float("inf")):
            return False
        assert state.found is not None
        if state.held_s is not None or state.failing_s != float("inf"):  # clients wait for the next step
            return False
        if now_s - state.seen_s > timing.ended_after_s(state.found.record):
            return False
        is_holder = state.found.record.holder == self.me
        return now_s - (state.renewed_s if is_holder else state.stepped_s) < timing.renew_s

    async def _step(self) -> str:
        """What is done, in a sentence."""
        self.state.is_news, self.state.stepped_s = False, self._now_s()
        try:
            broker = await self._broker.status()
        except MQError as error:
            self.state.broker = None
            return f"the broker does not answer: {error}"
        state, now_s = self.state, self._now_s()
        state.note_broker(broker)
        state.note_positions(broker, now_s, self._timing.absent_s)
        state.failing_s = min(state.failing_s, now_s) if broker.unfit else float("inf")
        state.held_s = (state.held_s if state.held_s is not None else now_s) if broker.held else None
        state.note_wanted(now_s)
        sight = self._sight(broker, now_s)
        step = decide(sight)
        if isinstance(step, Ask):
            state.asked_s = min(state.asked_s, now_s)
            census = await self._peers.census(step.members, broker, only=step.only)
            step = decide(replace(sight, now_s=self._now_s(), census=census, asked_s=state.asked_s))
            if not isinstance(step, KeepWaiting):
                state.asked_s = float("inf")  # they have answered: what follows is not waited for
            await self._note(step.reason if isinstance(step, KeepWaiting) else "", broker)
        else:
            state.asked_s = float("inf")
            await self._note("", broker)
        return await self._carry_out(step, broker)

    def _sight(self, broker: BrokerStatus, now_s: float) -> Sight:
        state = self.state
        return Sight(
            me=self.me,
            now_s=now_s,
            timing=self._timing,
            broker=broker,
            record=state.found.record if state.found else None,
            seen_s=state.seen_s,
            renewed_s=state.renewed_s,
            heard_s=state.heard_s,
            held_s=state.held_s,
            wanted_s=state.wanted[1],
            is_sure=state.is_sure,
            is_holder_asked=state.found == state.holder_asked,
            is_restarted=broker.role is MemberRole.MASTER and not broker.renewals and broker.number != state.promoted,
            mine=state.mine,
            newest=state.newest,
            since_s=state.since_s,
            wall_ms=self._wall_ms(),
            failing_s=state.failing_s,
        )

    async def _note(self, waiting: str, broker: BrokerStatus) -> None:
        """The broker shows what its agent waits for, and keeps the names of all members."""
        state, now_s = self.state, self._now_s()
        record = state.found.record if state.found else None
        members = record.everybody if record is not None and state.is_sure else ()
        text, at_s = state.noted
        is_due = waiting != text or (now_s - at_s > _NOTE_S if waiting else bool(broker.waiting))
        newest = broker.number if broker.is_new and members and record and record.number == broker.number else 0
        if is_due or newest or (members and set(members) != set(broker.members)):
            await self._broker.note(waiting, members, newest)
            state.noted = waiting, now_s

    async def _carry_out(self, step: Step, broker: BrokerStatus) -> str:
        match step:
            case Ask(members=members):
                return f"asking {', '.join(members)}"
            case AskHolder(holder):
                self.state.holder_asked = self.state.found
                census = await self._peers.census((holder,), broker, only=True)
                self.state.note_holder(census.answers.get(holder))
                return f"{holder} is master"
            case KeepWaiting(reason):
                return reason
            case Write(record, reason):
                await self._write(record, broker)
                return reason
            case Promote(number, waits):
                await self._broker.promote(number, waits)
                self.state.is_sure, self.state.renewed_s, self.state.since_s = True, float("-inf"), self._now_s()
                self.state.promoted = number
                return f"promoting the broker under lease {number}"
            case Follow(master, number, decided):
                await self._broker.follow(master, number, decided)
                return f"following {master} under lease {number}"
            case HoldSends():
                await self._broker.hold()
                return "sends wait, for a planned change"
            case ReleaseSends():
                await self._broker.release()
                return "sends go on"

    async def _write(self, record: LeaseRecord, broker: BrokerStatus) -> None:
        begun_s = self._now_s()  # the grant is counted from before the lease was renewed
        state = self.state
        is_ours = record.holder == self.me
        if not is_ours:  # whether or not the store answers, this is not a lease that the set had left behind
            state.mine = None
        if record.handed:  # its grant ends now: the next one is another's
            assert state.found is not None
            await self._broker.grant(state.found.record, begun_s, broker.required)
        version = await self._store.write(record, state.found.version if state.found else None)
        state.found, state.seen_s = StoredLease(record, version), self._now_s()
        if not is_ours:
            return
        state.renewed_s, state.is_sure, state.mine = begun_s, True, record
        if broker.role is MemberRole.MASTER and broker.number == record.number:
            until_s = begun_s + record.duration_ms / 1000 - self._timing.margin_s
            slow = [each for each, at_s in state.heard_s.items() if begun_s - at_s > self._timing.absent_s]
            required = required_members(record, broker, slow)
            await self._broker.grant(record, until_s, required)
            state.promoted = 0

    def _report(self, step: str) -> None:
        """What is as before is not logged again, nor what was logged a moment ago, nor that a lease was renewed."""
        state, now_s = self.state, self._now_s()
        if step == RENEWED:
            logger.debug("failover: %s", step)
            state.step = step  # between two renewals there is no other one: a failure that comes again is new
            return
        if step != state.step and now_s - state.reported_s.get(step, float("-inf")) > _LOG_AGAIN_S:
            logger.info("failover: %s", step)
            if len(state.reported_s) >= _REPORTED_MAX:
                state.reported_s.clear()
            state.reported_s[step] = now_s
        state.step = step
