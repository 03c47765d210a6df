"""A consumer with thousands of queues: it gets every message, and servers have time for others meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from pyromq import Message, QueueId, aio
from tests.hostile.rig import beside_honest_client, count, victim

pytestmark = pytest.mark.integration

TOPIC = "wide"


async def test_a_consumer_with_thousands_of_queues_gets_every_message(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    queues = count(1_000, 5_000)
    sent = {b"%d" % number for number in range(0, queues, 50)}
    async with victim(tmp_path) as server:
        async with aio.Admin(server.nameserver) as admin:
            await admin.topics.create(TOPIC, queues=queues)
        name = "a consumer of all queues of a topic"
        async with beside_honest_client(server, name, queues, record_property) as attack:
            seen: set[bytes] = set()
            is_done = asyncio.Event()

            async def listener(message: aio.ReceivedMessage) -> None:
                seen.add(message.body)
                if seen == sent:
                    is_done.set()

            async with (
                aio.Producer(server.nameserver, group="senders", timeout_ms=20_000) as producer,
                aio.PushConsumer(
                    server.nameserver, group="readers", listener=listener, topics=TOPIC, start="earliest"
                ) as consumer,
            ):
                for body in sent:
                    await producer.send(Message(TOPIC, body), queue=QueueId(TOPIC, "broker-a", int(body)))
                await asyncio.wait_for(is_done.wait(), 120)
                assert sum(queue.topic == TOPIC for queue in consumer.assignment) == queues
        assert attack.after_mb - attack.before_mb < 20 + queues * 0.03
