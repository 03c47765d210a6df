"""Rounds: under load something goes wrong, roles change or not, all goes on; then the ledger.

    load ─▶ fault ─▶ (the replica is made master) ─▶ load goes on ─▶ both are there again ─▶ the load ends ─▶ account

With a sync master nothing promised is lost. With an async master what is lost lies at or behind the position that the
master showed as its replica's (``replicationConfirmed``) before the fault: the lag bounds the loss. Consumers that had
read what is gone may pass over as many new messages, which got the same offsets; more than that is a defect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from time import monotonic
from typing import Final

from pyromq.errors import MQError
from pyromq.nameserver.settings import NameServerSettings
from pyromq.replication.settings import Role
from tests.faults.cluster import Cluster, running_cluster
from tests.faults.load import KINDS, READ, SENT, TRANSACTIONS, Load
from tests.faults.times import Pauses
from tests.integration.ledger import Account

SETTLE_S: Final = 120.0
GROWTH: Final = 8  # of every kind, before and after the fault
LIFE: Final = 10  # rounds with the same two brokers

Fault = Callable[["Round"], Awaitable[None]]


@dataclass
class Outcome:
    """Of one round, or the sum of several."""

    fault: str
    role: str
    rounds: int = 0
    promised: int = 0
    apart: int = 0  # stored, not replicated: what the status said
    apart_lost: int = 0
    lost: int = 0
    skipped: int = 0  # passed over: in the log, and no listener ever got it
    duplicates: int = 0
    lag_bytes: int = 0  # the most that was shown before a fault
    delayed_twice: int = 0  # delayed messages that came to their topic more than once
    pauses: Pauses = field(default_factory=Pauses)
    problems: list[str] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        for name in ("rounds", "promised", "apart", "apart_lost", "lost", "skipped", "duplicates", "delayed_twice"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.lag_bytes = max(self.lag_bytes, other.lag_bytes)
        self.pauses.add(other.pauses)
        self.problems += other.problems


@dataclass
class Round:
    """What a fault may use."""

    cluster: Cluster
    load: Load
    rng: Random
    shown: int | None = None  # the replica's position, as the master showed it last before it was gone
    shown_end: int = 0
    loses_apart: bool = False  # what was not promised may be gone: another broker is master now
    problems: list[str] = field(default_factory=list)  # that the fault itself has found

    async def some_time(self, most_s: float = 0.4) -> None:
        """A fault comes at a random moment."""
        await asyncio.sleep(self.rng.random() * most_s)

    async def note_lag(self) -> None:
        facts = await self.cluster.master.facts()
        self.shown, self.shown_end = int(facts["replicationConfirmed"]), int(facts["replicationFlushed"])

    async def kill_master(self) -> None:
        await self.note_lag()
        await self.cluster.master.kill()

    async def take_over(self) -> None:
        """The master is gone: the replica becomes the master, all goes on; then the old one is back as a replica."""
        self.loses_apart = True
        await self.cluster.fail_over()
        await self.goes_on(promised=False)
        await self.cluster.come_back()
        await self.goes_on()

    async def goes_on(self, *, promised: bool = True) -> None:
        await self.load.grows(GROWTH, promised=promised)


class Rounds:
    """A life of some rounds with the same two brokers and the same clients."""

    def __init__(self, cluster: Cluster, load: Load) -> None:
        self.cluster = cluster
        self.load = load
        self._before = {name: _Sums() for name in KINDS}
        self._twice = 0
        self.slowest = ""  # how long each kind of client waited in the last round
        self.noted: list[str] = []  # problems that the fault itself has found, in the last round

    async def run(self, name: str, fault: Fault, rng: Random) -> Outcome:
        load, cluster = self.load, self.cluster
        self.noted = []
        this = Round(cluster, load, rng, problems=self.noted)
        await load.send_on()
        await load.grows(GROWTH, promised=cluster.role is Role.ASYNC_MASTER)
        begun_s, errors, load.slowest_send_s, load.unknown = monotonic(), len(load.errors), 0.0, 0
        await fault(this)
        ended_s = monotonic()
        await load.pause()
        accounts = await load.settled(SETTLE_S, cluster.master.stored_ids)
        outcome = Outcome(name, cluster.role.value, rounds=1, lag_bytes=max(0, this.shown_end - (this.shown or 0)))
        outcome.problems += self.noted
        outcome.pauses = Pauses(
            [load.timeline.longest_pause_s(SENT, begun_s, ended_s)],
            [load.timeline.longest_pause_s(READ, begun_s, ended_s)],
            load.errors[errors:],
            load.unknown,
            load.slowest_send_s,
        )
        twice = await load.delayed_twice()
        outcome.delayed_twice, self._twice = twice - self._twice, twice
        each = {name: load.timeline.longest_pause_s([name], begun_s, ended_s) for name in (*SENT, *READ)}
        self.slowest = ", ".join(
            f"{name} {pause_s:.1f}" for name, pause_s in sorted(each.items(), key=lambda pair: -pair[1])
        )
        self._judge(this, accounts, await cluster.master.stored_ids(), outcome)
        return outcome

    def _judge(self, this: Round, accounts: Mapping[str, Account], stored: set[str], outcome: Outcome) -> None:
        load = self.load
        for name, found in accounts.items():
            kind, before = load.kinds[name], self._before[name]
            lost = {each for each in found.lost if each not in stored}
            skipped = found.lost - lost
            outcome.promised += found.acknowledged - before.promised
            outcome.duplicates += found.duplicates - before.duplicates
            outcome.lost += len(lost - before.lost)
            outcome.skipped += len(skipped - before.skipped)
            apart_lost = kind.apart - kind.ledger.consumed.keys() - stored
            outcome.apart += len(kind.apart) - before.apart
            outcome.apart_lost += len(apart_lost - before.apart_lost)
            if apart_lost - before.apart_lost and not (this.loses_apart or self.cluster.loses_unflushed):
                outcome.problems.append(f"{name}: stored, no other broker became master, and gone: {apart_lost}")
            self._judge_lost(this, name, lost - before.lost, outcome)
            if not found.lost and not found.is_settled:
                outcome.problems.append(f"{name}: not settled: {found}")
            read_and_gone = kind.ledger.consumed.keys() - stored
            if len(skipped) > len(read_and_gone) and not self._may_be_ahead(this, name):
                outcome.problems.append(f"{name}: in the log, never delivered: {sorted(skipped - before.skipped)}")
            self._before[name] = _Sums(found.acknowledged, found.duplicates, lost, skipped, len(kind.apart), apart_lost)
        outcome.problems += [f"out of order: {each}" for each in load.out_of_order()]
        outcome.problems += [f"rolled back, and seen: {each}" for each in load.wrongly_seen()]
        outcome.problems += self.cluster.tracebacks()

    def _may_be_ahead(self, this: Round, name: str) -> bool:
        """Consumers may also be ahead by what is in the log again, elsewhere: there it is counted, and not judged.

        With an async master that is what a sender without an answer sent once more, or what was delivered once more
        when it was due. With a sync master that did not wait for a replica which lagged, it is a transaction that was
        committed once more by a check: the half message was replicated, what its commit stored was not.
        """
        lagged = this.loses_apart and this.shown_end > (this.shown or 0)
        return self.cluster.role is Role.ASYNC_MASTER or (name == TRANSACTIONS and lagged)

    def _judge_lost(self, this: Round, name: str, lost: set[str], outcome: Outcome) -> None:
        if not lost:
            return
        if self.cluster.role is Role.SYNC_MASTER or this.shown is None:
            outcome.problems.append(f"{name}: {len(lost)} lost: {sorted(lost)[:5]}")
            return
        positions = self.load.kinds[name].positions
        early = [each for each in lost if positions[each] < this.shown]
        if early:
            outcome.problems.append(f"{name}: lost though the replica was shown to have it: {sorted(early)[:5]}")


@dataclass
class _Sums:
    promised: int = 0
    duplicates: int = 0
    lost: set[str] = field(default_factory=set)
    skipped: set[str] = field(default_factory=set)
    apart: int = 0
    apart_lost: set[str] = field(default_factory=set)


MakeCluster = Callable[[int], Cluster]
"""The two brokers of a life, by the number of its first round."""


async def run_rounds(
    make_cluster: MakeCluster,
    name: str,
    fault: Fault,
    *,
    rounds: int,
    seed: int,
    tell: Callable[[str], None] = lambda line: None,
    defaults: bool = False,
    names: NameServerSettings | None = None,
) -> Outcome:
    """So many rounds of one fault; new brokers every ``LIFE`` rounds. ``defaults``: of clients' settings."""
    total = Outcome(name, "")
    for begin in range(0, rounds, LIFE):
        async with running_cluster(make_cluster(begin), names) as cluster:
            total.role = cluster.role.value
            async with Load(cluster.nameserver, defaults=defaults).running() as load:
                running = Rounds(cluster, load)
                for number in range(begin, min(begin + LIFE, rounds)):
                    text = f"{seed} {name} {cluster.role.value} {number}"
                    begun_s = monotonic()
                    try:
                        total.add(found := await running.run(name, fault, Random(text)))
                    except (AssertionError, TimeoutError, MQError) as error:
                        total.add(
                            Outcome(name, total.role, rounds=1, problems=[*running.noted, f"not over: {error!r}"])
                        )
                        break  # nobody knows in which state they are
                    tell(f"{text}, {monotonic() - begun_s:.0f} s, waited: {running.slowest}: {found}")
    return total
