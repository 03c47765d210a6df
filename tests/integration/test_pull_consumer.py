"""The pull consumer against a real broker: polling, positions, commits, sharing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyromq.aio import Admin, Message, Producer, QueueId, ReceivedMessage
from pyromq.client.consumer.base.settings import PullConsumerSettings
from pyromq.client.consumer.pull_consumer import PullConsumer
from pyromq.client.consumer.rules.flow_control import FlowLimits
from pyromq.client.consumer.rules.start_offset import SeekTo
from pyromq.client.core.settings import ClientSettings
from pyromq.errors import ClientClosedError, ConfigError, OffsetOutOfRangeError
from pyromq.net import Backoff
from pyromq.testing import AsyncServerProcess, LoopbackBroker
from tests.integration.waiting import until

pytestmark = pytest.mark.integration

TOPIC = "orders"
ZERO = QueueId(TOPIC, "broker-a", 0)
FAST = PullConsumerSettings(start="earliest", rebalance_ms=1_000, persist_ms=100, error_wait_ms=100)


def consumer(broker: Any, group: str = "readers", **changes: Any) -> PullConsumer:
    return PullConsumer(broker.nameserver, group=group, settings=replace(FAST, **changes))


@asynccontextmanager
async def filled(count: int, *, queues: int = 1) -> AsyncIterator[tuple[Any, Producer, list[bytes]]]:
    async with LoopbackBroker() as broker, Producer(broker.nameserver, group="makers") as producer:
        async with Admin(broker.nameserver) as admin:
            await admin.topics.create(TOPIC, queues=queues)
        yield broker, producer, await send(producer, 0, count)


async def send(producer: Producer, start: int, count: int) -> list[bytes]:
    bodies = [b"%d" % number for number in range(start, start + count)]
    for body in bodies:
        await producer.send(Message(TOPIC, body, tags="odd" if int(body) % 2 else "even"))
    return bodies


async def read(consumer: PullConsumer, count: int, timeout_s: float = 10) -> list[ReceivedMessage]:
    """Polls until there are so many."""
    found: list[ReceivedMessage] = []
    async with asyncio.timeout(timeout_s):
        while len(found) < count:
            found += await consumer.poll(1_000)
    return found


def bodies(messages: list[ReceivedMessage]) -> list[bytes]:
    return [message.body for message in messages]


async def test_poll_gives_everything_and_waits_for_more() -> None:
    async with filled(100, queues=4) as (broker, producer, sent):
        async with consumer(broker) as reader:
            reader.subscribe(TOPIC)
            found = await read(reader, 100)
            assert await reader.poll(10) == []
            waiting = asyncio.ensure_future(reader.poll(5_000))
            sent += await send(producer, 100, 1)
            found += await waiting
        assert sorted(bodies(found)) == sorted(sent)


async def test_async_for_gives_one_message_after_the_other_until_the_consumer_is_closed() -> None:
    async with filled(50) as (broker, _, sent):
        found: list[bytes] = []
        reader = consumer(broker)
        reader.subscribe(TOPIC)
        async with reader:
            async for message in reader:
                found.append(message.body)
                if len(found) == 50:
                    await reader.close()
        assert found == sent
        with pytest.raises(ClientClosedError):
            await reader.poll(0)


async def test_a_block_that_ends_well_goes_on_behind_the_last_message_handed_out() -> None:
    async with filled(50) as (broker, _, sent):
        async with consumer(broker) as reader:
            reader.subscribe(TOPIC)
            async for message in reader:
                if message.offset == 19:
                    break
        async with consumer(broker) as reader:
            reader.subscribe(TOPIC)
            assert bodies(await read(reader, 30)) == sent[20:]


async def test_a_block_that_fails_repeats_what_was_being_worked_on() -> None:
    async with filled(20) as (broker, _, _):
        with pytest.raises(ValueError, match="bad"):
            async with consumer(broker) as reader:
                reader.subscribe(TOPIC)
                async for message in reader:
                    if message.offset == 7:
                        raise ValueError("bad")
        async with consumer(broker) as reader:
            reader.subscribe(TOPIC)
            assert (await read(reader, 1))[0].offset == 7


async def test_automatic_commits_never_pass_what_was_polled_last() -> None:
    async with filled(40) as (broker, _, _):
        async with consumer(broker, poll_batch=10) as reader:
            await reader.assign([ZERO])
            assert (await reader.poll())[-1].offset == 9
            await reader._persist()
            assert await reader.committed(ZERO) == 0
            assert (await reader.poll())[-1].offset == 19
            await reader._persist()
            assert await reader.committed(ZERO) == 10 and reader.position(ZERO) == 20


async def test_commits_by_hand_are_the_only_ones() -> None:
    async with filled(40) as (broker, _, _):
        async with consumer(broker, auto_commit=False, poll_batch=10) as reader:
            await reader.assign([ZERO])
            await reader.poll()
            await reader.poll()
            assert await reader.committed(ZERO) in (None, 0)
            await reader.commit()
            assert await reader.committed(ZERO) == 20
            await reader.commit({ZERO: 5})
            await reader.poll()
        async with consumer(broker, auto_commit=False) as reader:
            await reader.assign([ZERO])
            assert await reader.committed(ZERO) == 5
            assert (await read(reader, 1))[0].offset == 5


async def test_seek_goes_to_an_offset_to_an_end_and_to_a_time() -> None:
    async with filled(30) as (broker, producer, _):
        await asyncio.sleep(0.02)  # so that the next messages are stored at a later millisecond
        later = await send(producer, 30, 10)
        async with consumer(broker) as reader:
            await reader.assign([ZERO])
            everything = await read(reader, 40)
            await reader.seek(ZERO, 33)
            assert [message.offset for message in await reader.poll()] == list(range(33, 40))
            await reader.seek(ZERO, SeekTo.BEGIN)
            assert (await reader.poll())[0].offset == 0
            await reader.seek(ZERO, SeekTo.END)
            assert await reader.poll(20) == []
            await reader.seek_to_time(ZERO, everything[30].stored_ms)
            assert bodies(await read(reader, 10)) == later
            assert await reader.offset_at(ZERO, everything[30].stored_ms) == 30
            with pytest.raises(OffsetOutOfRangeError, match=r"outside \[0, 40\)"):
                await reader.seek(ZERO, 41)
            with pytest.raises(ConfigError, match="not among the queues"):
                await reader.seek(QueueId(TOPIC, "broker-a", 9), 0)


async def test_a_paused_queue_is_silent() -> None:
    async with filled(40, queues=2) as (broker, producer, _):
        queues = [ZERO, QueueId(TOPIC, "broker-a", 1)]
        async with consumer(broker) as reader:
            assert await reader.queues(TOPIC) == queues
            await reader.assign(queues)
            await read(reader, 40)
            reader.pause([ZERO])
            await send(producer, 100, 20)
            assert {message.queue_id for message in await read(reader, 10)} == {1}
            assert await reader.poll(20) == []
            reader.resume([ZERO])
            assert {message.queue_id for message in await read(reader, 10)} == {0}


async def test_a_subscription_filters_by_tags() -> None:
    async with filled(40) as (broker, _, sent):
        async with consumer(broker) as reader:
            reader.subscribe(TOPIC, "odd")
            assert bodies(await read(reader, 20)) == sent[1::2]
        async with consumer(broker, "others") as reader:
            await reader.assign([ZERO], "even")
            assert bodies(await read(reader, 20)) == sent[::2]
            assert await reader.poll(20) == []
            assert reader.position(ZERO) == 40, "what was filtered out counts as dealt with"


async def test_assigning_and_subscribing_exclude_each_other() -> None:
    async with filled(1) as (broker, _, _):
        async with consumer(broker) as reader:
            await reader.assign([ZERO])
            with pytest.raises(ConfigError, match="either that or subscribe"):
                reader.subscribe(TOPIC)
        async with consumer(broker) as reader:
            reader.subscribe(TOPIC)
            with pytest.raises(ConfigError, match="either that or assign"):
                await reader.assign([ZERO])


async def test_members_share_queues_and_take_over() -> None:
    async with filled(0, queues=4) as (broker, producer, _):
        found: list[bytes] = []

        async def drain(reader: PullConsumer) -> None:
            async for message in reader:
                found.append(message.body)  # noqa: PERF401 - the test looks at it meanwhile

        async with consumer(broker) as one:
            one.subscribe(TOPIC)
            async with consumer(broker) as two:
                two.subscribe(TOPIC)
                await until(lambda: len(one.assignment) == len(two.assignment) == 2)
                tasks = [asyncio.ensure_future(drain(reader)) for reader in (one, two)]
                sent = await send(producer, 0, 40)
                await until(lambda: sorted(found) == sorted(sent))
            await until(lambda: len(one.assignment) == 4)
            sent += await send(producer, 40, 40)
            await until(lambda: set(found) >= set(sent))
        await asyncio.gather(*tasks)


async def test_fetching_ahead_has_bounds() -> None:
    async with filled(600, queues=2) as (broker, _, _):
        queues = [ZERO, QueueId(TOPIC, "broker-a", 1)]
        async with consumer(broker, messages_max=100, limits=FlowLimits(messages_max=80)) as reader:
            await reader.assign(queues)

            def held() -> int:
                return sum(len(owned.buffer) for owned in reader._share.owned.values())

            await until(lambda: held() >= 100)
            await until(lambda: all(owned.is_held for owned in reader._share.owned.values()))
            assert held() <= 100 + 2 * 32
            assert len(await read(reader, 600)) == 600


async def test_reading_goes_on_after_a_broker_was_killed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    async with AsyncServerProcess("up", data=tmp_path / "data") as server:
        settings = ClientSettings(nameservers=server.nameserver, backoff=Backoff(first_ms=50, ceiling_ms=300))
        async with Producer(client_settings=settings, group="makers") as producer:
            sent = await send(producer, 0, 50)
            async with PullConsumer(client_settings=settings, settings=FAST, group="readers") as reader:
                reader.subscribe(TOPIC)
                found = bodies(await read(reader, 50))
                await server.kill()
                assert await reader.poll(20) == []
                await server.start()
                sent += await send(producer, 50, 50)
                while set(found) < set(sent):
                    found += bodies(await read(reader, 1))
    assert set(found) == set(sent)


async def test_a_pull_consumer_commits_to_the_store_of_the_application() -> None:
    saved: dict[QueueId, int] = {}

    class Progress:
        def load(self, queue: QueueId) -> int | None:
            return saved.get(queue)

        def save(self, offsets: Mapping[QueueId, int]) -> None:
            saved.update(offsets)

    async with filled(10) as (broker, _, sent):
        async with consumer(broker, auto_commit=False, offset_store=Progress()) as reader:
            reader.subscribe(TOPIC)
            found = await read(reader, 4)
            await reader.commit({ZERO: 4})
            assert saved == {ZERO: 4} and await reader.committed(ZERO) == 4
            assert len(found) >= 4
        async with consumer(broker, offset_store=Progress()) as again:
            again.subscribe(TOPIC)
            assert bodies(await read(again, 6)) == sent[4:]
        assert saved == {ZERO: 10}
