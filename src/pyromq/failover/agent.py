"""The agent beside a broker: looks at the lease and at the broker, takes one step, waits, looks again."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from pyromq.clock import machine_s
from pyromq.errors import MQError
from pyromq.failover.record import BrokerStatus, LeaseConflictError, LeaseError, LeaseRecord, Role
from pyromq.failover.rules import (
    RENEWED,
    Follow,
    Hold,
    Promote,
    Release,
    Sight,
    Step,
    Timing,
    Wait,
    Write,
    asked_to_hand_over,
    decide,
    required_members,
)
from pyromq.failover.store import Found, LeaseStore

logger = logging.getLogger(__name__)

_CHANGING_S: Final = 0.05


class BrokerControl(Protocol):
    """What an agent asks of the broker beside it; each raises MQError and returns in bounded time."""

    async def status(self) -> BrokerStatus: ...

    async def grant(self, number: int, until_s: float, required: tuple[str, ...]) -> None:
        """Acknowledge until then, by the monotonic clock of this machine, and only what those replicas have."""

    async def promote(self, number: int) -> None:
        """Be master; nothing is acknowledged before the first grant."""

    async def follow(self, master: str, number: int) -> None:
        """Be a replica of that broker; what the log has beyond the master's is put aside."""

    async def hold(self) -> None: ...

    async def release(self) -> None: ...


@dataclass
class AgentState:
    """What an agent remembers between two looks, and what it shows."""

    found: Found | None = None
    seen_s: float = 0.0
    renewed_s: float = float("-inf")
    heard_s: dict[str, float] = field(default_factory=dict)
    ends: deque[tuple[float, int]] = field(default_factory=deque)  # of the broker's log: when it was seen, where it was
    held_s: float | None = None
    step: str = "not looked yet"
    is_store_reached: bool = False
    broker: BrokerStatus | None = None  # as it was seen last

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
        return (broker.role is Role.MASTER and broker.granted_s > 0) == (record.holder == broker.address)


class Agent:
    """``run`` until cancelled. Whatever fails is tried again at the next look; nothing is assumed to have worked."""

    def __init__(
        self,
        me: str,
        store: LeaseStore,
        broker: BrokerControl,
        *,
        timing: Timing | None = None,
        now_s: Callable[[], float] = machine_s,
    ) -> None:
        self.me = me
        self._store = store
        self._broker = broker
        self._timing = timing or Timing()
        self._now_s = now_s
        self.state = AgentState()

    async def run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(self._pause_s())

    def _pause_s(self) -> float:
        """While masters change, every look is a step that clients wait for."""
        state, look_s = self.state, self._timing.look_s
        return look_s if state.is_settled or not state.is_store_reached else min(_CHANGING_S, look_s)

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

    async def _ask_for_change(self, found: Found, to: str) -> bool:
        try:
            await self._store.write(asked_to_hand_over(found.record, to), found.version)
        except LeaseError as error:
            self._tell(f"not handed over: {error}")
            return False
        return True

    async def look(self) -> None:
        """One look and one step."""
        try:
            await self._note_record()
            await self._step()
        except LeaseConflictError as error:
            self._tell(f"somebody else was faster: {error}")
        except LeaseError as error:
            self.state.is_store_reached = False
            self._tell(f"lease store: {error}")
        except MQError as error:
            self._tell(f"broker: {error}")

    async def _note_record(self) -> None:
        found = await self._store.read()
        state, before = self.state, self.state.found
        state.is_store_reached = True
        if found is None or before is None or found.version != before.version:
            state.seen_s = self._now_s()  # after the read: it cannot be older than that
        state.found = found

    async def _step(self) -> None:
        broker = await self._status()
        state = self.state
        now_s = self._now_s()
        state.broker = broker
        if broker is not None:
            state.note_positions(broker, now_s, self._timing.absent_s)
            state.held_s = (state.held_s if state.held_s is not None else now_s) if broker.held else None
        step = decide(
            Sight(
                me=self.me,
                now_s=now_s,
                timing=self._timing,
                broker=broker,
                record=state.found.record if state.found else None,
                seen_s=state.seen_s,
                renewed_s=state.renewed_s,
                heard_s=state.heard_s,
                held_s=state.held_s,
            )
        )
        await self._carry_out(step, broker)

    async def _status(self) -> BrokerStatus | None:
        try:
            return await self._broker.status()
        except MQError as error:
            self._tell(f"the broker does not answer: {error}")
            return None

    async def _carry_out(self, step: Step, broker: BrokerStatus | None) -> None:
        match step:
            case Wait(reason):
                self._tell(reason)
            case Write(record, reason):
                await self._write(record, reason, broker)
            case Promote(number):
                self._tell(f"promoting the broker under lease {number}")
                await self._broker.promote(number)
                self.state.renewed_s = float("-inf")
            case Follow(master, number):
                self._tell(f"following {master} under lease {number}")
                await self._broker.follow(master, number)
            case Hold():
                await self._broker.hold()
            case Release():
                await self._broker.release()

    async def _write(self, record: LeaseRecord, reason: str, broker: BrokerStatus | None) -> None:
        begun_s = self._now_s()  # the grant is counted from before the lease was renewed
        if record.handed and broker is not None:
            await self._broker.grant(broker.number, begun_s, broker.required)  # it ends now: the next one is another's
        version = await self._store.write(record, self.state.found.version if self.state.found else None)
        state = self.state
        state.found, state.seen_s = Found(record, version), self._now_s()
        self._tell(reason)
        if record.holder != self.me:
            return
        state.renewed_s = begun_s
        if broker is not None and broker.role is Role.MASTER and broker.number == record.number:
            until_s = begun_s + record.duration_ms / 1000 - self._timing.margin_s
            slow = [each for each, at_s in state.heard_s.items() if begun_s - at_s > self._timing.absent_s]
            await self._broker.grant(record.number, until_s, required_members(record, broker, slow))

    def _tell(self, step: str) -> None:
        """What is as before is not logged again, nor that a lease was renewed in between."""
        if step == RENEWED:
            logger.debug("failover: %s", step)
            return
        if step != self.state.step:
            logger.info("failover: %s", step)
        self.state.step = step
