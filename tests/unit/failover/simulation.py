"""A group of brokers with their agents in simulated time: pauses, cuts, crashes, lost answers, all from one seed.

With ``store_faults`` the lease store is set back to an older state, or emptied, too.

Everything runs on an event loop whose clock jumps to the next timer, so minutes take a moment and a seed gives the same
run every time. ``Group.run`` raises AssertionError when two masters acknowledge, or when something acknowledged is
gone.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from msgspec.structs import replace

from pyromq.broker.base.lease import LeaseState
from pyromq.errors import MQError
from pyromq.failover.agent import Agent
from pyromq.failover.doubt import Census
from pyromq.failover.record import (
    BrokerStatus,
    LeaseConflictError,
    LeaseError,
    LeaseRecord,
    MemberRole,
    MemberStatus,
)
from pyromq.failover.recovering import plan_recovery
from pyromq.failover.sight import Timing
from pyromq.failover.store import StoredLease
from pyromq.wire.json.membership import Epoch

T = TypeVar("T")
CALL_S = 1.0  # the longest that a call of an agent takes before it is given up


class SimulatedLoop(asyncio.SelectorEventLoop):
    """When nothing is ready, the clock moves to the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 1000.0

    def time(self) -> float:
        return self._now_s

    def _run_once(self) -> None:
        inside: Any = self
        if not inside._ready and inside._scheduled:
            self._now_s = max(self._now_s, inside._scheduled[0]._when)
        inside_super: Any = super()
        inside_super._run_once()


