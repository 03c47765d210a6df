"""Quotas with real clients: who takes too much is slowed down and loses nothing, others do not notice."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pyromq import Admin, Credentials, Message, Producer, PushConsumer
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.broker import Broker
from pyromq.client.core.client import Client
from pyromq.clock import SystemClock
from pyromq.errors import ConfigError, MQError, SendFailedError, TransportError
from pyromq.net import Address, Connection, open_connection
from pyromq.operate.access import policy_entry
from pyromq.security.quotas import Account, Meter
from pyromq.settings import ClientSettings
from pyromq.testing import LoopbackBroker
from pyromq.testing.loopback import SMALL_FILES
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.headers.admin import CreateTopicHeader
from tests.integration.guarded import ROOT, ask_as, guarded_access
from tests.integration.guarded import Client as Peer
from tests.integration.test_flow_control import fill, held_broker, start_send
from tests.integration.waiting import until

pytestmark = pytest.mark.integration

REFUSED_MS = 2_000  # until a send that is refused again and again gives up
SHOP = Credentials("shop", "a-long-shop-secret")


def limited(*quotas: str, **more: Any) -> LoopbackBroker:
    return LoopbackBroker(BrokerSettings(store=SMALL_FILES, quotas=quotas), **more)


def numbers(broker: LoopbackBroker) -> dict[str, int]:
    return broker.broker.parts.stats.counters.numbers()


def test_a_producer_over_its_quota_is_slowed_down_and_loses_nothing() -> None:
    with limited("topic:slow messages=20") as broker:
        with Producer(broker.nameserver, group="shop") as producer:
            receipts = [producer.send(Message("slow", b"%d" % number)) for number in range(30)]
            for number in range(50):
                producer.send(Message("fast", b"%d" % number))
        assert len({receipt.message_id for receipt in receipts}) == 30
        assert numbers(broker)["quota_sends"] > 0
        bodies: list[bytes] = []
        PushConsumer(
            broker.nameserver, group="g", listener=lambda m: bodies.append(m.body), topics="slow", start="earliest"
        ).run(messages=30)
    assert sorted(map(int, bodies)) == list(range(30)), "all that was acknowledged, each once"


def test_a_send_that_is_refused_until_its_time_is_up_says_which_quota() -> None:
    with limited("topic:slow bytes=1") as broker, Producer(broker.nameserver, group="shop") as producer:
        producer.send(Message("slow", bytes(1_000)))
        with pytest.raises(SendFailedError, match=r"quota topic:slow bytes=1 is used up"):
            producer.send(Message("slow", b"x"), timeout_ms=REFUSED_MS)
        producer.send(Message("other", b"x"))


def test_a_batch_counts_its_messages() -> None:
    with limited("topic:slow messages=5") as broker:
        with Producer(broker.nameserver, group="shop") as producer:
            producer.send(Message("slow", b"first, which makes the topic"))
            producer.send_batch([Message("slow", b"%d" % number) for number in range(50)])
            with pytest.raises(SendFailedError, match="messages=5"):
                producer.send(Message("slow", b"x"), timeout_ms=REFUSED_MS)


def test_a_group_over_its_quota_reads_everything_slowly() -> None:
    with limited("group:slow messages=100") as broker:
        with Producer(broker.nameserver, group="shop") as producer:
            for number in range(150):
                producer.send(Message("orders", b"%d" % number))
        for group in ("slow", "fast"):
            bodies: list[bytes] = []
            PushConsumer(
                broker.nameserver,
                group=group,
                listener=lambda m, bodies=bodies: bodies.append(m.body),  # type: ignore[misc]
                topics="orders",
                start="earliest",
            ).run(messages=150)
            assert sorted(map(int, bodies)) == list(range(150))
            if group == "slow":
                refused = numbers(broker)["quota_pulls"]
                assert refused > 0
        assert numbers(broker)["quota_pulls"] == refused, "the other group was not disturbed"


def test_quotas_change_while_the_broker_runs_and_are_told_in_its_numbers() -> None:
    with limited() as broker, Producer(broker.nameserver, group="shop") as producer:
        producer.send(Message("slow", bytes(1_000)))
        change(broker, "quotas=topic:slow bytes=1;address:* connections=1000")
        producer.send(Message("slow", bytes(1_000)))
        with pytest.raises(SendFailedError):
            producer.send(Message("slow", b"x"), timeout_ms=REFUSED_MS)
        with pytest.raises(MQError, match="begins with none of"):
            change(broker, "quotas=nonsense")
        change(broker, "quotas=")
        producer.send(Message("slow", b"x"))
        assert numbers(broker)["quota_sends"] > 0


def change(broker: LoopbackBroker, text: str) -> None:
    async def ask() -> None:
        async with Client(ClientSettings(nameservers=broker.nameserver)) as client:
            link = client.brokers.link(broker.address)
            await client.ask(link, RequestCode.UPDATE_BROKER_CONFIG, None, text.encode())

    asyncio.run(ask())


async def test_connections_of_an_address_beyond_the_quota_are_closed(tmp_path: Path) -> None:
    settings = BrokerSettings(port=0, store=SMALL_FILES, quotas=("address:127.0.0.0/8 connections=2",))
    async with Broker(settings, tmp_path / "store") as broker:
        address = Address("127.0.0.1", broker.address.port)
        kept = [await greeted(address) for _ in range(2)]
        with pytest.raises(TransportError):
            await greeted(address)
        assert all(connection.is_open for connection in kept)
        kept[0].close()
        await kept[0].wait_closed()
        await until(lambda: broker.parts.quotas.connections == 1)
        fourth = await greeted(address)
        assert broker.parts.stats.counters.quota_connections == 1
        for connection in (kept[1], fourth):
            connection.close()


async def greeted(address: Address) -> Connection:
    """A connection that the broker has answered over. Raises TransportError."""
    connection = await open_connection(address, clock=SystemClock())
    await connection.request(RequestCode.GET_BROKER_RUNTIME_INFO, None, timeout_ms=5_000)
    return connection


def test_quotas_of_users_need_users() -> None:
    with pytest.raises(ConfigError, match="need access control"):
        BrokerSettings(quotas=("user:billing messages=1",))


def guarded(folder: Path, *quotas: str) -> LoopbackBroker:
    return LoopbackBroker(BrokerSettings(store=SMALL_FILES, access=guarded_access(), quotas=quotas), folder=folder)


def test_topics_and_groups_that_a_user_makes_are_counted_across_restarts(tmp_path: Path) -> None:
    quotas = ("user:* topics=2 groups=1",)
    with guarded(tmp_path, *quotas) as broker:
        with Admin(broker.nameserver, credentials=ROOT) as admin:
            admin.access.create_user(SHOP.access_key, SHOP.secret_key)
            admin.access.set_policy("shop", [policy_entry("*", ["All"])])
            for number in range(5):
                admin.topics.create(f"of-root-{number}", queues=1)  # super users make them for others
        with Admin(broker.nameserver, credentials=SHOP) as admin:
            admin.topics.create("one", queues=1)
            admin.topics.create("one", queues=2)  # no other one
            admin.groups.create("g1")
            with pytest.raises(MQError, match=r"quota user:shop groups=1"):
                admin.groups.create("g2")
        with Producer(broker.nameserver, group="p", credentials=SHOP) as producer:
            producer.send(Message("two", b"made by this send"))
            with pytest.raises(MQError, match=r"user shop has made 2 topics, quota user:shop topics=2"):
                producer.send(Message("three", b"x"))
    with guarded(tmp_path, *quotas) as broker:
        with pytest.raises(MQError, match="topics=2"):
            create(broker, "three")
        with Admin(broker.nameserver, credentials=ROOT) as admin:
            admin.topics.delete("one")
        create(broker, "three")
        assert numbers(broker)["quota_creations"] == 1


def create(broker: LoopbackBroker, topic: str) -> None:
    """As shop, whom only the broker knows after a restart."""

    async def ask() -> None:
        async with Client(ClientSettings(nameservers=broker.nameserver, credentials=SHOP)) as client:
            header = CreateTopicHeader(
                topic=topic,
                default_topic="TBW102",
                read_queue_nums=1,
                write_queue_nums=1,
                perm=6,
                topic_filter_type="SINGLE_TAG",
                order=False,
            )
            await client.ask(client.brokers.link(broker.address), RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    asyncio.run(ask())


def test_a_user_over_its_quota_does_not_disturb_another(tmp_path: Path) -> None:
    with guarded(tmp_path, "user:shop messages=5") as broker:
        with Admin(broker.nameserver, credentials=ROOT) as admin:
            admin.access.create_user(SHOP.access_key, SHOP.secret_key)
            admin.access.apply_template("shop", "producer", topics=["*"])
            admin.topics.create("orders", queues=1)
        with (
            Producer(broker.nameserver, group="p", credentials=SHOP) as shop,
            Producer(broker.nameserver, group="q", credentials=ROOT) as root,
        ):
            for number in range(8):
                shop.send(Message("orders", b"%d" % number))
            refused = numbers(broker)["quota_sends"]
            assert refused > 0
            for number in range(50):
                root.send(Message("orders", b"%d" % number))
            assert numbers(broker)["quota_sends"] == refused


async def test_connections_of_a_user_are_counted_by_heartbeats(tmp_path: Path) -> None:
    quotas = ("user:root connections=1",)
    settings = BrokerSettings(port=0, store=SMALL_FILES, access=guarded_access(), quotas=quotas)
    async with Broker(settings, tmp_path / "store") as broker:
        body = b'{"clientID":"c1","producerDataSet":[{"groupName":"shop"}],"consumerDataSet":[]}'
        async with Peer(str(broker.address)) as first:
            for _ in range(2):
                assert (await ask_as(first, "root", RequestCode.HEART_BEAT, {}, body)).code == 0
            async with Peer(str(broker.address)) as second:
                refused = await ask_as(second, "root", RequestCode.HEART_BEAT, {}, body)
                assert refused.code == ResponseCode.SYSTEM_BUSY and "user:root connections=1" in (refused.remark or "")
                with pytest.raises(ConnectionError):
                    await second.receive()
            async with Peer(str(broker.address)) as other:
                another = body.replace(b"c1", b"c2")  # a client id belongs to its user
                assert (await ask_as(other, "inner-broker", RequestCode.HEART_BEAT, {}, another)).code == 0
        await until(lambda: broker.parts.quotas.connections == 0)
        async with Peer(str(broker.address)) as third:
            assert (await ask_as(third, "root", RequestCode.HEART_BEAT, {}, body)).code == 0


async def test_a_send_that_waits_for_the_disk_is_charged_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    charged: list[int] = []

    def charge(meter: Meter, account: Account, messages: int, size_bytes: int) -> None:
        charged.append(messages)

    monkeypatch.setattr(Meter, "charge", charge)
    async with held_broker(tmp_path, quotas=("topic:* messages=1000",)) as (broker, client, disk):
        sends = await fill(broker, client)
        sends.append(start_send(client))
        await until(lambda: len(broker.parts.write_path.gate) == 1)
        disk.free.set()
        assert [(await each).code for each in sends] == [0, 0, 0]
    assert charged == [1] * 4, "the first of all, two that wait for the disk, one that waited for those"
