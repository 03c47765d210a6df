"""When an agent looks again: at its pace, and at the very moment when the lease that it sees has ended."""

from __future__ import annotations

import asyncio
from unittest.mock import AsyncMock, Mock

import pytest
from msgspec.structs import replace

from pyromq.failover.agent import Agent
from pyromq.failover.doubt import Census
from pyromq.failover.record import BrokerStatus, LeaseError, LeaseRecord, MemberRole, MemberStatus
from pyromq.failover.store import StoredLease

ME, MASTER, THIRD = "10.0.0.2:10911", "10.0.0.1:10911", "10.0.0.3:10911"


@pytest.mark.parametrize(
    ("seen_for_s", "pause_s"),
    [(0.0, 0.25), (4.2, 0.25), (4.4, 0.102), (4.6, 0.25)],
    ids=["renewed just now", "more than a look is left", "ends before the next look", "ended"],
)
def test_the_end_of_a_lease_is_looked_at_when_it_comes(seen_for_s: float, pause_s: float) -> None:
    agent = Agent(ME, Mock(), Mock(), Mock(), now_s=lambda: 1_000.0)
    record = LeaseRecord(holder=MASTER, number=3, in_sync=(MASTER, ME), duration_ms=4_000)
    state = agent.state
    state.found, state.seen_s, state.is_store_reached = StoredLease(record, "7"), 1_000.0 - seen_for_s, True
    state.broker = BrokerStatus(address=ME, role=MemberRole.REPLICA, number=3, end=0, metadata=1)
    assert state.is_settled
    assert agent._pause_s() == pytest.approx(pause_s)


def test_who_took_the_lease_after_asking_goes_on_at_once() -> None:
    """Promotion is the next step: clients wait for it."""

    async def take() -> float:
        store, broker, peers = AsyncMock(), AsyncMock(), AsyncMock()
        record = LeaseRecord(holder=MASTER, number=3, in_sync=(MASTER, ME, THIRD), duration_ms=4_000)
        store.read.return_value = StoredLease(record, "7")
        store.write.return_value = "8"
        broker.status.return_value = BrokerStatus(address=ME, role=MemberRole.REPLICA, number=3, end=0, metadata=1)
        peers.census.return_value = Census(answers={})
        agent = Agent(ME, store, broker, peers, now_s=lambda: 1_000.0)
        state = agent.state
        state.found, state.seen_s, state.read_s, state.is_sure = StoredLease(record, "7"), 990.0, 999.9, True
        await agent.look()
        peers.census.assert_awaited_once_with((THIRD,), broker.status.return_value, only=True)
        assert store.write.await_args.args[0].holder == ME
        return agent._pause_s()

    assert asyncio.run(take()) == pytest.approx(0.05)


def test_a_replica_that_starts_is_sure_of_the_store_with_its_first_look() -> None:
    """The holder says that it is master by this record; a failover that follows asks nobody."""

    async def start() -> Agent:
        store, broker, peers = AsyncMock(), AsyncMock(), AsyncMock()
        record = LeaseRecord(holder=MASTER, number=3, in_sync=(MASTER, ME), duration_ms=4_000, renewals=9)
        store.read.return_value = StoredLease(record, "7")
        broker.status.return_value = BrokerStatus(
            address=ME, role=MemberRole.REPLICA, number=3, end=0, metadata=1, master=MASTER
        )
        holder = BrokerStatus(
            address=MASTER, role=MemberRole.MASTER, number=3, end=0, metadata=1, granted_s=3.0, renewals=9
        )
        peers.census.return_value = Census(answers={MASTER: holder})
        agent = Agent(ME, store, broker, peers, now_s=lambda: 1_000.0)
        await agent.look()
        peers.census.assert_awaited_once_with((MASTER,), broker.status.return_value, only=True)
        return agent

    agent = asyncio.run(start())
    assert agent.state.is_sure
    assert agent.state.asked_s == float("inf"), "nothing is waited for"


