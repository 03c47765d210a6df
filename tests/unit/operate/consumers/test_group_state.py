"""Groups as a whole on a real broker: lag, members, pause and resume, moves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from pyromq.aio import Admin, Message, Producer, PushConsumer, ReceivedMessage
from pyromq.errors import BrokerError, ConfigError, ConnectFailedError, GroupNotFoundError
from pyromq.model.queue import QueueId
from pyromq.operate.consumers.group_state import disagreeing_members, version_text
from pyromq.operate.consumers.members import ClientState
from pyromq.operate.sweep import BrokerTables, ClusterSweep, GroupTotals
from pyromq.testing import LoopbackBroker
from pyromq.wire.json.bodies import BrokerConsumeStats, ConsumeStatsBody, QueueProgress
from pyromq.wire.json.heartbeat import ConsumerConnections

pytestmark = pytest.mark.usefixtures("quiet")


def on_a_broker(test: Callable[[LoopbackBroker, Admin, Producer], Awaitable[None]]) -> None:
    async def run() -> None:
        async with (
            LoopbackBroker(virtual_time=True, sockets=False) as broker,
            Admin(broker.nameserver) as admin,
            Producer(broker.nameserver, group="shop") as producer,
        ):
            await admin.topics.create("orders", queues=2)
            await test(broker, admin, producer)

    asyncio.run(run())


async def send(producer: Producer, count: int) -> None:
    for number in range(count):
        await producer.send(Message("orders", b"%d" % number))


def consumer(broker: LoopbackBroker, got: list[bytes], **options: object) -> PushConsumer:
    async def listen(message: ReceivedMessage) -> None:
        got.append(message.body)

    return PushConsumer(
        broker.nameserver,
        group="billing",
        listener=listen,
        topics="orders",
        start="earliest",
        **options,  # type: ignore[arg-type]
    )


def test_a_paused_group_gets_nothing_and_a_resumed_one_goes_on() -> None:
    async def test(broker: LoopbackBroker, admin: Admin, producer: Producer) -> None:
        await admin.groups.create("billing")
        assert len(await admin.groups.pause("billing")) == 1
        assert await admin.groups.pause("billing") == []  # nothing to change
        await send(producer, 4)
        got: list[bytes] = []
        async with consumer(broker, got):
            await broker.advance(minutes=1)
            assert got == []
            state = await admin.groups.describe("billing")
            assert (state.is_paused, state.is_online) == (True, True)
            assert len(await admin.groups.resume("billing")) == 1
            await broker.advance(minutes=2)
            assert sorted(got) == [b"0", b"1", b"2", b"3"]
        assert not (await admin.groups.describe("billing")).is_paused

    on_a_broker(test)


def test_lag_in_messages_and_in_time_with_the_owner_of_each_queue() -> None:
    async def test(broker: LoopbackBroker, admin: Admin, producer: Producer) -> None:
        got: list[bytes] = []
        async with consumer(broker, got):
            await send(producer, 4)
            await broker.advance(seconds=30)
            state = await admin.groups.describe("billing")
            assert (state.lag, state.lag_ms) == (0, 0)
            owners = {queue.client_id for queue in state.queues}
            assert owners == {state.members[0].client_id}
            member = state.members[0]
            assert (member.language, member.version_text, member.queues) == ("PYTHON", "5.3.3", 3)
            assert 'task "' in await admin.members.stack("billing", member.client_id)
        await send(producer, 6)
        await broker.advance(seconds=90)
        state = await admin.groups.describe("billing")
        assert (state.lag, state.is_online, state.members) == (6, False, ())
        assert state.lag_ms is not None
        assert state.lag_ms >= 90_000
        assert (await admin.sweeper.read()).totals()["billing"].lag == 6
        with pytest.raises(BrokerError, match="not connected"):
            await admin.members.stack("billing", member.client_id)

    on_a_broker(test)


def test_the_lag_of_a_group_that_broadcasts_is_known_from_its_members_and_it_cannot_be_moved() -> None:
    async def test(broker: LoopbackBroker, admin: Admin, producer: Producer) -> None:
        got: list[bytes] = []
        async with consumer(broker, got, broadcast=True):
            await send(producer, 4)
            await broker.advance(seconds=30)
            state = await admin.groups.describe("billing")
            assert (state.is_broadcasting, state.lag, state.lag_ms, len(got)) == (True, 0, 0, 4)
            assert [(member.lag, member.subscriptions) for member in state.members] == [(0, {"orders": "*"})]
            progress = await admin.groups.lag("billing")
            assert sum(held.consumer_offset for held in progress.values()) == 4
            with pytest.raises(ConfigError, match="broadcasts"):
                await admin.offsets.plan_shift("billing", "orders", -1)
            story = (
                await admin.messages.explain("orders", (await admin.messages.newest("orders", 1))[0].message_id)
            ).groups
            assert {each.state.value for each in story if each.group == "billing"} <= {"not available"}

    on_a_broker(test)


def test_a_group_that_is_not_there() -> None:
    async def test(broker: LoopbackBroker, admin: Admin, producer: Producer) -> None:
        for ask in (admin.groups.describe, admin.groups.pause, admin.groups.resume, admin.groups.require):
            with pytest.raises(GroupNotFoundError):
                await ask("nobody")
        assert (await admin.dead_letters.count("nobody")).waiting == 0
        assert "nobody" not in await admin.groups.names()

    on_a_broker(test)


def test_shifts_stay_within_what_a_queue_holds_and_copies_follow_another_group() -> None:
    async def test(broker: LoopbackBroker, admin: Admin, producer: Producer) -> None:
        got: list[bytes] = []
        async with consumer(broker, got):
            await send(producer, 10)
            await broker.advance(seconds=30)
        assert {move.new for move in await admin.offsets.plan_shift("billing", "orders", -3)} == {2}
        assert {move.new for move in await admin.offsets.plan_shift("billing", "orders", -100)} == {0}
        assert {move.new for move in await admin.offsets.plan_shift("billing", "orders", 100)} == {5}
        one = QueueId("orders", "broker-a", 1)
        assert [move.queue for move in await admin.offsets.plan_shift("billing", "orders", -1, [one])] == [one]
        await admin.groups.create("reports")
        moves = await admin.offsets.plan_copy("reports", "orders", "billing")
        assert {(move.old, move.new) for move in moves} == {(None, 5)}
        with pytest.raises(ConfigError, match="nothing to copy"):
            await admin.offsets.plan_copy("billing", "orders", "reports")

    on_a_broker(test)


def test_what_brokers_say_is_added_up() -> None:
    def stats(topic: str, end: int, committed: int, rate: float) -> ConsumeStatsBody:
        progress = QueueProgress(broker_offset=end, consumer_offset=committed)
        return ConsumeStatsBody(offset_table={QueueId(topic, "b", 0): progress}, consume_tps=rate)

    told = (
        BrokerConsumeStats(
            consume_stats_list=[{"g": [stats("t", 10, 4, 1.5), stats("%RETRY%g", 3, 1, 0.5)]}, {"h": []}]
        ),
        BrokerConsumeStats(consume_stats_list=[{"g": [stats("t", 5, 9, 1.0)]}]),
    )
    brokers = {name: BrokerTables(topics={}, groups={}, progress=each) for name, each in zip("ab", told, strict=True)}
    found = ClusterSweep(brokers, lambda name: name).totals()
    assert found["g"] == GroupTotals(lag=8, retrying=2, get_rate=3.0, topics=("t",))
    assert "h" not in found
    with pytest.raises(ConnectFailedError):  # sums without a broker would look as if its messages were consumed
        ClusterSweep(brokers, lambda name: name, {"c": ConnectFailedError("away")}).totals()


@pytest.mark.parametrize(
    ("version", "text"),
    [(479, "5.3.3"), (317, "4.5.2"), (413, "5.0.0"), (401, "4.9.4"), (232, "4.1.0-SNAPSHOT"), (37, "version 37")],
)
def test_versions_are_told_as_releases(version: int, text: str) -> None:
    assert version_text(version) == text


def test_members_that_differ_are_named_by_our_brokers_or_by_what_members_tell() -> None:
    same, other = frozenset({("orders", "*")}), frozenset({("orders", "new")})
    told = [
        ClientState(client_id="a", subscriptions=same),
        ClientState(client_id="b", subscriptions=other),
        ClientState(client_id="c", subscriptions=same),
        ClientState(client_id="d", problem="silent"),
    ]
    assert disagreeing_members(ConsumerConnections(), told) == {"b"}
    assert disagreeing_members(ConsumerConnections(disagreeing_client_ids=("x",)), told) == {"x"}
    assert disagreeing_members(ConsumerConnections(), [ClientState(client_id="d", problem="silent")]) is None


def test_a_mismatch_of_subscriptions_is_seen() -> None:
    async def test(broker: LoopbackBroker, admin: Admin, producer: Producer) -> None:
        async def listen(message: ReceivedMessage) -> None:
            pass

        one = PushConsumer(broker.nameserver, group="billing", listener=listen)
        two = PushConsumer(broker.nameserver, group="billing", listener=listen)
        one.subscribe("orders", "new")
        two.subscribe("orders", "paid")
        async with one, two:
            await broker.advance(seconds=40)
            state = await admin.groups.describe("billing")
            assert len(state.members) == 2
            assert state.mismatched

    on_a_broker(test)
