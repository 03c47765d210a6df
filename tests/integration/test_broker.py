"""A name server and a broker on loopback, spoken to with bare requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.broker import Broker
from pyromq.clock import SystemClock
from pyromq.model.queue import QueueId
from pyromq.model.topic import GroupConfig
from pyromq.nameserver.server import NameServer
from pyromq.nameserver.settings import NameServerSettings
from pyromq.net import Connection, Handler, open_connection
from pyromq.store.settings import Flush, StoreSettings
from pyromq.wire.batch import BatchItem, encode_batch
from pyromq.wire.codes import Language, RequestCode, ResponseCode
from pyromq.wire.command import encode_request
from pyromq.wire.flags import PullFlag
from pyromq.wire.headers.admin import CreateTopicHeader
from pyromq.wire.headers.consumer import (
    GetMaxOffsetHeader,
    OffsetResponseHeader,
    PullHeader,
    PullResponseHeader,
    QueryConsumerOffsetHeader,
    QueryMessageHeader,
    UpdateConsumerOffsetHeader,
    ViewMessageHeader,
)
from pyromq.wire.headers.producer import SendResponseHeader, SendV2Header
from pyromq.wire.headers.shared import ConsumerGroupHeader, TopicHeader
from pyromq.wire.json import bodies
from pyromq.wire.json.heartbeat import (
    ConsumerData,
    Heartbeat,
    MessageModel,
    ProducerData,
    Subscription,
    decode_consumer_connections,
    encode_heartbeat,
)
from pyromq.wire.json.route import decode_route
from pyromq.wire.message_id import decode_offset_id
from pyromq.wire.properties import decode_properties
from pyromq.wire.received import Received
from pyromq.wire.record import Record, split_records
from tests.integration.waiting import LOOK_AGAIN_S, PATIENCE_S, until

pytestmark = [pytest.mark.integration, pytest.mark.both_modes]
TIMEOUT_MS = 5_000


def settings(**changes: Any) -> BrokerSettings:
    store = StoreSettings(segment_bytes=1 << 20, index_slots=1_000, index_entries=5_000, full_percent=100)
    return BrokerSettings(**{"port": 0, "store": store} | changes)


class Client(Handler):
    """A peer that notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[Received[Any]] = []
        self.event = asyncio.Event()

    def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
        self.asked += requests
        self.event.set()

    async def connect(self, broker: Broker) -> Connection:
        self.connection = await open_connection(broker.address, clock=SystemClock(), handler=self)
        return self.connection

    async def ask(self, code: int, header: Any = None, body: bytes = b"") -> Received[Any]:
        return await self.connection.request(code, header, body, timeout_ms=TIMEOUT_MS)


@asynccontextmanager
async def running(folder: Path, **changes: Any) -> AsyncIterator[tuple[Broker, Client]]:
    async with Broker(settings(**changes), folder / "store") as broker:
        client = Client()
        await client.connect(broker)
        yield broker, client
        client.connection.close()


def send_header(topic: str = "orders", queue_id: int = 0, properties: str = "", **changes: Any) -> SendV2Header:
    fields: dict[str, Any] = {
        "producer_group": "senders",
        "topic": topic,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": queue_id,
        "sys_flag": 0,
        "born_timestamp": 1_700_000_000_000,
        "flag": 0,
        "properties": properties,
    }
    return SendV2Header(**fields | changes)


def pull_header(
    offset: int = 0, *, topic: str = "orders", queue_id: int = 0, wait_ms: int = 0, tags: str = "*"
) -> PullHeader:
    flag = PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if wait_ms else 0)
    return PullHeader(
        consumer_group="readers",
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=int(flag),
        commit_offset=0,
        suspend_timeout_millis=wait_ms,
        subscription=tags,
        sub_version=0,
    )


async def send(client: Client, body: bytes, **changes: Any) -> SendResponseHeader:
    answer = await client.ask(RequestCode.SEND_MESSAGE_V2, send_header(**changes), body)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return answer.header_as(SendResponseHeader)