@pytest.mark.parametrize("response", [["8"], LeaseError("no response in time")], ids=["answered", "not answered"])
def test_a_lease_that_was_given_away_is_not_written_over(response: object) -> None:
    """A running master takes another's lease for one that was left behind; not the one that it has just made itself.

    Its disk was replaced by an older copy, and its agent lived on: found by seed 500049.
    """

    async def give() -> list[LeaseRecord]:
        store, broker, peers = AsyncMock(), AsyncMock(), AsyncMock()
        mine = LeaseRecord(holder=ME, number=3, in_sync=(ME, THIRD), confirmed=90, duration_ms=4_000, renewals=9)
        restored = BrokerStatus(address=ME, role=MemberRole.MASTER, number=3, log_number=3, end=50, metadata=1)
        whole = BrokerStatus(
            address=THIRD, role=MemberRole.REPLICA, number=3, log_number=3, end=90, flushed=90, metadata=1
        )
        store.read.return_value, broker.status.return_value = StoredLease(mine, "7"), restored
        store.write.side_effect = response
        peers.census.return_value = Census(answers={THIRD: whole})
        agent = Agent(ME, store, broker, peers, now_s=lambda: 1_000.0)
        state = agent.state
        state.found, state.seen_s, state.read_s, state.is_sure = StoredLease(mine, "7"), 999.8, 999.8, True
        state.mine, state.renewed_s = mine, 999.5  # its time is running
        await agent.look()
        given = store.write.await_args.args[0]
        store.read.return_value = StoredLease(given, "8")
        await agent.look()
        broker.follow.assert_awaited_once_with(THIRD, 4, 0)
        return [call.args[0] for call in store.write.await_args_list]

    (given,) = asyncio.run(give())
    assert (given.holder, given.number, given.in_sync) == (THIRD, 4, (THIRD,))


def test_a_lease_that_was_handed_over_is_not_written_again_into_a_store_that_was_set_back() -> None:
    """Who has got it may be master by now. Its members are asked, as by anybody who is not sure of the store."""

    async def hand_over() -> None:
        store, broker, peers = AsyncMock(), AsyncMock(), AsyncMock()
        mine = LeaseRecord(holder=ME, number=3, in_sync=(ME, THIRD), duration_ms=4_000, renewals=9)
        wanted = replace(mine, wanted=THIRD, renewals=10)
        third = MemberStatus(address=THIRD, position=90, metadata=1)
        status = BrokerStatus(
            address=ME, role=MemberRole.MASTER, number=3, log_number=3, end=90, flushed=90, metadata=1, held=True,
            granted_s=3.0, renewals=9, replicas=(third,), members=(ME, THIRD),
        )  # fmt: skip
        store.read.return_value, broker.status.return_value = StoredLease(wanted, "7"), status
        store.write.return_value = "8"
        agent = Agent(ME, store, broker, peers, now_s=lambda: 1_000.0)
        state = agent.state
        state.found, state.seen_s, state.read_s, state.is_sure = StoredLease(mine, "6"), 999.8, 999.8, True
        state.mine, state.renewed_s = mine, 999.5  # its time is running
        await agent.look()
        given = store.write.await_args.args[0]
        assert (given.holder, given.number, given.handed) == (THIRD, 4, True)
        assert broker.grant.await_args.args[1] == 1_000.0, "its own time ends before that is written"
        store.read.return_value = StoredLease(replace(mine, renewals=8), "5")
        broker.status.return_value = replace(status, granted_s=0.0)
        peers.census.return_value = Census(answers={})
        await agent.look()
        peers.census.assert_awaited_once()
        assert store.write.await_count == broker.grant.await_count == 1

    asyncio.run(hand_over())


def test_what_an_agent_before_had_waited_for_is_not_shown_any_more() -> None:
    """It was killed while it waited: found by seed 520094."""

    async def look() -> AsyncMock:
        store, broker = AsyncMock(), AsyncMock()
        record = LeaseRecord(holder=ME, number=3, in_sync=(ME,), members=(ME,), duration_ms=4_000, renewals=9)
        store.read.return_value, store.write.return_value = StoredLease(record, "7"), "8"
        broker.status.return_value = BrokerStatus(
            address=ME,
            role=MemberRole.MASTER,
            number=3,
            end=0,
            metadata=1,
            granted_s=3.0,
            renewals=9,
            members=(ME,),
            waiting="waiting a while for somebody",
        )
        await Agent(ME, store, broker, AsyncMock(), now_s=lambda: 1_000.0).look()
        return broker.note

    asyncio.run(look()).assert_awaited_once_with("", (ME,), 0)


