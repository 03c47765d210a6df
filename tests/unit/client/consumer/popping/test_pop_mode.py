"""Push consumers in pop mode: members share messages, and each message is settled by itself."""

from __future__ import annotations

import asyncio
import threading
from itertools import pairwise
from typing import Any

import pytest

from pyromq.aio import ConsumeStatus, PushConsumer, ReceivedMessage
from pyromq.client.consumer.popping.settlements import retry_ms
from pyromq.errors import ConfigError, DeadLetterError
from pyromq.model.topic import GroupConfig
from tests.unit.client.consumer.popping.pop_world import GROUP, TOPIC, World, in_world

pytestmark = pytest.mark.usefixtures("quiet")


def consumer(world: World, listener: Any, **options: Any) -> PushConsumer:
    fields: dict[str, Any] = {"group": GROUP, "topics": TOPIC, "start": "earliest", "mode": "pop"}
    return PushConsumer(world.nameserver, listener=listener, **fields | options)


def test_members_share_messages_and_not_queues() -> None:
    async def test(world: World) -> None:
        got: dict[str, list[str]] = {"one": [], "two": []}

        def taking(name: str, seconds: float) -> Any:
            async def listen(message: ReceivedMessage) -> None:
                got[name].append(message.text)
                await asyncio.sleep(seconds)

            return listen

        async with (
            consumer(world, taking("one", 0.1), threads=1) as one,
            consumer(world, taking("two", 0.1), threads=1) as two,
        ):
            for start in range(0, 200, 10):
                await world.send(*map(str, range(start, start + 10)))
                await asyncio.sleep(0.5)
            await world.broker.advance(seconds=30)
            assert one.counts.ok + two.counts.ok == 200
        assert sorted(got["one"] + got["two"], key=int) == list(map(str, range(200)))
        assert min(map(len, got.values())) > 0, "one queue, two members"
        assert (await world.admin.groups.describe(GROUP)).lag == 0

    in_world(test, queues=1)


def test_a_failed_message_comes_again_after_the_time_of_its_attempt_and_the_broker_counts() -> None:
    async def test(world: World) -> None:
        seen: list[tuple[int, int]] = []

        async def listen(message: ReceivedMessage) -> None:
            seen.append((message.delivery_attempt, round(world.broker.clock.monotonic_ms() / 1000)))
            if message.delivery_attempt < 2:
                raise ValueError("not yet")

        await world.send("a")
        async with consumer(world, listen) as one:
            await world.broker.advance(minutes=2)
            assert (one.counts.ok, one.counts.failed) == (1, 2)
        assert [attempt for attempt, _ in seen] == [0, 1, 2]
        waits = [later - earlier for (_, earlier), (_, later) in pairwise(seen)]
        assert [round(wait, -1) for wait in waits] == [10, 30]

    in_world(test)


def test_the_broker_makes_dead_letters_at_the_limit_of_the_group() -> None:
    async def test(world: World) -> None:
        await world.admin.groups.create(GroupConfig(group_name=GROUP, retry_max_times=1))
        await world.send("poison")

        async def listen(message: ReceivedMessage) -> ConsumeStatus:
            return ConsumeStatus.RETRY

        async with consumer(world, listen) as one:
            await world.broker.advance(minutes=5)
            assert one.counts.failed == 2
        assert await world.dead_letters() == [b"poison"]

    in_world(test)


@pytest.mark.parametrize("how", ["limit", "error"])
def test_a_consumer_gives_up_by_its_own_limit_or_at_once(how: str) -> None:
    async def test(world: World) -> None:
        await world.send("poison")

        async def listen(message: ReceivedMessage) -> None:
            raise DeadLetterError("no such customer") if how == "error" else ValueError("no such customer")

        async with consumer(world, listen, attempts_max=1) as one:
            await world.broker.advance(minutes=5)
            assert one.counts.failed == (1 if how == "error" else 2)
        assert await world.dead_letters() == [b"poison"]
        (letter,) = await world.admin.messages.newest(f"%DLQ%{GROUP}", 1)
        assert letter.failure_story is not None
        assert "no such customer" in str(letter.failure_story)
        assert (await world.admin.groups.describe(GROUP)).lag == 0

    in_world(test)


