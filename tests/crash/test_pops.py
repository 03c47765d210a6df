"""Popped messages on a disk that stops at every few operations: nothing is lost, nothing acknowledged is seen again.

``PYROMQ_CRASH_ROUNDS`` in the environment: every operation of a longer life, not each n-th. A kill is one of these
stops; counted are those after which the store was opened again and drained.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random

import pytest

from pyromq.broker.popping.calls import PoppedMessage
from pyromq.model.names import dead_letter_topic
from pyromq.model.topic import GroupConfig
from pyromq.store.message_store import MessageStore
from pyromq.testing import FaultyDisk, ManualClock
from pyromq.testing.faulty_disk import Crashed, CrashMode
from tests.unit.broker.builders import ROOT
from tests.unit.broker.popping.pop_rig import GROUP, PopRig, settled
from tests.unit.net.fakes import turn
from tests.unit.store.test_copied_log import bytes_of

IS_LONG = "PYROMQ_CRASH_ROUNDS" in os.environ
EVERY, TURNS = (1, 7) if IS_LONG else (9, 4)
DEAD = dead_letter_topic(GROUP)
RETRIES = 3


@dataclass
class Ledger:
    """What clients were told."""

    sent: set[str] = field(default_factory=set)
    acking: set[str] = field(default_factory=set)  # asked for; may have happened
    acked: set[str] = field(default_factory=set)  # confirmed


class Life:
    """Messages are sent, popped, changed, released, acknowledged, and die; tables are saved in between."""

    def __init__(self, rig: PopRig, ledger: Ledger, confirm: Callable[[], None] = lambda: None) -> None:
        self.rig = rig
        self.ledger = ledger
        self.confirm = confirm  # a promise counts after it
        rig.groups.update(GroupConfig(group_name=GROUP, retry_max_times=RETRIES))

    async def live(self) -> None:
        for number in range(TURNS):
            self.send(f"t{number}", 6)
            found = await self.rig.pop(4, invisible_ms=5_000)
            await self.ack(*found[:2])
            await self.release(found[2:3])
            ordered = await self.rig.pop(4, invisible_ms=5_000, queue_id=1, order=True)
            await self.ack(*ordered[:1])
            if number % 2:
                self.save()
            await self.rig.pass_ms(5_000)
            again = await self.rig.pop(8, invisible_ms=2_000)
            await self.ack(*again[::3])
            await self.rig.pass_ms(2_000)

    def send(self, name: str, count: int) -> None:
        for number in range(count):
            body, queue = f"{name}-{number}", number % 2
            self.rig.send(body, queue_id=queue, __SHARDINGKEY=str(number % 3))
            self.confirm()
            self.ledger.sent.add(body)

    async def ack(self, *messages: PoppedMessage) -> None:
        names = {message.record.body.decode() for message in messages}
        self.ledger.acking |= names
        await asyncio.gather(*(self.rig.ack(message) for message in messages))
        self.confirm()
        self.ledger.acked |= names

    async def release(self, messages: list[PoppedMessage]) -> None:
        for message in messages:
            await self.rig.change(message, 0)

    def save(self) -> None:
        self.rig.popping.keeper.save_now()
        self.rig.progress.table.save()


async def drained(rig: PopRig) -> list[str]:
    """Everything that the group still gets, and what is dead."""
    rig.groups.update(GroupConfig(group_name=GROUP, retry_max_times=RETRIES))
    seen: list[str] = []
    for _ in range(6):
        while found := await rig.pop(32):
            seen += [message.record.body.decode() for message in found]
            await asyncio.gather(*map(rig.ack, found))
            await settled()
        await rig.pass_ms(70_000)
    return [*seen, *(record.body.decode() for record in rig.records(DEAD))]


def check(ledger: Ledger, seen: list[str], context: str) -> None:
    lost = ledger.sent - ledger.acking - set(seen)
    assert not lost, f"{context}: lost {sorted(lost)}"
    again = ledger.acked & set(seen)
    assert not again, f"{context}: acknowledged and seen again {sorted(again)}"


async def until_the_end(work: Awaitable[None], disk: FaultyDisk, at: int) -> None:
    """Run it until the disk has stopped; callbacks of the loop meet the stop where nobody waits for them."""
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    task = asyncio.ensure_future(work)
    while not task.done() and disk.operations < at:
        await turn()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def operations_of_a_life() -> int:
    async def live() -> int:
        disk, ledger = FaultyDisk(), Ledger()
        rig = PopRig(disk, queues=2)
        await Life(rig, ledger).live()
        assert len(ledger.acked) > 12
        check(ledger, await drained(rig), "without a crash")
        return disk.operations

    return asyncio.run(live())


@pytest.mark.parametrize("mode", CrashMode)
def test_a_crash_at_any_operation_loses_nothing_and_brings_nothing_back(
    mode: CrashMode, record_property: Callable[[str, object], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    kills, promised = 0, 0

    async def one(at: int) -> int:
        clock, ledger = ManualClock(), Ledger()
        disk = FaultyDisk(clock_ms=clock.now_ms)
        disk.crash_at(at, torn=at % 2 == 0)
        try:
            rig = PopRig(disk, clock, queues=2)
            await until_the_end(Life(rig, ledger).live(), disk, at)
        except Crashed:
            pass
        rig = PopRig(disk.after_crash(mode, Random(at)), clock, queues=2)
        check(ledger, await drained(rig), f"mode {mode.value}, operation {at}")
        return len(ledger.sent) + len(ledger.acked)

    for at in range(1 + list(CrashMode).index(mode) * 3, operations_of_a_life(), EVERY):
        promised += asyncio.run(one(at))
        kills += 1
    assert kills > 20
    record_property("crash points tried", kills)
    record_property("promises checked", promised)


def test_a_replica_that_takes_over_at_any_moment_knows_what_was_acknowledged(
    record_property: Callable[[str, object], None], caplog: pytest.LogCaptureFixture
) -> None:
    """Every promise waits for the copy, as a sync master's does; the copy has the log and nothing else."""
    caplog.set_level(logging.CRITICAL)
    takeovers = 0

    async def one(after: int) -> bool:
        clock, ledger, copies = ManualClock(), Ledger(), FaultyDisk()
        rig = PopRig(FaultyDisk(), clock, queues=2)
        replica = MessageStore.open(ROOT, rig.settings.store, disk=copies, clock=clock)
        confirmed = 0

        def confirm() -> None:
            nonlocal confirmed
            replica.copies.take(bytes_of(rig.store)[replica.end_position :])
            replica.flush()
            confirmed += 1
            if confirmed >= after:
                raise Crashed

        try:
            await Life(rig, ledger, confirm).live()
            return False
        except Crashed:
            pass
        replica.close()
        promoted = PopRig(copies.after_crash(CrashMode.FORGET), clock, queues=2)
        check(ledger, await drained(promoted), f"taken over after {after} promises")
        return True

    while asyncio.run(one(takeovers + 1)):
        takeovers += 1
    assert takeovers > 20
    record_property("takeovers tried", takeovers)