async def pull(client: Client, header: PullHeader) -> tuple[int, list[Record], PullResponseHeader]:
    answer = await client.ask(RequestCode.PULL_MESSAGE, header)
    return answer.code, split_records(answer.body), answer.header_as(PullResponseHeader)


async def test_a_message_is_sent_and_pulled(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        sent = await send(client, b"hello", properties="TAGS\x01TagA\x02UNIQ_KEY\x01U1\x02", queue_id=2)
        assert (sent.queue_id, sent.queue_offset, sent.transaction_id) == (2, 0, "U1")
        host, position = decode_offset_id(sent.msg_id)
        assert (str(host), position) == (str(broker.address), 0)
        code, (record,), header = await pull(client, pull_header(queue_id=2))
        assert (code, record.body, header.next_begin_offset, header.max_offset) == (0, b"hello", 1, 1)
        properties = decode_properties(record.properties)
        assert properties["CLUSTER"] == "DefaultCluster" and properties["MSG_REGION"] == "DefaultRegion"
        viewed = await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageHeader(position=position))
        assert split_records(viewed.body) == [record]


async def test_a_batch_becomes_messages_of_one_queue(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        body = encode_batch([BatchItem(b"%d" % n, b"KEYS\x01k%d\x02" % n) for n in range(5)])
        properties = "UNIQ_KEY\x01whole\x02"
        answer = await client.ask(RequestCode.SEND_BATCH_MESSAGE, send_header(batch=True, properties=properties), body)
        assert answer.header_as(SendResponseHeader).transaction_id == "whole"
        sent = answer.header_as(SendResponseHeader)
        assert len(sent.msg_id.split(",")) == 5
        _, records, _ = await pull(client, pull_header())
        assert [(record.body, record.offset) for record in records] == [(b"%d" % n, n) for n in range(5)]


async def test_a_pull_that_says_how_many_bytes_it_takes_gets_more_than_32_messages(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        body = encode_batch([BatchItem(b"%d" % n) for n in range(50)])
        await client.ask(RequestCode.SEND_BATCH_MESSAGE, send_header(batch=True), body)
        wanted = msgspec.structs.replace(pull_header(), max_msg_nums=1000)
        assert len((await pull(client, wanted))[1]) == 32
        assert len((await pull(client, msgspec.structs.replace(wanted, max_msg_bytes=1 << 20)))[1]) == 50


@pytest.mark.parametrize("flush", Flush)
async def test_many_sends_in_flight_are_answered_in_order_of_their_offsets(tmp_path: Path, flush: Flush) -> None:
    store = StoreSettings(segment_bytes=1 << 20, flush=flush, full_percent=100)
    async with running(tmp_path, store=store) as (_, client):
        header = send_header()
        futures = [
            client.connection.request_nowait(RequestCode.SEND_MESSAGE_V2, header, b"%d" % n, timeout_ms=TIMEOUT_MS)
            for n in range(2_000)
        ]
        answers = [await future for future in futures]
        assert [answer.header_as(SendResponseHeader).queue_offset for answer in answers] == list(range(2_000))


async def test_a_held_pull_gets_the_next_message_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        await send(client, b"first")
        waiting = asyncio.create_task(pull(client, pull_header(1, wait_ms=15_000)))
        await until(lambda: len(broker.parts.waiters) == 1)
        await send(client, b"second")
        code, (record,), _ = await asyncio.wait_for(waiting, PATIENCE_S)
        assert (code, record.body) == (0, b"second")
        assert len(broker.parts.waiters) == 0


async def test_a_held_pull_with_a_filter_sleeps_through_other_tags(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        await send(client, b"0", properties="TAGS\x01TagA\x02")
        waiting = asyncio.create_task(pull(client, pull_header(1, wait_ms=15_000, tags="TagB || TagC")))
        await until(lambda: len(broker.parts.waiters) == 1)
        for n in range(1, 4):
            await send(client, b"%d" % n, properties="TAGS\x01TagA\x02")
        assert not waiting.done()
        await send(client, b"4", properties="TAGS\x01TagC\x02")
        _, (record,), header = await asyncio.wait_for(waiting, PATIENCE_S)
        assert (record.body, header.next_begin_offset) == (b"4", 5)


async def test_a_held_pull_ends_when_its_time_is_over(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        await send(client, b"first")
        code, records, header = await pull(client, pull_header(1, wait_ms=50))
        assert (code, records, header.next_begin_offset) == (ResponseCode.PULL_NOT_FOUND, [], 1)


async def test_a_held_pull_of_a_lost_client_is_dropped(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        await send(client, b"first")
        other = Client()
        await other.connect(broker)
        future = other.connection.request_nowait(
            RequestCode.PULL_MESSAGE, pull_header(1, wait_ms=15_000), timeout_ms=20_000
        )
        await until(lambda: len(broker.parts.waiters) == 1)
        other.connection.abort("gone")
        await until(lambda: len(broker.parts.waiters) == 0)
        assert isinstance(future.exception(), Exception)


@pytest.mark.parametrize(
    ("offset", "code", "next_offset"),
    [
        (0, ResponseCode.SUCCESS, 3),
        (3, ResponseCode.PULL_NOT_FOUND, 3),
        (9, ResponseCode.PULL_OFFSET_MOVED, 3),
        (-1, ResponseCode.PULL_OFFSET_MOVED, 0),
    ],
)
async def test_pulls_outside_the_queue_are_told_where_it_is(
    tmp_path: Path, offset: int, code: ResponseCode, next_offset: int
) -> None:
    async with running(tmp_path) as (_, client):
        for n in range(3):
            await send(client, b"%d" % n)
        found, _, header = await pull(client, pull_header(offset))
        assert (found, header.next_begin_offset) == (code, next_offset)


@pytest.mark.parametrize(
    ("code", "header", "body", "refusal", "remark"),
    [
        (310, send_header("../etc"), b"x", ResponseCode.INVALID_PARAMETER, "only the characters"),
        (310, send_header("t" * 128), b"x", ResponseCode.INVALID_PARAMETER, "at most 127"),
        (310, send_header("SCHEDULE_TOPIC_XXXX"), b"x", ResponseCode.NO_PERMISSION, "are not allowed to send"),
        (310, send_header("BenchmarkTest", 5_000), b"x", ResponseCode.INVALID_PARAMETER, "out of range"),
        (310, send_header("new", default_topic="nothing"), b"x", ResponseCode.TOPIC_NOT_EXIST, "create it first"),
        (310, send_header(), b"x" * ((4 << 20) + 1), ResponseCode.MESSAGE_ILLEGAL, "at most 4194304"),
        (310, send_header(properties="x\x01" + "y" * 32_800), b"x", ResponseCode.MESSAGE_ILLEGAL, "properties"),
        (310, send_header(sys_flag=128), b"x", ResponseCode.MESSAGE_ILLEGAL, "BatchCQ"),
        (320, send_header(sys_flag=192), b"x", ResponseCode.MESSAGE_ILLEGAL, "BatchCQ"),
        (325, send_header(sys_flag=128), b"x", ResponseCode.MESSAGE_ILLEGAL, "BatchCQ"),
        (320, send_header(), b"nonsense", ResponseCode.SYSTEM_ERROR, "batch item 0"),
        (320, send_header("%RETRY%g"), b"", ResponseCode.MESSAGE_ILLEGAL, "retry topic"),
        (11, pull_header(topic="unknown"), b"", ResponseCode.TOPIC_NOT_EXIST, "does not exist"),
        (11, pull_header(topic="BenchmarkTest", queue_id=2_000), b"", ResponseCode.INVALID_PARAMETER, "out of range"),
        (33, ViewMessageHeader(position=7), b"", ResponseCode.SYSTEM_ERROR, "no message starts at position 7"),
        (34, None, b"{not json", ResponseCode.SYSTEM_ERROR, "JSON"),
        (38, ConsumerGroupHeader(consumer_group="nobody"), b"", ResponseCode.SYSTEM_ERROR, "no consumer"),
        (202, TopicHeader(topic="unknown"), b"", ResponseCode.TOPIC_NOT_EXIST, "does not exist"),
        (999, None, b"", ResponseCode.REQUEST_CODE_NOT_SUPPORTED, " request type 999 not supported"),
    ],
)
async def test_bad_requests_are_refused_clearly_and_disturb_nothing(
    tmp_path: Path, code: int, header: Any, body: bytes, refusal: ResponseCode, remark: str
) -> None:
    async with running(tmp_path) as (_, client):
        answer = await client.ask(code, header, body)
        assert (answer.code, remark in (answer.remark or "")) == (refusal, True), answer.remark
        assert (await send(client, b"fine")).queue_offset == 0


async def test_topics_are_created_by_the_first_send_and_known_to_the_name_server(tmp_path: Path) -> None:
    async with NameServer(NameServerSettings(port=0)) as nameserver:
        name = str(nameserver.address)
        async with running(tmp_path, nameservers=(name,)) as (broker, client):
            await send(client, b"x", topic="fresh")
            ns = await open_connection(nameserver.address, clock=SystemClock())
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    header = TopicHeader(topic="fresh")
                    answer = await ns.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header, timeout_ms=30_000)
                    if answer.code == ResponseCode.SUCCESS:
                        break
                    await asyncio.sleep(LOOK_AGAIN_S)
            route = decode_route(answer.body)
            assert route.publishable_queues("fresh") == [QueueId("fresh", "broker-a", n) for n in range(4)]
            served_by = route.broker("broker-a")
            assert served_by is not None and served_by.master_addr == str(broker.address)
            ns.close()


async def test_progress_of_a_group_is_kept_over_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        for n in range(5):
            await send(client, b"%d" % n)
        asked = QueryConsumerOffsetHeader(consumer_group="readers", topic="orders", queue_id=0)
        fresh = await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, asked)
        assert fresh.header_as(OffsetResponseHeader).offset == 0, "a young queue is read from its start"
        commit = UpdateConsumerOffsetHeader(consumer_group="readers", topic="orders", queue_id=0, commit_offset=3)
        await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
    async with running(tmp_path) as (_, client):
        known = await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, asked)
        assert known.header_as(OffsetResponseHeader).offset == 3
        end = await client.ask(RequestCode.GET_MAX_OFFSET, GetMaxOffsetHeader(topic="orders", queue_id=0))
        assert end.header_as(OffsetResponseHeader).offset == 5
        assert (await send(client, b"5")).queue_offset == 5


def heartbeat(client_id: str, *topics: str) -> bytes:
    subscriptions = tuple(Subscription(topic=topic, sub_version=1) for topic in topics)
    group = ConsumerData(group_name="readers", subscription_data_set=subscriptions)
    producers = (ProducerData(group_name="senders"),)
    return encode_heartbeat(Heartbeat(client_id=client_id, consumer_data_set=(group,), producer_data_set=producers))


async def test_members_learn_of_each_other_and_of_a_lost_connection(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, first):
        second = Client()
        await second.connect(broker)
        assert (await first.ask(RequestCode.HEART_BEAT, body=heartbeat("c1", "orders"))).code == 0
        await first.event.wait()
        first.event.clear()
        await second.ask(RequestCode.HEART_BEAT, body=heartbeat("c2", "orders"))
        await asyncio.wait_for(first.event.wait(), PATIENCE_S)
        assert first.asked[-1].code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        asked = ConsumerGroupHeader(consumer_group="readers")
        listed = await first.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, asked)
        assert bodies.decode(listed.body, bodies.GroupMemberIds).consumer_id_list == ["c1", "c2"]
        assert broker.parts.tables.topics.get("%RETRY%readers") is not None
        first.event.clear()
        second.connection.abort("crash")
        await asyncio.wait_for(first.event.wait(), PATIENCE_S)
        listed = await first.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, asked)
        assert bodies.decode(listed.body, bodies.GroupMemberIds).consumer_id_list == ["c1"]