def test_a_long_listener_keeps_its_message_and_one_that_is_too_slow_loses_it() -> None:
    async def test(world: World) -> None:
        seen: list[int] = []

        async def listen(message: ReceivedMessage) -> None:
            seen.append(message.delivery_attempt)
            await asyncio.sleep(60)

        await world.send("slow")
        async with consumer(world, listen, invisible=5) as one:
            await world.broker.advance(minutes=3)
            assert (seen, one.counts.ok) == ([0], 1)
        seen.clear()
        await world.send("slow")
        async with consumer(world, listen, invisible=5, consume_timeout=30) as one:
            await world.broker.advance(seconds=65)
            assert (seen, one.counts.timed_out, one.counts.late) == ([0, 1], 1, 1)

    in_world(test)


def test_a_stopped_consumer_finishes_what_runs_and_releases_what_waits() -> None:
    async def test(world: World) -> None:
        done: list[str] = []

        async def listen(message: ReceivedMessage) -> None:
            await asyncio.sleep(5)
            done.append(message.text)

        await world.send(*map(str, range(10)))
        one = await consumer(world, listen, threads=1).open()
        one._service._runner._workers_max = 2  # type: ignore[union-attr]
        await world.broker.advance(seconds=1)
        await one.close()
        assert len(done) <= 4
        rest: list[tuple[str, int]] = []

        async def finish(message: ReceivedMessage) -> None:
            rest.append((message.text, message.delivery_attempt))

        async with consumer(world, finish):
            await world.broker.advance(seconds=5)
        assert sorted([*done, *(text for text, _ in rest)], key=int) == list(map(str, range(10)))
        assert {attempt for _, attempt in rest} == {0}, "what was released does not count"

    in_world(test)


def test_pausing_holds_messages_back_and_resuming_goes_on() -> None:
    async def test(world: World) -> None:
        got: list[str] = []

        async def listen(message: ReceivedMessage) -> None:
            got.append(message.text)

        async with consumer(world, listen) as one:
            await world.broker.advance(seconds=1)
            one.pause()
            await world.send("a")
            await world.broker.advance(minutes=5)
            assert got == []
            one.resume()
            await world.broker.advance(seconds=20)
            assert got == ["a"]

    in_world(test)


def test_functions_run_on_threads_and_batches_work() -> None:
    async def test(world: World) -> None:
        threads: set[str] = set()
        sizes: list[int] = []

        def listen(batch: list[ReceivedMessage]) -> None:
            threads.add(threading.current_thread().name)
            sizes.append(len(batch))

        await world.send(*map(str, range(20)))
        async with consumer(world, None, batch_listener=listen, batch_max=8) as one:
            await world.broker.advance(seconds=10)
            assert one.counts.ok == 20
        assert sum(sizes) == 20
        assert max(sizes) > 1
        assert threading.current_thread().name not in threads

    in_world(test, queues=1)


def test_acknowledgements_survive_a_broker_that_is_away_for_a_while() -> None:
    async def test(world: World) -> None:
        got: list[str] = []

        async def listen(message: ReceivedMessage) -> None:
            got.append(message.text)
            if len(got) == 1:
                away.append(asyncio.ensure_future(world.broker.restart(down_ms=20_000)))
                await asyncio.sleep(1)  # so that the acknowledgement finds nobody

        away: list[asyncio.Future[None]] = []
        await world.send("a")
        async with consumer(world, listen):
            await world.broker.advance(minutes=3)
            await asyncio.gather(*away)
        assert got == ["a"]

    in_world(test)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"orderly": True}, "orderly is for queues"),
        ({"broadcast": True}, "broadcast is for queues"),
        ({"skip_when_behind": 5}, "skip_when_behind is for queues"),
        ({"mode": "push"}, "write 'pull' or 'pop'"),
        ({"invisible": 0.5}, "invisible_ms"),
    ],
)
def test_settings_that_cannot_work_say_why(options: dict[str, Any], text: str) -> None:
    fields: dict[str, Any] = {"group": GROUP, "topics": TOPIC, "listener": print, "mode": "pop"}
    with pytest.raises(ConfigError, match=text):
        PushConsumer("127.0.0.1:9876", **fields | options)


def test_retries_wait_as_rocketmqs_clients_have_it() -> None:
    assert [retry_ms(0, attempt) // 1000 for attempt in (0, 1, 2, 15, 40)] == [10, 30, 60, 7200, 7200]
    assert retry_ms(1, 9) == 1_000
