"""Administration of a real broker on loopback, and what clients do by themselves: heartbeats, routes, fail-over."""

from __future__ import annotations

import pytest

from pyromq import aio
from pyromq.client.core.roles import ConsumerRole
from pyromq.errors import (
    BrokerError,
    ConfigError,
    GroupNotFoundError,
    GroupOfflineError,
    InvalidNameError,
    NotFoundError,
    TopicNotFoundError,
)
from pyromq.model.message import Message
from pyromq.model.queue import QueueId
from pyromq.model.topic import GroupConfig, Perm
from pyromq.offsets import EARLIEST, LATEST
from pyromq.settings import ClientSettings
from pyromq.store.key_search import KeySearch
from pyromq.testing.loopback import LoopbackBroker
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.json.heartbeat import ConsumerData, Subscription
from tests.integration.both_loops import Run
from tests.integration.scripted_broker import ScriptedBroker, scripted
from tests.integration.waiting import until

pytestmark = pytest.mark.integration


class Member(ConsumerRole):
    """The least that a consumer is."""

    def __init__(self, group: str) -> None:
        super().__init__(group)
        self.changes = 0

    def heartbeat_data(self) -> ConsumerData:
        subscriptions = (Subscription(topic="orders", sub_version=1), Subscription(topic=f"%RETRY%{self.group}"))
        return ConsumerData(group_name=self.group, subscription_data_set=subscriptions)

    def topics(self) -> list[str]:
        return ["orders"]

    def members_changed(self) -> None:
        self.changes += 1


def test_a_topic_is_created_described_and_deleted(run: Run) -> None:
    async def main() -> None:
        async with LoopbackBroker() as broker, aio.Admin(broker.nameserver) as admin:
            await admin.topics.create("orders", queues=3)
            await admin.topics.create("archive", read_queues=2, write_queues=1, perm=Perm.READ)
            assert {"orders", "archive"} <= set(await admin.topics.names())
            assert (await admin.topics.config("orders"))["broker-a"].write_queue_nums == 3
            assert (await admin.topics.config("archive"))["broker-a"].perm == 4
            assert [data.read_queue_nums for data in (await admin.topics.route("orders")).queue_datas] == [3]
            stats = await admin.topics.stats("orders")
            assert [queue.number for queue in stats] == [0, 1, 2]
            await admin.topics.delete("orders")
            assert "orders" not in await admin.topics.names()
            with pytest.raises(TopicNotFoundError):
                await admin.topics.route("orders")
            with pytest.raises(InvalidNameError):
                await admin.topics.create("not a topic")
            with pytest.raises(BrokerError, match="system topic"):
                await admin.topics.create("TBW102")

    run(main())


def test_messages_are_found_by_every_name_they_have(run: Run) -> None:
    async def main() -> None:
        async with LoopbackBroker() as broker, aio.Producer(broker.nameserver, group="makers") as producer:
            sent = [await producer.send(Message("orders", b"%d" % n, keys=f"k{n} all")) for n in range(3)]
            async with aio.Admin(broker.nameserver) as admin:
                for n, receipt in enumerate(sent):
                    body = b"%d" % n
                    assert (await admin.messages.get("orders", receipt.offset_message_id)).body == body
                    assert (await admin.messages.get("orders", receipt.message_id)).body == body
                    assert (await admin.messages.by_unique_key("orders", receipt.message_id)).body == body
                    assert (await admin.messages.at(receipt.queue, receipt.offset)).body == body
                    assert [found.body for found in await admin.messages.find("orders", f"k{n}")] == [body]
                everything = await admin.messages.find("orders", "all")
                assert sorted(found.body for found in everything) == [b"0", b"1", b"2"]
                assert await admin.messages.find("orders", "nobody") == []
                stranger = "7F000002" + sent[0].offset_message_id[8:]
                with pytest.raises(NotFoundError, match="no broker that name servers know"):
                    await admin.messages.by_offset_id(stranger)
                for lookup in (
                    admin.messages.get("orders", "0" * 32),
                    admin.messages.get("orders", "what?"),
                    admin.messages.by_offset_id(sent[0].offset_message_id[:-4] + "FFFF"),
                    admin.messages.at(sent[0].queue, 1_000),
                ):
                    with pytest.raises(NotFoundError):
                        await lookup

    run(main())


