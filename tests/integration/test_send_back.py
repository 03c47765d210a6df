"""Send-back, retry topics and dead letters of a broker, spoken to with bare requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.broker import Broker
from pyromq.model.topic import GroupConfig, Perm, TopicConfig
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.headers.consumer import SendBackHeader
from pyromq.wire.message_id import decode_offset_id
from pyromq.wire.properties import decode_properties
from pyromq.wire.received import Received
from pyromq.wire.record import Record
from tests.integration.test_broker import Client, pull, pull_header, running, send, send_header

pytestmark = pytest.mark.integration
SCHEDULE = "SCHEDULE_TOPIC_XXXX"


async def send_back(client: Client, position: int, level: int = 0, **changes: Any) -> Received[Any]:
    header = SendBackHeader(position=position, group="readers", delay_level=level, origin_topic="orders", **changes)
    return await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)


async def sent_position(client: Client, body: bytes = b"order", **changes: Any) -> int:
    return decode_offset_id((await send(client, body, **changes)).msg_id)[1]


async def the_record(client: Client, topic: str, queue_id: int = 0) -> Record:
    code, (record,), _ = await pull(client, pull_header(topic=topic, queue_id=queue_id))
    assert code == ResponseCode.SUCCESS
    return record


def with_group(broker: Broker, **fields: Any) -> None:
    broker.parts.tables.groups.update(GroupConfig(group_name="readers", **fields))


async def test_a_failed_message_waits_at_the_level_of_its_attempt(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        with_group(broker)
        sent = await send(client, b"order", properties="TAGS\x01a\x02KEYS\x01k1\x02UNIQ_KEY\x01U1\x02", flag=7)
        answer = await send_back(client, decode_offset_id(sent.msg_id)[1])
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        waiting = await the_record(client, SCHEDULE, queue_id=2)
        assert (waiting.body, waiting.delivery_attempt, waiting.flag) == (b"order", 1, 7)
        properties = decode_properties(waiting.properties)
        assert (properties["REAL_TOPIC"], properties["REAL_QID"]) == ("%RETRY%readers", "0")
        assert (properties["RETRY_TOPIC"], properties["ORIGIN_MESSAGE_ID"]) == ("orders", sent.msg_id)
        assert (properties["KEYS"], properties["TAGS"], properties["UNIQ_KEY"]) == ("k1", "a", "U1")


async def test_the_second_failure_keeps_the_first_topic_and_id(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        with_group(broker)
        broker.parts.tables.topics.create("%RETRY%readers", queues=1)
        text = "RETRY_TOPIC\x01orders\x02ORIGIN_MESSAGE_ID\x01FIRST\x02DELAY\x01-1\x02"
        retried = await sent_position(client, topic="%RETRY%readers", properties=text, reconsume_times=4)
        assert (await send_back(client, retried)).code == ResponseCode.SUCCESS
        waiting = await the_record(client, SCHEDULE, queue_id=3 + 4 - 1)
        properties = decode_properties(waiting.properties)
        assert (properties["RETRY_TOPIC"], properties["ORIGIN_MESSAGE_ID"]) == ("orders", "FIRST")
        assert (properties["DELAY"], waiting.delivery_attempt) == ("7", 5)


async def test_the_consumer_may_choose_the_level(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        with_group(broker)
        assert (await send_back(client, await sent_position(client), level=9)).code == ResponseCode.SUCCESS
        assert (await the_record(client, SCHEDULE, queue_id=8)).body == b"order"


@pytest.mark.parametrize(
    ("group", "attempts", "asked"),
    [
        ({}, 0, {"level": -1}),
        ({}, 16, {}),
        ({"retry_max_times": 2}, 2, {}),
        ({}, 3, {"max_reconsume_times": 3}),
        ({"retry_max_times": 2}, 0, {"max_reconsume_times": 0}),
    ],
)
async def test_dead_letters(tmp_path: Path, group: dict[str, int], attempts: int, asked: dict[str, int]) -> None:
    async with running(tmp_path) as (broker, client):
        with_group(broker, **group)
        position = await sent_position(client, reconsume_times=attempts)
        assert (await send_back(client, position, **asked)).code == ResponseCode.SUCCESS
        dead = await the_record(client, "%DLQ%readers")
        properties = decode_properties(dead.properties)
        assert (dead.body, dead.delivery_attempt, properties["RETRY_TOPIC"]) == (b"order", attempts + 1, "orders")
        assert properties["DELAY"] == "0", "as RocketMQ has it"
        assert broker.parts.stats.counters.dead["orders", "readers"] > 0
        assert broker.parts.tables.topics.require("%DLQ%readers").perm == Perm.READ_WRITE


async def test_a_group_with_its_own_ladder_waits_for_a_time(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        policy = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [600_000]}}
        with_group(broker, group_retry_policy=policy)
        assert (await send_back(client, await sent_position(client))).code == ResponseCode.SUCCESS
        waiting = await the_record(client, "rmq_sys_wheel_timer")
        properties = decode_properties(waiting.properties)
        assert (properties["REAL_TOPIC"], properties.get("DELAY")) == ("%RETRY%readers", None)
        assert 590_000 < int(properties["TIMER_OUT_MS"]) - waiting.stored_ms <= 600_000  # stored a moment later


async def test_a_group_without_retries_is_answered_and_nothing_is_stored(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        with_group(broker, retry_queue_nums=0)
        position = await sent_position(client)
        end = broker.store.end_position
        assert (await send_back(client, position)).code == ResponseCode.SUCCESS
        assert broker.store.end_position == end


async def test_who_wants_no_answer_gets_none(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        with_group(broker, retry_queue_nums=0)
        position, heard = await sent_position(client), client.connection.frames_in
        header = SendBackHeader(position=position, group="readers", delay_level=0)
        client.connection.request_oneway(RequestCode.CONSUMER_SEND_MSG_BACK, header)
        await sent_position(client)
        assert client.connection.frames_in == heard + 1, "the answer to the send"


async def test_send_backs_that_cannot_be(tmp_path: Path) -> None:
    async with running(tmp_path, auto_create_groups=False) as (broker, client):
        position = await sent_position(client)
        answer = await send_back(client, position)
        assert (answer.code, "create it first" in (answer.remark or "")) == (26, True), "creation is off"
        with_group(broker)
        answer = await send_back(client, position + 5)
        assert (answer.code, "no message at" in (answer.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)
        answer = await send_back(client, 1 << 40)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        retry = TopicConfig(topic_name="%RETRY%readers", read_queue_nums=1, write_queue_nums=1, perm=int(Perm.READ))
        broker.parts.tables.topics.update(retry)
        answer = await send_back(client, position)
        assert (answer.code, "not writable" in (answer.remark or "")) == (ResponseCode.NO_PERMISSION, True)
        broker.settings.permission = int(Perm.READ)
        assert (await send_back(client, position)).code == ResponseCode.NO_PERMISSION
        assert broker.store.reader.range_of(SCHEDULE, 2) is None


async def test_a_send_back_makes_the_group_where_creation_is_on(tmp_path: Path) -> None:
    async with running(tmp_path, auto_create_groups=True) as (broker, client):
        position = await sent_position(client)
        assert (await send_back(client, position)).code == ResponseCode.SUCCESS
        assert broker.parts.tables.groups.require_known("readers").retry_queue_nums == 1
        assert (await the_record(client, SCHEDULE, queue_id=2)).body == b"order"


async def test_statistics_count_the_first_topic_however_often_a_message_failed(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        with_group(broker)
        broker.parts.tables.topics.create("%RETRY%readers", queues=1)
        text = "RETRY_TOPIC\x01orders\x02DELAY\x01-1\x02"
        for attempts in (3, 16):
            position = await sent_position(
                client, topic="%RETRY%readers", properties=text, reconsume_times=attempts, max_reconsume_times=99
            )
            assert (await send_back(client, position)).code == ResponseCode.SUCCESS
        counters = broker.parts.stats.counters
        assert list(counters.send_backs) == [("orders", "readers")] == list(counters.dead)


async def test_a_client_that_sends_to_the_retry_topic_itself(tmp_path: Path) -> None:
    """What a consumer does when send-back fails: the level counts, and too many attempts are dead."""
    async with running(tmp_path) as (broker, client):
        with_group(broker)
        text = "RETRY_TOPIC\x01orders\x02DELAY\x014\x02"
        await send(client, b"again", topic="%RETRY%readers", properties=text, reconsume_times=1)
        assert (await the_record(client, SCHEDULE, queue_id=3)).body == b"again"
        await send(client, b"dead", topic="%RETRY%readers", properties=text, reconsume_times=17)
        dead = await the_record(client, "%DLQ%readers")
        assert (dead.body, decode_properties(dead.properties)["DELAY"]) == (b"dead", "-1")


async def test_delayed_sends_are_answered_with_their_own_queue(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        sent = await send(client, b"later", queue_id=2, properties="DELAY\x015\x02UNIQ_KEY\x01U1\x02")
        assert (sent.queue_id, sent.queue_offset, sent.recall_handle) == (2, 0, None)
        sent = await send(client, b"later", queue_id=2, properties="TIMER_DELAY_SEC\x0160\x02UNIQ_KEY\x01U2\x02")
        assert sent.queue_id == 2 and sent.recall_handle
        answer = await client.ask(
            RequestCode.SEND_MESSAGE_V2, send_header(properties="TIMER_DELAY_SEC\x01soon\x02"), b"never"
        )
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL


def test_the_defaults_are_those_of_rocketmq() -> None:
    config = GroupConfig(group_name="g")
    assert (config.retry_queue_nums, config.retry_max_times) == (1, 16)
    assert BrokerSettings().timer_delay_ms_max == 40 * 86_400_000