def simulate(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(work())


def now_s() -> float:
    return asyncio.get_running_loop().time()


class Node:
    """One machine: its broker and its agent stop together when it is paused or dead."""

    def __init__(self, name: str, chance: random.Random) -> None:
        self.name = name
        self.chance = chance
        self.paused_until_s = 0.0
        self.is_alive = True
        self.cut_off: set[str] = set()  # nodes, and "store"

    async def breathe(self, most_s: float = 0.02) -> None:
        """Time passes, in which the machine may have been paused."""
        await asyncio.sleep(self.chance.uniform(0.0005, most_s))
        while now_s() < self.paused_until_s:  # noqa: ASYNC110, it may be paused again meanwhile
            await asyncio.sleep(self.paused_until_s - now_s() + 0.001)

    def reaches(self, other: str) -> bool:
        return self.is_alive and other not in self.cut_off


class SimulatedStore:
    """Linear, as etcd is: a write is seen by every read that begins after it."""

    def __init__(self) -> None:
        self.record: LeaseRecord | None = None
        self.version = 0
        self.history: list[tuple[LeaseRecord, int]] = []  # backups, one of each state

    def put(self, record: LeaseRecord) -> str:
        self.record, self.version = record, self.version + 1
        self.history.append((record, self.version))
        return str(self.version)

    def empty(self) -> None:
        self.record, self.version = None, 0

    def set_back(self, to: int) -> None:
        """A backup is restored, versions and all."""
        self.record, self.version = self.history[to]


class StoreDoor:
    """How one node reaches it."""

    def __init__(self, node: Node, store: SimulatedStore) -> None:
        self._node, self._store = node, store

    async def read(self) -> StoredLease | None:
        await self._arrive()
        store = self._store
        found = None if store.record is None else StoredLease(store.record, str(store.version))
        await self._return()
        return found

    async def write(self, record: LeaseRecord, expected: str | None) -> str:
        await self._arrive()
        store = self._store
        if expected != (None if store.record is None else str(store.version)):
            await self._return()
            raise LeaseConflictError("changed")
        version = store.put(record)
        if self._node.chance.random() < 0.02:
            raise LeaseError("the answer got lost")
        await self._return()
        return version

    async def close(self) -> None: ...

    async def _arrive(self) -> None:
        await self._node.breathe(0.2)
        if not self._node.reaches("store"):
            raise LeaseError("cut off")

    async def _return(self) -> None:
        await self._node.breathe(0.2)
        if not self._node.reaches("store"):
            raise LeaseError("cut off")


class SimulatedBroker:
    """A log of numbers, replicated one by one; it obeys grants to the letter."""

    def __init__(self, group: Group, node: Node, *, is_master: bool) -> None:
        self.group, self.node = group, node
        self.role = MemberRole.MASTER if is_master else MemberRole.REPLICA
        self.number = 0
        self.log_number = 0
        self.kept = LeaseState(is_new=True)  # what it keeps of leases besides these two numbers
        self.is_refusing = False  # to cut what was acknowledged
        self.members: tuple[str, ...] = ()
        self.renewals = 0
        self.master = ""
        self.log: list[int] = []
        self.granted_until_s = 0.0
        self.required: tuple[str, ...] = ()
        self.acknowledged = 0
        self.held = False
        self.reports: dict[str, tuple[int, float]] = {}  # by replica: position, and when
        self._change: asyncio.Task[None] | None = None  # of its role

    # --- what the agent asks ---

    async def status(self) -> BrokerStatus:
        await self._asked()
        return self.told()

    def told(self) -> BrokerStatus:
        members = [
            MemberStatus(address=name, position=position, metadata=1)
            for name, (position, at_s) in self.reports.items()
            if now_s() - at_s < 2.0 and self.role is MemberRole.MASTER
        ]
        return BrokerStatus(
            address=self.node.name,
            role=self.role,
            number=self.number,
            end=len(self.log),
            flushed=len(self.log),
            metadata=1,
            acknowledged=self.acknowledged,
            required=self.required,
            waits=self.group.waits,
            master=self.master,
            replicas=tuple(members),
            held=self.held,
            changing=self._change is not None and not self._change.done(),
            granted_s=max(0.0, self.granted_until_s - now_s()),
            log_number=self.log_number,
            epochs=self.kept.epochs,
            is_new=self.kept.is_new,
            members=self.members,
            renewals=self.renewals,
        )

    async def grant(self, record: LeaseRecord, until_s: float, required: tuple[str, ...]) -> None:
        await self._asked()
        if self.role is MemberRole.MASTER and record.number == self.number:
            self.members = tuple(sorted({*self.members, *required}))
            self.granted_until_s, self.required, self.renewals = until_s, required, record.renewals

    async def note(self, waiting: str, members: tuple[str, ...], newest: int = 0) -> None:
        await self._asked()
        self.waiting, self.members = waiting, members or self.members
        if newest and newest == self.number:
            self.kept = replace(self.kept, is_new=False)

    async def promote(self, number: int, waits: bool | None) -> None:
        await self._asked()
        self._later(self._promote(number))

    async def _promote(self, number: int) -> None:
        await self.node.breathe(0.4)  # the store is closed and opened again
        if number > self.number or (number == self.number and self.role is MemberRole.REPLICA):
            self.role, self.number, self.master, self.held = MemberRole.MASTER, number, "", False
            self.log_number, self.renewals = number, 0
            earlier = tuple(each for each in self.kept.epochs if each.number < number and each.start < len(self.log))
            mark = self.node.chance.randrange(1, 1 << 30)
            epoch = Epoch(number=number, start=len(self.log), mark=mark)
            self.kept, self.is_refusing = replace(self.kept, epochs=(*earlier, epoch), is_new=False), False
            self.granted_until_s, self.required, self.reports = 0.0, (), {}
            self.acknowledged = len(self.log)  # any of it may have been acknowledged

    async def follow(self, master: str, number: int, decided: int = 0) -> None:
        await self._asked()
        if number < self.number:
            raise MQError("it has seen a newer lease")
        if number >= self.number:
            self.role, self.number, self.master, self.held = MemberRole.REPLICA, number, master, False
            self.kept = replace(self.kept, decided=max(decided, self.kept.decided))
            self.granted_until_s = 0.0

    async def hold(self) -> None:
        await self._asked()
        self.held = True

    async def release(self) -> None:
        await self._asked()
        self.held = False

    def _later(self, change: Coroutine[Any, Any, None]) -> None:
        if self._change is not None and not self._change.done():
            change.close()
            raise MQError("the broker changes its role at this moment")
        self._change = asyncio.create_task(change)

    def restart(self) -> None:
        """The process dies and comes back: role, number and log are on its disk, the rest is not."""
        if self._change is not None:
            self._change.cancel()
        self.granted_until_s, self.required, self.reports, self.held = 0.0, (), {}, False
        self.acknowledged, self.renewals = len(self.log), 0

    def lose_disk(self) -> None:
        """It comes back as it was started, with an empty folder."""
        self.restart()
        self.role = MemberRole.MASTER if self.node is self.group.nodes[0] else MemberRole.REPLICA
        self.number = self.log_number = self.acknowledged = 0
        self.kept, self.is_refusing = LeaseState(is_new=True), False
        self.members, self.master, self.log = (), "", []

    async def _asked(self) -> None:
        await self.node.breathe()
        if not self.node.is_alive:
            raise MQError("the broker does not answer")

    # --- what it does by itself ---

    @property
    def may_acknowledge(self) -> bool:
        return self.node.is_alive and self.role is MemberRole.MASTER and now_s() < self.granted_until_s

    async def replicate(self) -> None:
        while True:
            await self.node.breathe(0.1)
            master = self.group.brokers.get(self.master)
            if self.role is not MemberRole.REPLICA or master is None or not self.node.is_alive:
                continue
            if not (self.node.reaches(self.master) and master.node.reaches(self.node.name)):
                continue
            if (
                master.role is not MemberRole.MASTER
                or master.number != self.number
                or now_s() < master.node.paused_until_s
            ):
                continue
            is_longer = self.log != master.log[: len(self.log)]
            self.is_refusing = is_longer and self.kept.broken_promise(master.kept.epochs) is not None
            if self.is_refusing:
                continue
            while self.log != master.log[: len(self.log)]:
                self.log.pop()  # beyond what the master has
            self.log_number = self.number
            self.kept = replace(self.kept, epochs=master.kept.epochs)
            if master.kept.promised == master.kept.epochs[-1]:
                self.kept = replace(self.kept, promised=master.kept.promised)
            self.log += master.log[len(self.log) : len(self.log) + self.node.chance.randrange(1, 6)]
            master.reports[self.node.name] = (len(self.log), now_s())

    async def send(self, message: int) -> None:
        """One producer's send: acknowledged, or nobody knows."""
        if not self.may_acknowledge or self.held:
            return
        number = self.number
        self.log.append(message)
        end, begun_s = len(self.log), now_s()
        while now_s() - begun_s < 3.0:
            await self.node.breathe()
            if self.number != number or not self.may_acknowledge or len(self.log) < end:
                return
            if all(self.reports.get(name, (0, 0.0))[0] >= end for name in self.required):
                self.acknowledged = max(self.acknowledged, end)
                if self.group.waits:
                    self.kept = replace(self.kept, promised=self.kept.epochs[-1])
                self.group.acknowledge(self, message, has_copies=bool(self.required))
                return


class SimulatedPeers:
    def __init__(self, group: Group, node: Node) -> None:
        self._group, self._node = group, node

    async def census(self, members: tuple[str, ...], broker: BrokerStatus, *, only: bool = False) -> Census:
        await self._node.breathe(0.2)
        answers = {}
        for name in members:
            other = self._group.brokers[name]
            is_up = other.node.is_alive and now_s() >= other.node.paused_until_s
            if (
                other.node is not self._node
                and is_up
                and self._node.reaches(name)
                and other.node.reaches(self._node.name)
            ):
                answers[name] = other.told()
        await self._node.breathe(0.2)
        return Census(answers=answers)


class Group:
    store_faults = False  # the lease store is set back and emptied, too

    def __init__(self, seed: int, *, members: int = 3, waits: bool = True, timing: Timing | None = None) -> None:
        self.chance = random.Random(seed)
        self.waits = waits
        self.store = SimulatedStore()
        self.timing = timing or Timing()
        self.nodes = [Node(f"broker-{number}", self.chance) for number in range(members)]
        self.brokers = {
            node.name: SimulatedBroker(self, node, is_master=number == 0) for number, node in enumerate(self.nodes)
        }
        self.agents = {node.name: self.new_agent(node) for node in self.nodes}
        self._running: dict[str, asyncio.Task[None]] = {}
        self.killed = 0  # agents
        self.store_hurt = 0  # times
        self.operated = 0  # an operator had to decide
        self.is_over = False  # nothing happens any more: everything has to be well after a while
        self.acknowledged: list[int] = []  # with copies in all members in sync
        self.alone: list[int] = []  # by a master without replicas: the status of the send says so
        self.last_number = 0
        self.last_copied = 0  # under which something was acknowledged that others have, too
        self.promotions = 0
        self._sent = 0

    def new_agent(self, node: Node) -> Agent:
        """One that remembers nothing."""
        door, peers = StoreDoor(node, self.store), SimulatedPeers(self, node)
        return Agent(node.name, door, self.brokers[node.name], peers, timing=self.timing, now_s=now_s)

    def kill_agent(self, name: str) -> None:
        """Wherever it is; another one is started a little later."""
        self._running[name].cancel()

    async def _look_after(self, node: Node) -> None:
        while True:
            self.agents[node.name] = self.new_agent(node)
            self._running[node.name] = asyncio.create_task(self.agents[node.name].run())
            try:
                await asyncio.wait((self._running[node.name],))
            finally:
                self._running[node.name].cancel()
            if not self._running[node.name].cancelled():
                self._running[node.name].result()
            self.killed += 1
            await asyncio.sleep(self.chance.uniform(0.1, 3.0))

    def acknowledge(self, broker: SimulatedBroker, message: int, *, has_copies: bool) -> None:
        others = [each for each in self.brokers.values() if each is not broker and each.may_acknowledge]
        running = [each for each in others if now_s() >= each.node.paused_until_s]
        assert not running, f"two masters at {now_s()}: {broker.node.name}, {running[0].node.name}"
        last = (
            self.last_copied if self.store_hurt else self.last_number
        )  # an operator is asked about what one had alone
        assert broker.number >= last, "a master of an earlier lease acknowledged"
        if has_copies:
            self.last_copied = max(self.last_copied, broker.number)
        self.promotions += broker.number > self.last_number
        self.last_number = broker.number
        (self.acknowledged if has_copies else self.alone).append(message)

    async def run(self, for_s: float, *, faults: bool = True) -> None:
        tasks = [asyncio.create_task(self._look_after(node)) for node in self.nodes]
        tasks += [asyncio.create_task(broker.replicate()) for broker in self.brokers.values()]
        tasks.append(asyncio.create_task(self._produce()))
        try:
            until_s = now_s() + for_s
            while now_s() < until_s:
                await asyncio.sleep(self.pause_s())
                for task in tasks:
                    if task.done():
                        task.result()
                if faults:
                    self._something_happens()
            self.is_over = True
            for node in self.nodes:
                node.is_alive, node.cut_off, node.paused_until_s = True, set(), 0.0
            await asyncio.sleep(60)
            if self.store_hurt:
                await self.operate()
            self._check()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def operate(self) -> None:
        """Somebody who looks, and decides where agents say that they may not."""
        brokers = self.brokers.values()
        masters = [each for each in brokers if each.may_acknowledge]
        refusing = [each for each in brokers if each.is_refusing]
        if masters and not refusing and all(each.number == masters[0].number for each in brokers):
            if all(each.role is MemberRole.REPLICA for each in brokers if each is not masters[0]):
                return
        self.operated += 1
        if len(refusing) > 1:  # two have what the master lacks: one of them is it from now on
            for master in masters:
                self.crash(master.node)
            await asyncio.sleep(30)
            for master in masters:
                master.node.is_alive = True
            masters = []
        brokers = refusing if len(refusing) > 1 else list(brokers)
        best = masters[0] if masters else max(brokers, key=lambda each: (each.log_number, len(each.log)))
        statuses = {name: each.told() for name, each in self.brokers.items()}
        self.store.put(plan_recovery(self.store.record, statuses, best.node.name).record)
        await asyncio.sleep(60)

    async def _produce(self) -> None:
        running: set[asyncio.Task[None]] = set()
        while True:
            await asyncio.sleep(self.chance.uniform(0.01, 0.2))
            self._sent += 1
            broker = self.chance.choice(list(self.brokers.values()))
            task = asyncio.create_task(broker.send(self._sent))
            running.add(task)
            for done in [each for each in running if each.done()]:
                running.discard(done)
                done.result()

    def pause_s(self) -> float:
        """Between two things that happen."""
        return self.chance.uniform(0.5, 12.0)

    def crash(self, node: Node) -> None:
        """A machine: broker and agent remember what is on its disk, once it is back."""
        node.is_alive = False
        self.kill_agent(node.name)
        self.brokers[node.name].restart()

    def hurt_store(self) -> None:
        self.store_hurt += 1
        if self.chance.random() < 0.4:
            self.store.empty()
        elif self.store.history:
            self.store.set_back(self.chance.randrange(len(self.store.history)))

    def _something_happens(self) -> None:
        chance, node = self.chance, self.chance.choice(self.nodes)
        match chance.randrange(13 if self.store_faults else 9):
            case 0:
                node.paused_until_s = now_s() + chance.uniform(0.5, 30)
            case 1:
                node.is_alive = False
            case 2:
                node.is_alive, node.cut_off = True, set()
            case 3:
                node.cut_off |= {"store"}
            case 4:
                node.cut_off |= {chance.choice(self.nodes).name}
            case 5:
                node.cut_off = set()
            case 6:
                if self.store.record is not None:
                    record = self.store.record
                    self.store.put(replace(record, wanted=node.name, renewals=record.renewals + 1))
            case 7:
                self.kill_agent(node.name)
            case 8:
                self.brokers[node.name].restart()
            case 9 | 10:
                self.crash(node)
            case 11 | 12:
                self.hurt_store()

    def _check(self) -> None:
        masters = [each for each in self.brokers.values() if each.may_acknowledge]
        assert len(masters) == 1, [
            (each.node.name, each.role, self.agents[each.node.name].state.step) for each in self.brokers.values()
        ]
        lost = [message for message in self.acknowledged if message not in set(masters[0].log)]
        assert not lost, f"acknowledged and gone: {lost[:10]}"
        self.logs_agree(masters[0])

    def logs_agree(self, master: SimulatedBroker) -> None:
        for broker in self.brokers.values():
            assert broker.log == master.log[: len(broker.log)], broker.node.name
