"""Listeners that take too long are found when their time is over."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from pyromq.client.consumer.base.consume_stats import ConsumeStats
from pyromq.client.consumer.base.owned_queue import OwnedQueue
from pyromq.client.consumer.dispatch.consume_timeouts import ConsumeTimeouts
from pyromq.client.consumer.rules.pull_state import PullSettings
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.model.queue import QueueId
from pyromq.testing.manual_clock import ManualClock
from tests.unit.client.messages import messages


class Setup:
    def __init__(self, timeout_ms: int = 1_000) -> None:
        self.clock = ManualClock()
        self.late: list[tuple[int, list[int]]] = []
        self.timeouts = ConsumeTimeouts(self.clock, timeout_ms, self.give_up)

    def queue(self, number: int, *offsets: int) -> OwnedQueue:
        stats = ConsumeStats(self.clock)
        owned = OwnedQueue(QueueId("T", "b", number), 0, self.clock, PullSettings(), stats.of("T"))
        owned.buffer.add(cast(Any, messages(*offsets)))
        return owned

    def give_up(self, owned: OwnedQueue, late: list[ReceivedMessage]) -> None:
        self.late.append((owned.queue.number, [message.offset for message in late]))
        owned.buffer.begin_leaving(late)


async def test_the_next_look_is_when_the_oldest_listener_is_due() -> None:
    setup = Setup()
    one, two = setup.queue(1, 10, 11), setup.queue(2, 20)
    assert setup.timeouts.look([one, two]) == 1_000, "a listener that begins now is not due before"
    two.take(1)
    setup.clock.advance_ms(300)
    one.take(1)
    setup.clock.advance_ms(200)
    assert setup.timeouts.look([one, two]) == 500
    setup.clock.advance_ms(500)
    assert setup.timeouts.look([one, two]) == 300
    assert setup.late == [(2, [20])]
    setup.clock.advance_ms(300)
    assert setup.timeouts.look([one, two]) == 1_000
    assert setup.late == [(2, [20]), (1, [10])], "11 waits"


async def test_a_listener_that_returned_in_time_is_left_alone() -> None:
    setup = Setup()
    one = setup.queue(1, 10, 11)
    first = one.take(1)
    setup.clock.advance_ms(999)
    one.take(1)
    one.succeeded(first, 0.999, 1_000)
    setup.clock.advance_ms(1)
    assert setup.timeouts.look([one]) == 999
    assert setup.late == []


@pytest.mark.parametrize("timeout_ms", [1, 7, 100, 900_000])
async def test_looking_when_told_to_finds_every_listener_at_its_moment(timeout_ms: int) -> None:
    """However listeners begin, the one that never ends is given up on exactly when its time is over."""
    setup = Setup(timeout_ms)
    one = setup.queue(1, *range(50))
    began: dict[int, int] = {}
    wait_ms = setup.timeouts.look([one])
    while len(setup.late) < 20:
        step_ms = max(1, timeout_ms // 3)
        for _ in range(3):
            (message,) = one.take(1)
            began[message.offset] = setup.clock.monotonic_ms()
            step_ms = min(step_ms, wait_ms)
            setup.clock.advance_ms(step_ms)
            wait_ms -= step_ms
            if wait_ms <= 0:
                before = len(setup.late)
                wait_ms = setup.timeouts.look([one])
                now_ms = setup.clock.monotonic_ms()
                for _, offsets in setup.late[before:]:
                    assert {now_ms - began[offset] for offset in offsets} == {timeout_ms}
        if not one.buffer.waiting_count:
            break
    assert setup.late


async def test_a_shorter_timeout_counts_at_once() -> None:
    setup = Setup(900_000)
    one = setup.queue(1, 10)
    one.take(1)
    running = asyncio.create_task(setup.timeouts.run(lambda: [one]))
    await asyncio.sleep(0)
    setup.clock.advance_ms(500)
    setup.timeouts.timeout_ms = 500
    for _ in range(5):
        await asyncio.sleep(0)
    assert setup.late == [(1, [10])]
    running.cancel()
