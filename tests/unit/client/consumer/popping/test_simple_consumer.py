"""The simple consumer: received for a time, settled one by one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyromq.aio import SimpleConsumer
from pyromq.client.consumer.popping.leases import LeasedMessage
from pyromq.client.core.client import Client
from pyromq.clock import Clock
from pyromq.errors import ClientClosedError, ConfigError, LeaseLostError, NoRouteError
from pyromq.model.topic import GroupConfig
from pyromq.settings import ClientSettings
from tests.unit.client.consumer.popping.pop_world import GROUP, TOPIC, World, in_world


def consumer(world: World, **options: Any) -> SimpleConsumer:
    fields: dict[str, Any] = {"group": GROUP, "topics": TOPIC, "start": "earliest"}
    return SimpleConsumer(world.nameserver, **fields | options)


async def received(consumer: SimpleConsumer, count: int, **options: Any) -> list[LeasedMessage]:
    found: list[LeasedMessage] = []
    while len(found) < count and (more := await consumer.receive(**options)):
        found += more
    return found


def bodies(messages: list[LeasedMessage]) -> list[str]:
    return sorted(message.text for message in messages)


def test_what_is_acknowledged_never_comes_again() -> None:
    async def test(world: World) -> None:
        await world.send("a", "b", "c")
        async with consumer(world) as one:
            found = await received(one, 3)
            assert bodies(found) == ["a", "b", "c"]
            assert [message.delivery_attempt for message in found] == [0, 0, 0]
            await one.ack(found[0])
            await one.ack(*found[1:])
            assert await one.receive(wait=120) == []
        assert (await world.admin.groups.describe(GROUP)).lag == 0

    in_world(test)


def test_a_block_acknowledges_at_its_end_and_releases_when_it_raises() -> None:
    async def test(world: World) -> None:
        await world.send("good", "bad")
        async with consumer(world) as one:
            for message in await received(one, 2):
                try:
                    async with message:
                        if message.text == "bad":
                            raise ValueError("not this time")
                except ValueError:
                    continue
            again = await one.receive()
            assert [(message.text, message.delivery_attempt) for message in again] == [("bad", 1)]

    in_world(test)


def test_a_block_keeps_its_message_however_long_it_takes() -> None:
    async def test(world: World) -> None:
        await world.send("slow")
        async with consumer(world, invisible=5) as one, consumer(world) as other:
            (message,) = await one.receive()
            first = message.receipt
            async with message:
                await asyncio.sleep(60)
                assert await other.receive(wait=0) == []
            assert message.receipt != first
            assert await other.receive(wait=60) == []

    in_world(test)


def test_without_renewal_the_message_comes_again_when_its_time_is_over() -> None:
    async def test(world: World) -> None:
        await world.send("slow")
        async with consumer(world, invisible=5, renew=False) as one, consumer(world) as other:
            (message,) = await one.receive()
            (again,) = await other.receive(wait=10)
            assert (again.text, again.delivery_attempt) == ("slow", 1)
            with pytest.raises(LeaseLostError, match="not that of the newest delivery"):
                async with message:
                    pass
            await other.ack(again)

    in_world(test)


def test_the_invisible_time_is_changed_and_a_message_released_uncounted() -> None:
    async def test(world: World) -> None:
        await world.send("a")
        async with consumer(world, invisible=5) as one:
            (message,) = await one.receive()
            until_ms = message.invisible_until_ms
            await one.change_invisible(message, 600)
            assert message.invisible_until_ms - until_ms >= 590_000
            assert await one.receive(wait=60) == []
            await one.release(message, counted=False)
            (message,) = await one.receive()
            assert message.delivery_attempt == 0
            await one.release(message, delay=30)
            assert await one.receive(wait=20) == []
            (message,) = await one.receive()
            assert message.delivery_attempt == 1

    in_world(test)


def test_receive_waits_for_the_next_message_of_any_topic() -> None:
    async def test(world: World) -> None:
        await world.admin.topics.create("payments", queues=2)
        async with consumer(world, topics=[TOPIC, "payments"]) as one:
            for topic in (TOPIC, "payments", TOPIC):
                waiting = asyncio.create_task(one.receive(wait=60))
                await asyncio.sleep(5)
                assert not waiting.done()
                await world.send("x", topic=topic)
                (message,) = await waiting
                assert message.topic == topic
                await one.ack(message)

    in_world(test)


class _Behind:
    """A clock on a wall where it is earlier than at the broker."""

    def __init__(self, clock: Clock, by_ms: int) -> None:
        self._clock, self._by_ms = clock, by_ms
        self.monotonic_ms, self.monotonic_s = clock.monotonic_ms, clock.monotonic_s

    def now_ms(self) -> int:
        return self._clock.now_ms() - self._by_ms


@pytest.mark.parametrize("by_ms", [1_300, 3_600_000, -3_600_000])
def test_clocks_of_consumers_and_brokers_may_differ(by_ms: int) -> None:
    async def test(world: World) -> None:
        await world.admin.topics.create("payments", queues=2)
        client = Client(ClientSettings(nameservers=world.nameserver), clock=_Behind(world.broker.clock, by_ms))
        topics = [TOPIC, "payments"]  # of several targets each is popped without waiting, then one of them tells
        async with client, SimpleConsumer(group=GROUP, topics=topics, start="earliest", client=client) as one:
            await world.send("old")
            assert bodies(await one.receive(wait=0)) == ["old"]
            began_ms = world.broker.now_ms()
            assert await one.receive(wait=30) == []
            assert world.broker.now_ms() - began_ms >= 30_000
            waiting = asyncio.create_task(one.receive(wait=60))
            await asyncio.sleep(5)
            await world.send("new")
            assert bodies(await waiting) == ["new"]

    in_world(test)


def test_tags_and_sql_choose_messages() -> None:
    async def test(world: World) -> None:
        await world.send("new", tags="new", properties={"price": "5"})
        await world.send("old", tags="old", properties={"price": "50"})
        async with consumer(world, topics={TOPIC: "new"}) as one:
            assert bodies(await received(one, 9, wait=1)) == ["new"]
        async with SimpleConsumer(world.nameserver, group="dear", start="earliest") as other:
            other.subscribe(TOPIC, "price > 10", sql=True)
            assert bodies(await received(other, 9, wait=1)) == ["old"]

    in_world(test)


def test_what_nobody_waits_for_any_more_is_released_uncounted() -> None:
    async def test(world: World) -> None:
        async with consumer(world) as one:
            waiting = asyncio.create_task(one.receive(wait=60))
            await asyncio.sleep(1)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await world.send("a")
            (message,) = await one.receive(wait=5)
            assert message.delivery_attempt == 0

    in_world(test)


def test_order_holds_in_a_message_group() -> None:
    async def test(world: World) -> None:
        await world.send("a1", "a2", sharding_key="a")
        await world.send("b1", sharding_key="b")
        async with consumer(world, orderly=True) as one:
            (first,) = await one.receive(1)
            (other,) = await one.receive()
            assert (first.text, other.text) == ("a1", "b1"), "a2 waits for a1"
            await one.release(first)
            assert [message.text for message in await one.receive()] == ["a1", "a2"]

    in_world(test, queues=1)


def test_a_message_that_nobody_can_handle_is_a_dead_letter() -> None:
    async def test(world: World) -> None:
        await world.admin.groups.create(GroupConfig(group_name=GROUP, retry_max_times=2))
        await world.send("poison")
        async with consumer(world, invisible=5) as one:
            attempts = []
            while found := await one.receive(wait=60):
                attempts += [message.delivery_attempt for message in found]
            assert attempts == [0, 1, 2]
        assert await world.dead_letters() == [b"poison"]

    in_world(test)


def test_urgent_messages_come_first() -> None:
    async def test(world: World) -> None:
        await world.admin.topics.create("alarms", queues=8, attributes={"message.type": "PRIORITY"})
        for priority in (0, 7, 3, 100):
            await world.send(f"p{priority}", topic="alarms", priority=priority)
        async with consumer(world, topics="alarms") as one:
            found = [message for _ in range(2) for message in await one.receive(2)]
        assert [message.text for message in found] == ["p7", "p100", "p3", "p0"]
        assert [message.priority for message in found] == [7, 100, 3, 0]

    in_world(test)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"invisible": 0}, "invisible_ms"),
        ({"invisible": 13 * 3600}, "invisible_ms"),
        ({"receive_batch": 33}, "receive_batch"),
        ({"start": "yesterday"}, "'earliest' or 'latest'"),
        ({"invisible": 5, "invisible_ms": 5_000}, "give one of them"),
    ],
)
def test_settings_that_cannot_work_say_why(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        SimpleConsumer("127.0.0.1:9876", group=GROUP, topics=TOPIC, **options)


def test_an_unknown_option_is_refused_with_advice() -> None:
    with pytest.raises(TypeError, match="did you mean 'invisible'"):
        SimpleConsumer("127.0.0.1:9876", group=GROUP, invisble=5)  # type: ignore[call-arg]


def test_what_needs_an_open_consumer_or_a_topic_says_so() -> None:
    async def test(world: World) -> None:
        one = consumer(world)
        with pytest.raises(ClientClosedError, match="inside its with block"):
            await one.receive()
        async with consumer(world, topics=()) as nothing:
            with pytest.raises(ConfigError, match="no topic is subscribed"):
                await nothing.receive()
            with pytest.raises(ConfigError, match="1 to 32"):
                nothing.subscribe(TOPIC)
                await nothing.receive(33)
        async with consumer(world, topics="nowhere") as lost:
            with pytest.raises(NoRouteError):
                await lost.receive(wait=1)

    in_world(test)
