"""When a replica reports itself to its master: when the last answer is there, and at once when it has news."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from unittest.mock import Mock

import pytest

from pyromq.broker.base.lease import Lease
from pyromq.broker.replicating.members import REPORT_INTERVAL_S
from pyromq.broker.replicating.reporter import LeaseFollowing
from pyromq.replication.errors import DivergedError
from pyromq.testing import FaultyDisk
from pyromq.wire.json.membership import BrokerStatus, Epoch, MemberReport, MemberRole
from tests.unit.broker.builders import ROOT
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


# --- what is cut ---

FIRST, MINE, THEIRS, NEXT = (
    Epoch(number=number, start=start, mark=mark)
    for number, start, mark in ((1, 0, 1), (2, 100, 2), (2, 100, 3), (3, 150, 4))
)


class Returning:
    """A member that wrote under lease 2, alone, with a log up to 200."""

    def __init__(self) -> None:
        marks = iter((FIRST.mark, MINE.mark))
        self.lease = Lease(new_mark=lambda: next(marks))
        self.lease.load(FaultyDisk(), ROOT / "config")
        self.lease.promoted(1, 0)
        self.lease.promoted(2, 100)
        self.cut: list[int] = []
        store = Mock(end_position=200, first_position=0)
        self.following = LeaseFollowing(self.lease, store, Mock(member=self.member), "127.0.0.1:10911")
        self.following._calls.at = self.at
        self.following.on_cut = self.cut.append

    async def at(self, master: str) -> None: ...

    async def member(self) -> BrokerStatus:
        return self.status

    def meets(self, number: int, *epochs: Epoch, decided: int = 0) -> list[int]:
        """Where its log is cut for that master."""
        self.lease.follows("b:1", number, decided)
        self.status = BrokerStatus(
            address="b:1",
            role=MemberRole.MASTER,
            number=number,
            end=300,
            metadata=1,
            epochs=epochs,
            replication_address="127.0.0.1:1",
        )
        asyncio.run(self.following.find_master())
        return self.cut


def test_a_tail_that_was_never_acknowledged_is_cut() -> None:
    assert Returning().meets(3, FIRST, NEXT) == [100] and Returning().meets(3, FIRST, MINE, NEXT) == [150]


def test_what_was_acknowledged_is_not_cut_for_a_log_without_its_lease() -> None:
    for epochs in ((FIRST, NEXT), (FIRST, THEIRS, NEXT), (NEXT,)):
        member = Returning()
        member.lease.promise()
        with pytest.raises(
            DivergedError, match=r"lacks lease 2, under which messages here were acknowledged.* recover"
        ):
            member.meets(3, *epochs)
        assert not member.cut and MINE in member.lease.state.epochs, "it says still what it has"
        assert member.meets(4, *epochs, Epoch(number=4, start=160, mark=5), decided=4) != [], "an operator has decided"


def test_a_tail_behind_what_the_new_master_has_of_that_lease_is_cut() -> None:
    member = Returning()
    member.lease.promise()
    assert member.meets(3, FIRST, MINE, NEXT) == [150]


def test_two_leases_of_one_number_are_not_taken_for_one() -> None:
    """It said that it agreed, and then that its bytes are others, for ever: found by seed 301102 of the simulator."""
    member = Returning()
    with pytest.raises(DivergedError, match="not the lease 2 that the log here was written under"):
        member.meets(2, FIRST, THEIRS)
    assert not member.cut and MINE in member.lease.state.epochs
    assert member.meets(3, FIRST, THEIRS, NEXT, decided=3) == [100]


def test_a_replica_hears_that_its_master_has_acknowledged_something() -> None:
    member = Returning()
    member.lease.follows("b:1", 3)
    member.lease.agreed((FIRST, MINE, NEXT))
    status = BrokerStatus(address="b:1", role=MemberRole.MASTER, number=3, end=300, metadata=1, epochs=(FIRST, MINE))
    for given in (
        status,
        BrokerStatus(address="b:1", role=MemberRole.MASTER, number=3, end=3, metadata=1, promised=True),
    ):
        member.following._note_promise(given)
        assert member.lease.state.promised is None
    heard = BrokerStatus(
        address="b:1", role=MemberRole.MASTER, number=3, end=3, metadata=1, epochs=(FIRST, MINE, NEXT), promised=True
    )
    member.following._note_promise(heard)
    assert member.lease.state.promised == NEXT