async def test_a_queue_is_locked_by_one_client_at_a_time(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        queues = (QueueId("orders", "broker-a", 0), QueueId("orders", "broker-a", 1))

        async def lock(client_id: str, code: int = RequestCode.LOCK_BATCH_MQ) -> tuple[QueueId, ...]:
            wanted = bodies.LockRequest(consumer_group="readers", client_id=client_id, mq_set=queues)
            answer = await client.ask(code, body=bodies.encode(wanted))
            return bodies.decode(answer.body, bodies.LockResponse).granted if answer.body else ()

        assert await lock("c1") == queues
        assert await lock("c2") == ()
        assert await lock("c1") == queues
        await lock("c1", RequestCode.UNLOCK_BATCH_MQ)
        assert await lock("c2") == queues


async def test_messages_are_found_by_key_and_topics_are_administered(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        create = CreateTopicHeader(
            topic="made", default_topic="TBW102", read_queue_nums=3, write_queue_nums=3, perm=6,
            topic_filter_type="SINGLE_TAG", order=False,
        )  # fmt: skip
        assert (await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, create)).code == 0
        for n in range(4):
            await send(client, b"%d" % n, topic="made", queue_id=n % 3, properties=f"KEYS\x01order-{n % 2}\x02")
        query = QueryMessageHeader(topic="made", key="order-1", max_num=10, begin_timestamp=0, end_timestamp=1 << 60)
        found = await client.ask(RequestCode.QUERY_MESSAGE, query)
        assert [record.body for record in split_records(found.body)] == [b"1", b"3"]
        stats = await client.ask(RequestCode.GET_TOPIC_STATS_INFO, TopicHeader(topic="made"))
        table = bodies.decode(stats.body, bodies.TopicStats).offset_table
        assert {queue.number: offsets.max_offset for queue, offsets in table.items()} == {0: 2, 1: 1, 2: 1}
        assert (await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader(topic="made"))).code == 0
        assert broker.parts.tables.topics.get("made") is None
        assert (await send(client, b"again", topic="made")).queue_offset == 0


