"""Numbers of brokers: what a topic holds and takes, all configurations, producers, topics of the system."""

from __future__ import annotations

import pytest

from pyromq.aio import Admin, Message, Producer
from pyromq.errors import TopicNotFoundError
from pyromq.model.system_names import TopicKind
from pyromq.testing import LoopbackBroker


async def test_traffic_has_queues_and_a_rate() -> None:
    async with LoopbackBroker() as broker, Admin(broker.nameserver) as admin:
        await admin.topics.create("orders", queues=2)
        before = await admin.topics.traffic("orders")
        assert (before.messages, before.last_stored_ms, len(before.queues)) == (0, 0, 2)
        async with Producer(broker.nameserver, group="shop") as producer:
            for _ in range(6):
                await producer.send(Message("orders", b"1"))
        traffic = await admin.topics.traffic("orders")
        assert traffic.messages == 6
        assert traffic.last_stored_ms > 0
        assert traffic.put_rate >= 0
        assert dict(traffic.queues) == await admin.topics.stats("orders")
        with pytest.raises(TopicNotFoundError):
            await admin.topics.traffic("absent")


async def test_configurations_of_all_topics_come_at_once_and_system_topics_are_told_apart() -> None:
    async with LoopbackBroker() as broker, Admin(broker.nameserver) as admin:
        await admin.topics.create("orders", queues=2, attributes={"message.type": "FIFO"})
        sweep, kinds = await admin.sweeper.read(), await admin.topics.kinds()
        (config,) = sweep.topics["orders"].values()
        assert (config.write_queue_nums, config.attributes["message.type"], sweep.queues_of("orders")) == (2, "FIFO", 2)
        system = {name for name, kind in kinds.items() if kind is TopicKind.SYSTEM}
        assert {"TBW102", "SCHEDULE_TOPIC_XXXX", "broker-a", "DefaultCluster"} <= system and "orders" not in system
        assert "orders" in await admin.topics.names(cluster="DefaultCluster")


async def test_producers_are_listed_by_group_and_each_once() -> None:
    async with LoopbackBroker() as broker, Admin(broker.nameserver) as admin:
        await admin.topics.create("orders", queues=1)
        assert await admin.members.producers() == {}
        async with Producer(broker.nameserver, group="shop") as producer:
            await producer.send(Message("orders", b"1"))
            found = await admin.members.producers()
        assert list(found) == ["shop"]
        (member,) = found["shop"]
        assert member.language == "PYTHON"
        assert member.client_id