def test_who_asks_for_a_key_whose_hash_too_many_have_is_told(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(KeySearch.find, "__kwdefaults__", {"work_max": 2})

    async def main() -> None:
        async with LoopbackBroker() as broker, aio.Producer(broker.nameserver, group="makers") as producer:
            for key in ("AaAa", "AaBB", "BBAa"):  # one Java hash
                await producer.send(Message("orders", key.encode(), keys=key))
            async with aio.Admin(broker.nameserver) as admin:
                assert [found.body for found in await admin.messages.find("orders", "BBAa")] == [b"BBAa"]
                assert "older messages may have the key" in caplog.text and "key=BBAa" in caplog.text
                with pytest.raises(BrokerError, match="earlier end of the time range"):
                    await admin.messages.find("orders", "AaAa")

    run(main())


def test_a_group_is_created_found_moved_and_deleted(run: Run) -> None:
    async def main() -> None:
        async with LoopbackBroker() as broker, aio.Admin(broker.nameserver) as admin:
            await admin.topics.create("orders", queues=2)
            async with aio.Producer(broker.nameserver, group="makers") as producer:
                for _ in range(6):
                    await producer.send(Message("orders", b"x"))
            await admin.groups.create(GroupConfig(group_name="billing", retry_max_times=3))
            assert "billing" in await admin.groups.names()
            assert (await admin.groups.config("billing")).retry_max_times == 3
            reset = await admin.offsets.reset("billing", "orders", to_ms=LATEST)
            assert sum(reset.values()) == 6
            assert all(
                p.broker_offset == p.consumer_offset for p in (await admin.groups.lag("billing", "orders")).values()
            )
            await admin.offsets.reset("billing", "orders", to_ms=EARLIEST)
            lag = await admin.groups.lag("billing", "orders")
            assert sum(progress.broker_offset - progress.consumer_offset for progress in lag.values()) == 6
            queue = QueueId("orders", "broker-a", 0)
            assert await admin.offsets.reset("billing", "orders", queue=queue, offset=1) == {queue: 1}
            assert await admin.offsets.at(queue, 0) == 0
            with pytest.raises(ConfigError):
                await admin.offsets.reset("billing", "orders", offset=1)
            with pytest.raises(GroupOfflineError):
                await admin.members.connections("billing")
            await admin.groups.delete("billing")
            assert "billing" not in await admin.groups.names()
            with pytest.raises(GroupNotFoundError):
                await admin.groups.config("billing")

    run(main())


def test_a_consumer_that_joins_is_a_member_until_it_leaves(run: Run) -> None:
    async def main() -> None:
        async with LoopbackBroker() as broker, aio.Admin(broker.nameserver) as admin:
            await admin.topics.create("orders")
            settings = ClientSettings(nameservers=broker.nameserver)
            async with aio.Client(settings) as one, aio.Client(settings) as two:
                first, second = Member("billing"), Member("billing")
                for client, role in ((one, first), (two, second)):
                    await client.routes.get("orders", timeout_ms=30_000)
                    client.join(role)
                    await client.heartbeat_now()
                connections = await admin.members.connections("billing")
                assert {each.client_id for each in connections.connection_set} == {one.id, two.id}
                assert "orders" in connections.subscription_table
                await until(lambda: first.changes >= 1)
                seen = first.changes
                await two.leave(second)
                await until(lambda: first.changes > seen)
                with pytest.raises(ConfigError, match="already"):
                    one.join(Member("billing"))

    run(main())


def test_a_broker_tells_of_itself(run: Run) -> None:
    async def main() -> None:
        async with LoopbackBroker() as broker, aio.Admin(broker.nameserver) as admin:
            cluster = await admin.brokers.cluster()
            assert cluster.broker_addr_table["broker-a"].master_addr == broker.address
            for name in ("broker-a", broker.address):
                assert (await admin.brokers.config(name))["brokerName"] == "broker-a"
                assert (await admin.brokers.runtime(name))["brokerActive"] == "true"
            with pytest.raises(BrokerError, match="know no broker nobody"):
                await admin.brokers.config("nobody")
            with pytest.raises(BrokerError, match="no broker with a master in cluster elsewhere"):
                await admin.topics.create("orders", cluster="elsewhere")

    run(main())


def test_heartbeats_and_routes_go_on_by_themselves(run: Run) -> None:
    async def main() -> None:
        broker = ScriptedBroker("a")
        async with scripted(broker) as cluster:
            settings = ClientSettings(nameservers=cluster.nameserver, heartbeat_ms=30, route_poll_ms=30)
            async with aio.Producer(client_settings=settings, group="makers") as producer:
                await producer.send(Message("T", b"x"))
                await until(lambda: broker.codes.count(Code.HEART_BEAT) >= 4)
                await until(lambda: cluster.names.asked.count("T") >= 4)

    run(main())


def test_a_dead_name_server_is_passed_over(run: Run) -> None:
    async def main() -> None:
        async with scripted(ScriptedBroker("a")) as cluster:
            for _ in range(4):  # their order is left to chance
                nameservers = ["127.0.0.1:1", cluster.nameserver]
                async with aio.Producer(nameservers, group="makers") as producer:
                    await producer.send(Message("T", b"x"))

    run(main())


async def test_a_topic_can_be_used_as_soon_as_it_is_made() -> None:
    """Name servers know it by then; else the first senders would take the default number of queues for it."""
    async with LoopbackBroker() as broker, aio.Admin(broker.nameserver) as admin:
        async with aio.Producer(broker.nameserver, group="senders") as producer:
            for number in range(20):
                await admin.topics.create(f"made-{number}", queues=1)
                for _ in range(4):
                    assert (await producer.send(Message(f"made-{number}", b"x"))).queue.number == 0
