"""When a replica reports itself to its master: when the last answer is there, and at once when it has news."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from unittest.mock import Mock

from pyromq.broker.base.lease import Lease
from pyromq.broker.replicating.members import REPORT_INTERVAL_S
from pyromq.broker.replicating.reporter import LeaseFollowing
from pyromq.wire.json.membership import MemberReport
from tests.unit.failover.simulation import now_s, simulate

Story = Callable[["Rig"], Awaitable[None]]


class Rig:
    """A replica whose master answers after ``takes_s``, with the number of changes that it has made."""

    def __init__(self) -> None:
        self.began_s = now_s()
        self.reported: list[tuple[float, int]] = []  # when, and the number that the replica had
        self.takes_s = 0.0
        self.made = self.taken = 0
        self.follower = Mock(link="127.0.0.1:1", broker_id=1)
        self.follower.attached, self.follower.parted = asyncio.Event(), asyncio.Event()
        self.metadata = Mock(rounds=1, number_under=lambda lease: self.taken, refresh=self.refresh)
        calls = Mock(report=self.report)
        self.following = LeaseFollowing(Lease(), Mock(), calls, "127.0.0.1:10911")

    async def report(self, report: MemberReport) -> Mock:
        self.reported.append((round(now_s() - self.began_s, 3), report.metadata))
        await asyncio.sleep(self.takes_s)
        return Mock(metadata=self.made)

    async def refresh(self) -> None:
        self.taken = self.made

    def follow(self, *, is_attached: bool) -> None:
        for event, is_set in ((self.follower.attached, is_attached), (self.follower.parted, not is_attached)):
            if is_set:
                event.set()
            else:
                event.clear()


def told(story: Story) -> list[tuple[float, int]]:
    found: list[tuple[float, int]] = []

    async def run() -> None:
        rig = Rig()
        task = asyncio.create_task(rig.following.run(rig.follower, rig.metadata))
        await story(rig)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        found.extend(rig.reported)

    simulate(run)
    return found


def test_a_new_master_hears_of_its_replica_at_once() -> None:
    async def story(rig: Rig) -> None:
        rig.follow(is_attached=True)
        await asyncio.sleep(1.5 * REPORT_INTERVAL_S)
        rig.follow(is_attached=False)
        await asyncio.sleep(0.01)
        rig.follow(is_attached=True)
        await asyncio.sleep(0.01)

    times = [at_s for at_s, _ in told(story)]
    assert times == [0.0, REPORT_INTERVAL_S, round(1.5 * REPORT_INTERVAL_S + 0.01, 3)]


def test_a_report_whose_answer_waits_is_given_up_when_its_master_is_left() -> None:
    async def story(rig: Rig) -> None:
        rig.takes_s = 1.0
        rig.follow(is_attached=True)
        await asyncio.sleep(0.1)
        rig.follow(is_attached=False)
        await asyncio.sleep(0.01)
        rig.follow(is_attached=True)
        await asyncio.sleep(0.01)

    assert [at_s for at_s, _ in told(story)] == [0.0, 0.11]


def test_the_next_report_follows_the_answer_that_waited() -> None:
    async def story(rig: Rig) -> None:
        rig.takes_s = 1.0
        rig.follow(is_attached=True)
        await asyncio.sleep(2.5)

    assert told(story) == [(0.0, 0), (1.0, 0), (2.0, 0)]


def test_tables_that_were_taken_over_are_reported_at_once() -> None:
    async def story(rig: Rig) -> None:
        rig.made = 7
        rig.follow(is_attached=True)
        await asyncio.sleep(0.01)

    assert told(story) == [(0.0, 0), (0.0, 7)]


def test_tables_that_cannot_be_taken_over_are_asked_for_again_after_a_pause() -> None:
    async def story(rig: Rig) -> None:
        async def refresh() -> None:
            raise OSError("the disk is full")

        rig.made, rig.metadata.refresh = 7, refresh
        rig.follow(is_attached=True)
        await asyncio.sleep(1.5 * REPORT_INTERVAL_S)

    assert told(story) == [(0.0, 0), (REPORT_INTERVAL_S, 0)]
