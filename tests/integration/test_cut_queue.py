"""A queue that lost its end while consumers were ahead of it: what is sent next is not skipped."""

from __future__ import annotations

from typing import Any

import pytest

from pyromq.aio import PullConsumer, ReceivedMessage
from pyromq.settings import PullConsumerSettings
from tests.integration.quick_consumer import QUEUE, quick_consumer
from tests.integration.scripted_queues import ScriptedQueues, scripted_queues
from tests.integration.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]

GROUP = "billing"
BEFORE_MS, AFTER_MS = 1_000_000, 2_000_000


def fill(broker: ScriptedQueues, *names: str, stored_ms: int) -> None:
    for name in names:
        broker.put(name.encode(), stored_ms=stored_ms)


async def cut_and_fill(broker: ScriptedQueues) -> None:
    """The last three are lost, and two new ones stored before anybody pulls again."""
    broker.cut(QUEUE, 3)
    fill(broker, "new-0", "new-1", stored_ms=AFTER_MS)
    for connection in broker.members.values():
        connection.abort("the power went")


async def test_a_push_consumer_that_was_ahead_gets_what_was_stored_after_the_cut() -> None:
    seen: list[bytes] = []

    async def remember(message: ReceivedMessage) -> None:
        seen.append(message.body)

    async with scripted_queues(GROUP) as broker:
        fill(broker, *map(str, range(3)), stored_ms=BEFORE_MS - 100_000)
        fill(broker, *map(str, range(3, 8)), stored_ms=BEFORE_MS)
        async with quick_consumer(broker, remember):
            await until(lambda: broker.committed[QUEUE] == 8)
            await cut_and_fill(broker)
            await until(lambda: b"new-0" in seen and b"new-1" in seen, "what is new arrives")
            await until(lambda: broker.committed[QUEUE] == 7)
        assert b"0" not in seen[8:], "what is older than the margin does not come again"


@pytest.mark.parametrize("handed_out", [8, 5])
async def test_a_pull_consumer_too_and_its_commits_go_back(handed_out: int) -> None:
    async with scripted_queues(GROUP) as broker:
        fill(broker, *map(str, range(8)), stored_ms=BEFORE_MS - 100_000)
        settings = PullConsumerSettings(persist_ms=20, error_wait_ms=50)
        async with PullConsumer(broker.nameserver, settings=settings, group=GROUP) as consumer:
            consumer.subscribe("T")
            seen: list[Any] = []
            while len(seen) < handed_out:
                seen += await consumer.poll(count_max=min(handed_out - len(seen), 5))
            await cut_and_fill(broker)
            while not seen or seen[-1].body != b"new-1":
                batch = await consumer.poll()
                assert batch, "what is new arrives"
                seen += batch
            await consumer.poll(1)
            await until(lambda: broker.committed[QUEUE] == 7)
        assert [message.body for message in seen[-2:]] == [b"new-0", b"new-1"]