class Holder:
    """An agent whose broker is master, with a record that is renewed every 0.8 s."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.store, self.broker = AsyncMock(), AsyncMock()
        record = LeaseRecord(holder=ME, number=3, in_sync=(ME,), members=(ME,), duration_ms=4_000, renewals=9)
        self.store.read.return_value, self.store.write.side_effect = StoredLease(record, "7"), self._write
        self.status = BrokerStatus(
            address=ME, role=MemberRole.MASTER, number=3, end=0, metadata=1, granted_s=3.0, renewals=9, members=(ME,)
        )
        self.broker.status.side_effect = lambda: self.status
        self.agent = Agent(ME, self.store, self.broker, AsyncMock(), now_s=lambda: self.now_s)

    def _write(self, record: LeaseRecord, version: str) -> str:
        self.store.read.return_value = StoredLease(record, f"{version}+")
        return f"{version}+"

    async def look(self, after_s: float = 0.25) -> int:
        """How often the broker was asked."""
        self.now_s += after_s
        before: int = self.broker.status.await_count
        await self.agent.look()
        return int(self.broker.status.await_count) - before


def test_a_holder_asks_its_broker_between_two_renewals_while_clients_wait_for_what_it_decides() -> None:
    async def looks() -> None:
        holder = Holder()
        assert [await holder.look() for _ in range(4)] == [1, 0, 0, 0]
        usual = holder.status
        holder.status = replace(usual, held=True)  # a planned change was given up: sends wait for their release
        assert [await holder.look() for _ in range(2)] == [1, 1], "with the renewal that was due, and after it"
        holder.broker.release.assert_awaited()
        holder.status = usual
        assert [await holder.look() for _ in range(2)] == [1, 0]
        holder.status = replace(usual, failing="the disk hangs")
        assert [await holder.look() for _ in range(4)][-2:] == [1, 1], "how long it fails is looked at closely"

    asyncio.run(looks())


def test_a_failure_that_comes_again_after_renewals_is_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    async def looks() -> None:
        holder = Holder()
        await holder.look()
        for _ in range(2):
            holder.store.read.side_effect = LeaseError("no response in time")
            await holder.look()
            holder.store.read.side_effect = None
            for _ in range(400):
                await holder.look()

    with caplog.at_level("INFO"):
        asyncio.run(looks())
    assert caplog.text.count("no response in time") == 2


class Resting:
    """A replica's agent that is sure of its store, and a clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.store, self.broker, self.peers = AsyncMock(), AsyncMock(), AsyncMock()
        self.record = LeaseRecord(holder=MASTER, number=3, in_sync=(MASTER, ME), duration_ms=4_000, renewals=9)
        self.store.read.return_value = StoredLease(self.record, "7")
        self.broker.status.return_value = BrokerStatus(
            address=ME, role=MemberRole.REPLICA, number=3, end=0, metadata=1, master=MASTER
        )
        self.peers.census.return_value = Census(answers={})
        self.agent = Agent(ME, self.store, self.broker, self.peers, now_s=lambda: self.now_s)

    async def begin(self) -> None:
        await self.agent.look()
        self.agent.state.is_sure = True

    async def asks_after(self, seconds: float) -> bool:
        """Whether a look after so long asks the broker; the record is read in any case."""
        self.now_s += seconds
        read, asked = self.store.read.await_count, self.broker.status.await_count
        await self.agent.look()
        assert self.store.read.await_count == read + 1
        return bool(self.broker.status.await_count > asked)


def test_an_agent_rests_until_the_next_renewal_is_due_or_the_record_is_another_one() -> None:
    async def look() -> list[bool]:
        resting = Resting()
        await resting.begin()
        found = [await resting.asks_after(0.25) for _ in range(4)]
        resting.store.read.return_value = StoredLease(replace(resting.record, renewals=10), "8")
        return [*found, await resting.asks_after(0.01), await resting.asks_after(0.01)]

    assert asyncio.run(look()) == [False, False, False, True, True, False]


def test_an_agent_that_is_not_sure_does_not_rest_nor_one_whose_lease_has_ended() -> None:
    async def look() -> list[bool]:
        resting = Resting()
        await resting.begin()
        resting.agent.state.is_sure = False
        found = [await resting.asks_after(0.01)]
        resting.agent.state.is_sure = True
        found.append(await resting.asks_after(0.01))
        resting.agent.state.seen_s = resting.now_s - 4.5
        return [*found, await resting.asks_after(0.01)]

    assert asyncio.run(look()) == [True, False, True]
