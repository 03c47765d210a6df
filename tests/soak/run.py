"""One run: three members, their agents, a lease store, a name server, the load; a fault every few minutes; the ledger.

for HOURS:  load ─▶ fault ─▶ all are there again ─▶ load …         a sample every few seconds, the ledger every minute
then:       senders stop ─▶ everything is consumed or dead ─▶ what is missing is looked for in the master's log
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from pyromq.errors import MQError
from pyromq.net import Address
from pyromq.replication.settings import Role
from pyromq.store.settings import StoreSettings
from pyromq.testing import AsyncServerProcess
from tests.faults.agents import DEFAULT, ManagedCluster, ManagedMember, Pace
from tests.faults.lease_servers import LEASE_SERVERS, LeaseServer
from tests.soak.book import DeliveryBook
from tests.soak.faults import FAULTS, choose
from tests.soak.load import EXPECTED, TIMED, SoakLoad, Waits
from tests.soak.samples import ProcessSample, RunFolder, Sample, disk_bytes, quantiles_ms, sample_process

STORE: Final = StoreSettings(
    segment_bytes=4 << 20,
    queue_file_entries=4_000,
    index_slots=20_000,
    index_entries=60_000,
    timer_log_bytes=1 << 20,
    keep_ms=20 * 60_000,
    delete_hours=tuple(range(24)),
    clean_percent=97,
    force_clean_percent=98,
    full_percent=99,
)
"""Small files that are kept for twenty minutes: what retention leaves behind would be seen within the hour."""
_JUDGE_S: Final = 60.0
_SETTLE_S: Final = 420.0  # longer than the retries of a message that dies
_FAULT_S: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakPlan:
    """How a run goes."""

    hours: float
    rate: float = 30.0
    seed: int = 1
    fault_every_s: float = 180.0
    sample_s: float = 10.0
    lease_store: str = "etcd"
    settle_s: float = _SETTLE_S
    pace: Pace = DEFAULT
    waits: Waits = Waits()  # noqa: RUF009 - frozen


class SoakMember(ManagedMember):
    """A machine with the settings of a broker that nobody gave any, but for the sizes of its files."""

    def settings(self, role: Role, broker_id: int) -> dict[str, Any]:
        given = super().settings(role, broker_id)
        if self.pace is DEFAULT:
            del given["transaction_timeout_ms"], given["transaction_check_interval_ms"]
        return given


@dataclass
class SoakRun:
    """``await SoakRun(…).go()`` returns what was wrong."""

    plan: SoakPlan
    scratch: Path
    record: RunFolder
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    tell: Callable[[str], None] = lambda line: None
    faults: int = 0
    problems: list[str] = field(default_factory=list)
    _late_in_log: dict[tuple[str, str], bool] = field(default_factory=dict)  # by group and id, when it was noticed

    async def go(self) -> list[str]:
        plan = self.plan
        self.book = DeliveryBook(EXPECTED, timed=TIMED)
        self._rng = Random(f"{plan.seed} {self.record.name}")
        self._begun_s = time.monotonic()
        with LEASE_SERVERS[plan.lease_store](self.scratch / "leases") as leases:
            async with AsyncServerProcess("nameserver") as names, self._cluster(leases, names) as self.cluster:
                self._names = names
                self.load = SoakLoad(names.nameserver, self.scratch, plan.rate, self._rng, self.book, plan.waits)
                self._event(
                    "begin", plan=f"{plan.hours:g} h, {plan.rate:g} messages/s, {plan.lease_store}", seed=plan.seed
                )
                async with self.load.running():
                    await self._live()
                    await self._settle()
                self._collect()
        self._event("end", problems=self.problems)
        return self.problems

    @asynccontextmanager
    async def _cluster(self, leases: LeaseServer, names: AsyncServerProcess) -> AsyncIterator[ManagedCluster]:
        folder = self.scratch / "members"
        folder.mkdir(parents=True)
        members = [SoakMember(folder, number, leases, self.plan.pace, store=STORE) for number in range(3)]
        cluster = ManagedCluster(members, Role.SYNC_MASTER, leases)
        try:
            for member in members:
                for proxy in member.proxies:
                    await proxy.__aenter__()
            await cluster.start(Address.parse(names.nameserver))
            yield cluster
        finally:
            for member in members:
                await member.kill()
                for proxy in member.proxies:
                    await proxy.__aexit__(None, None, None)

    # --- the hours ---

    async def _live(self) -> None:
        self._begun_s = time.monotonic()
        self.load.send_on()
        sampling = asyncio.ensure_future(self._sample_on())
        judging = asyncio.ensure_future(self._judge_on())
        try:
            await self._disturb()
        finally:
            for task in (sampling, judging):
                task.cancel()
            found = await asyncio.gather(sampling, judging, return_exceptions=True)
            self.problems += [repr(each) for each in found if isinstance(each, Exception)]

    async def _disturb(self) -> None:
        until_s = self._begun_s + self.plan.hours * 3600
        while not self.stopping.is_set():
            pause_s = self.plan.fault_every_s * self._rng.uniform(0.5, 1.5)
            left_s = until_s - time.monotonic()
            if not await self._quiet(min(pause_s, left_s)) or left_s < pause_s:
                return
            await self._fault(choose(self._rng))

    async def _quiet(self, pause_s: float) -> bool:
        """Whether the time is over; False when the run has to stop."""
        try:
            async with asyncio.timeout(max(0.0, pause_s)):
                await self.stopping.wait()
        except TimeoutError:
            return True
        return False

    async def _fault(self, name: str) -> None:
        happens, _ = FAULTS[name]
        self.faults += 1
        self.load.longest_gap_s, begun_s = 0.0, time.monotonic()
        try:
            async with asyncio.timeout(_FAULT_S):
                await happens(self.cluster, self._rng)
            await self.load.grow()
        except (AssertionError, TimeoutError, MQError) as error:
            self._problem(f"{name}: not over: {error!r}")
            self.cluster.heal()
        self._event(
            "fault",
            name=name,
            took_s=round(time.monotonic() - begun_s, 1),
            longest_gap_s=round(self.load.longest_gap_s, 2),
        )

    async def _judge_on(self) -> None:
        while True:
            await asyncio.sleep(_JUDGE_S)
            await self._judge()

    async def _judge(self) -> None:
        try:
            await self.load.count_letters()
        except MQError as error:  # no master at this moment
            self._event("judge", error=repr(error))
        if late := self.book.newly_late():
            stored = await self.cluster.master.stored_ids()  # now: retention takes it before the run is over
            for each in late:
                self._late_in_log[each.group, each.message_id] = each.message_id in stored
                self._event("late", message=str(each), in_log=each.message_id in stored)
        self.book.forget()
        self._collect()

    def _collect(self) -> None:
        self.load.judge_order()
        found, self.load.problems = self.load.problems, []
        for each in [*found, *self._new_tracebacks()]:
            self._problem(each)

    def _new_tracebacks(self) -> list[str]:
        found = self.cluster.tracebacks()
        new, self._tracebacks = found[self._tracebacks :] if len(found) > self._tracebacks else [], len(found)
        return [f"traceback: {each[:800]}" for each in new]

    _tracebacks: int = 0

    # --- the end ---

    async def _settle(self) -> None:
        """Everything acknowledged is consumed or dead after some time; what is not is missing."""
        await self.load.pause()
        until_s = time.monotonic() + self.plan.settle_s
        while self.book.outstanding() and time.monotonic() < until_s:
            await asyncio.sleep(min(5.0, self.plan.sample_s))
            await self._judge()
            self._sample()
        missing = self.book.outstanding()
        if missing:
            stored = await self.cluster.master.stored_ids()
            for each in missing:
                in_log = self._late_in_log.get((each.group, each.message_id), each.message_id in stored)
                self._problem(f"{'in the log, not delivered' if in_log else 'LOST'}: {each}")
        self._sample()

    # --- what is written ---

    async def _sample_on(self) -> None:
        while True:
            await asyncio.sleep(self.plan.sample_s)
            self._sample()

    def _processes(self) -> dict[str, ProcessSample]:
        pids = {"clients": os.getpid(), "name server": self._names.pid}
        for member in self.cluster.machines:
            pids |= member.pids
        found = {name: sample_process(pid) for name, pid in pids.items()}
        return {name: each for name, each in found.items() if each is not None}

    def _sample(self) -> None:
        load, book = self.load, self.book
        sends, load.send_times_s = list(load.send_times_s), type(load.send_times_s)(maxlen=load.send_times_s.maxlen)
        waits = list(book.waits_s)
        book.waits_s.clear()
        left = book.outstanding()
        sample = Sample(
            at=round(time.time(), 3),
            elapsed_s=round(time.monotonic() - self._begun_s, 1),
            acknowledged=book.acknowledged.total(),
            deliveries=book.delivered.total(),
            duplicates=book.duplicates.total(),
            dead=book.dead.total(),
            outstanding=len(left),
            oldest_s=round(max((each.age_s for each in left), default=0.0), 1),
            late=book.late,
            one_copy=load.one_copy,
            failed=load.failed.total(),
            unknown=load.unknown,
            faults=self.faults,
            problems=len(self.problems),
            send_ms=quantiles_ms(sends),
            wait_ms=quantiles_ms(waits),
            remembered=book.remembered,
            processes=self._processes(),
            disk={member.name: disk_bytes(member.folder) for member in self.cluster.machines},
        )
        self.record.write_sample(sample)

    def _problem(self, text: str) -> None:
        self.problems.append(text)
        self._event("problem", text=text)

    def _event(self, kind: str, **facts: Any) -> None:
        self.record.write_event(kind, at=round(time.time(), 3), **facts)
        self.tell(f"{kind} {facts}")
