"""Somebody sets the clock by an hour or a day while messages wait: none is lost; while a broker runs, none is early."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pyromq.aio import Message, Producer
from pyromq.broker.base.settings import BrokerSettings
from pyromq.clock import Clock, SystemClock
from pyromq.testing import LoopbackBroker, ManualClock
from pyromq.testing.loopback import SMALL_FILES
from tests.integration.ledger import Account, Ledger, report
from tests.integration.ledger_rig import GROUP, TOPIC, Clerk, expected_dead, fill
from tests.integration.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]

Property = Callable[[str, object], None]
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
LONGEST_MS, STEP_MS = 3 * HOUR_MS, 2 * HOUR_MS
FAIL_PERCENT = 30
SETTINGS = BrokerSettings(store=SMALL_FILES, idle_ms=0, register_interval_ms=100)
DELAYS = [{"delay_level": level} for level in (9, 14, 18)] + [{"delay_ms": hours * HOUR_MS} for hours in (1, 2, 3)]


class WallOf:
    """What a broker takes for the time, to a client in the same process."""

    def __init__(self, clock: Clock) -> None:
        self.now_ms, self.monotonic_ms = clock.now_ms, SystemClock().monotonic_ms


async def delay_some(broker: LoopbackBroker, ledger: Ledger) -> int:
    async with Producer(broker.nameserver, group="makers") as producer:
        for delay in DELAYS * 5:
            ledger.acknowledged.add((await producer.send(Message(TOPIC, b"later", **delay))).message_id)
    return len(DELAYS) * 5


async def let_time_pass(clock: ManualClock, ledger: Ledger) -> Account:
    """Until all is over; failed messages wait again and again."""
    for _ in range(60):
        clock.advance_ms(STEP_MS)
        await asyncio.sleep(0.05)
        found = await ledger.settled(0)
        if found.is_settled:
            break
    return found


@pytest.mark.parametrize(
    ("jump_ms", "is_restarted"),
    [(HOUR_MS, False), (-HOUR_MS, False), (DAY_MS, False), (-DAY_MS, False), (DAY_MS, True), (-DAY_MS, True)],
)
async def test_a_clock_that_is_set_while_messages_wait_loses_none(
    jump_ms: int, is_restarted: bool, tmp_path: Path, record_property: Property
) -> None:
    clock = ManualClock(time.time_ns() // 1_000_000)
    ledger = Ledger("", TOPIC, GROUP)
    clerk = Clerk(ledger, FAIL_PERCENT)

    def use(broker: LoopbackBroker) -> None:
        ledger.nameserver, ledger.clock = broker.nameserver, WallOf(broker.broker._clock)

    async with LoopbackBroker(SETTINGS, folder=tmp_path, clock=clock) as broker:
        use(broker)
        delayed = await delay_some(broker, ledger)
        await fill(broker, ledger, 60)
        async with clerk.member(broker):
            await until(lambda: len(ledger.consumed) + clerk.failed == 60, "all were tried once")
            before = await ledger.account()
            while before.counts["queued"]:
                before = await ledger.account()
            assert (before.counts["delayed"], before.counts["retrying"]) == (delayed, clerk.failed), str(before)
            if not is_restarted:
                clock.set_ms(clock.now_ms() + jump_ms)
                await asyncio.sleep(0.3)  # for the broker to do something wrong, if it does
                assert (await ledger.account()).counts == before.counts, "nothing comes early"
                clock.advance_ms(LONGEST_MS * 10 // 9 + 1_000)  # a tenth of it may go into following the clock
                async with asyncio.timeout(15):
                    while (await ledger.account()).counts["delayed"]:  # noqa: ASYNC110
                        await asyncio.sleep(0.02)  # nothing is held back either
                found = await let_time_pass(clock, ledger)
    if is_restarted:
        clock.set_ms(clock.now_ms() + jump_ms)
        async with LoopbackBroker(SETTINGS, folder=tmp_path, clock=clock) as broker:
            use(broker)
            async with clerk.member(broker):
                assert not (await ledger.account()).lost
                found = await let_time_pass(clock, ledger)
    assert found.is_settled and found.counts["dead"] == expected_dead(ledger, FAIL_PERCENT), str(found)
    report(found, record_property)