async def test_a_java_client_is_shown_as_one(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        heartbeat = Heartbeat(client_id="c1", consumer_data_set=(ConsumerData(group_name="readers"),))
        frame = encode_request(RequestCode.HEART_BEAT, 7, body=encode_heartbeat(heartbeat), language=Language.JAVA)
        client.connection.send(frame)
        header = ConsumerGroupHeader(consumer_group="readers")
        answer = await client.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
        (member,) = decode_consumer_connections(answer.body).connection_set
        assert member.language == "JAVA"


async def test_a_duty_that_fails_does_not_end_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as (broker, client):
        monkeypatch.setattr(broker.parts.services.maintenance, "tick", lambda: 1 / 0)
        await until(lambda: "periodic work failed" in caplog.text)
        code, _, _ = await pull(client, pull_header(topic="BenchmarkTest", wait_ms=10))
        assert code == ResponseCode.PULL_NOT_FOUND, "nobody but the clock ends a pull that is held"


async def test_pulls_are_told_to_stay_with_the_master_whatever_the_group_says(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        broker.parts.tables.groups.update(GroupConfig(group_name="readers", broker_id=7))
        await send(client, b"order")
        code, _, header = await pull(client, pull_header())
        assert (code, header.suggest_which_broker_id) == (ResponseCode.SUCCESS, 0)


async def test_a_group_that_may_not_broadcast_is_refused_when_its_members_do(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        broker.parts.tables.groups.update(GroupConfig(group_name="readers", consume_broadcast_enable=False))
        await send(client, b"order")
        wanted = (Subscription(topic="orders", sub_version=1),)
        header = msgspec.structs.replace(pull_header(), sys_flag=0, subscription=None)
        for model, code in ((MessageModel.CLUSTERING, 0), (MessageModel.BROADCASTING, 16)):
            data = ConsumerData(group_name="readers", message_model=model, subscription_data_set=wanted)
            beat = encode_heartbeat(Heartbeat(client_id="c1", consumer_data_set=(data,)))
            assert (await client.ask(RequestCode.HEART_BEAT, None, beat)).code == ResponseCode.SUCCESS
            response = await client.ask(RequestCode.PULL_MESSAGE, header)
            assert response.code == code, response.remark
