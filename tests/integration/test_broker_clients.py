"""Clients asked by the broker, replies, resets and heartbeats, spoken with bare requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.broker import Broker
from pyromq.model.queue import QueueId
from pyromq.model.topic import GroupConfig
from pyromq.net import Connection
from pyromq.replication.settings import Role
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import encode_response
from pyromq.wire.ext import header_to_ext
from pyromq.wire.flags import PullFlag
from pyromq.wire.headers.admin import (
    CreateTopicHeader,
    GetConsumerStatusHeader,
    GroupForbiddenHeader,
)
from pyromq.wire.headers.callback import PushReplyHeader
from pyromq.wire.headers.consumer import HeartbeatResponseHeader, PullHeader, UpdateConsumerOffsetHeader
from pyromq.wire.headers.producer import SendResponseHeader
from pyromq.wire.headers.shared import (
    ConsumeDirectlyHeader,
    ConsumerGroupHeader,
    ConsumerRunningInfoHeader,
    ResetOffsetHeader,
)
from pyromq.wire.json import bodies
from pyromq.wire.json.heartbeat import (
    ConsumerData,
    Heartbeat,
    ProducerData,
    Subscription,
    decode_consumer_connections,
    encode_heartbeat,
)
from pyromq.wire.message_id import decode_offset_id
from pyromq.wire.properties import decode_properties
from pyromq.wire.received import Received
from pyromq.wire.record import split_records
from tests.integration.test_broker import Client, heartbeat, pull, pull_header, running, send, send_header
from tests.integration.waiting import until

pytestmark = pytest.mark.integration


class Answering(Client):
    """A client that answers what it is asked; ``answers`` says with which code and body."""

    def __init__(self, answers: Callable[[Received[Any]], tuple[int, bytes] | None]) -> None:
        super().__init__()
        self._answers = answers

    def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
        super().on_requests(connection, requests)
        for request in requests:
            answer = None if request.is_oneway else self._answers(request)
            if answer is not None:
                connection.send(encode_response(answer[0], request.correlation_id, body=answer[1]))


async def joined(broker: Broker, client: Client, client_id: str = "c1", *topics: str) -> Client:
    await client.connect(broker)
    answer = await client.ask(RequestCode.HEART_BEAT, body=heartbeat(client_id, *(topics or ("orders",))))
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return client


async def commit(client: Client, offset: int, group: str = "readers", queue_id: int = 0) -> None:
    header = UpdateConsumerOffsetHeader(consumer_group=group, topic="orders", queue_id=queue_id, commit_offset=offset)
    assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)).code == 0


# --- replies ---------------------------------------------------------------------------------------------------------

REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"
REPLY = "CORRELATION_ID\x01id-1\x02REPLY_TO_CLIENT\x01asker\x02MSG_TYPE\x01reply\x02"


@pytest.mark.parametrize("code", [RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2])
async def test_a_reply_is_pushed_to_the_client_that_waits_and_stored(tmp_path: Path, code: RequestCode) -> None:
    async with running(tmp_path) as (broker, responder):
        asker = await joined(broker, Answering(lambda _: (0, b"")), "asker")
        header: Any = send_header(REPLY_TOPIC, properties=REPLY)
        if code is RequestCode.SEND_REPLY_MESSAGE:
            header = {name: str(value) for name, value in _long_names(header).items()}
        answer = await responder.ask(code, header, b"42")
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        (pushed,) = [each for each in asker.asked if each.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT]
        assert isinstance(pushed.header, PushReplyHeader) and pushed.body == b"42"
        properties = decode_properties((pushed.header.properties or "").encode())
        assert properties["CORRELATION_ID"] == "id-1" and int(properties["PUSH_REPLY_TIME"]) > 0
        assert pushed.header.store_host == str(broker.address)
        sent = answer.header_as(SendResponseHeader)
        assert (sent.queue_offset, decode_offset_id(sent.msg_id)[1]) == (0, 0)
        _, (record,), _ = await pull(responder, pull_header(topic=REPLY_TOPIC))
        assert record.body == b"42" and decode_properties(record.properties)["CLUSTER"] == "DefaultCluster"


@pytest.mark.parametrize("is_stopped", [True, False])
async def test_a_reply_on_its_way_is_answered_before_the_broker_ends_and_writes_nothing_behind_that(
    tmp_path: Path, is_stopped: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as (broker, responder):
        asker = await joined(broker, Answering(lambda _: None), "asker")
        header = send_header(REPLY_TOPIC, properties=REPLY)
        answer = asyncio.ensure_future(responder.ask(RequestCode.SEND_REPLY_MESSAGE_V2, header, b"42"))
        push = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
        await until(lambda: push in [each.code for each in asker.asked], "the requester has it, and is silent")
        store = broker.store
        end = store.end_position
        if is_stopped:
            await broker.stop()
        else:
            await broker.change_role(Role.ASYNC_MASTER, 0)
        assert (await answer).remark == ("the reply did not reach its client: the broker stops, or changes its role")
        assert store.end_position == end
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == []


async def test_a_reply_is_pushed_and_not_stored_while_another_broker_is_about_to_be_master(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, responder):
        await joined(broker, Answering(lambda _: (0, b"")), "asker")
        broker.parts.write_path.gate.hold()
        end, header = broker.store.end_position, send_header(REPLY_TOPIC, properties=REPLY)
        answer = await responder.ask(RequestCode.SEND_REPLY_MESSAGE_V2, header, b"42")
        assert (answer.code, answer.header_as(SendResponseHeader).msg_id) == (ResponseCode.SUCCESS, "0")
        assert broker.store.end_position == end


def _long_names(header: Any) -> dict[str, Any]:
    names = {
        "a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums", "e": "queueId",
        "f": "sysFlag", "g": "bornTimestamp", "h": "flag", "i": "properties",
    }  # fmt: skip
    return {names[short]: value for short, value in (header_to_ext(header) or {}).items()}


@pytest.mark.parametrize(
    ("properties", "pushed_code", "remark"),
    [
        ("CORRELATION_ID\x01id-1\x02", 0, "no property REPLY_TO_CLIENT"),
        ("REPLY_TO_CLIENT\x01nobody\x02", 0, "client nobody"),
        (REPLY, 1, "the client refused it: code 1"),
    ],
)
async def test_a_reply_that_reaches_nobody_is_refused_and_stored(
    tmp_path: Path, properties: str, pushed_code: int, remark: str
) -> None:
    async with running(tmp_path) as (broker, responder):
        await joined(broker, Answering(lambda _: (pushed_code, b"")), "asker")
        header = send_header(REPLY_TOPIC, properties=properties)
        answer = await responder.ask(RequestCode.SEND_REPLY_MESSAGE_V2, header, b"42")
        assert answer.code == ResponseCode.SYSTEM_ERROR and remark in (answer.remark or "")
        _, (record,), _ = await pull(responder, pull_header(topic=REPLY_TOPIC))
        assert record.body == b"42"


async def test_replies_are_only_pushed_when_they_are_not_to_be_stored(tmp_path: Path) -> None:
    async with running(tmp_path, store_replies=False) as (broker, responder):
        await joined(broker, Answering(lambda _: (0, b"")), "asker")
        for _ in range(20):  # more than a sender needs to count as the only one
            await send(responder, b"x")
        answer = await responder.ask(
            RequestCode.SEND_REPLY_MESSAGE_V2, send_header(REPLY_TOPIC, properties=REPLY), b"42"
        )
        assert (answer.code, answer.header_as(SendResponseHeader).msg_id) == (0, "0")
        assert broker.store.reader.range_of(REPLY_TOPIC, 0) is None


async def test_a_reply_of_the_only_sender_does_not_wait_for_another_one(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, responder):
        await joined(broker, Answering(lambda _: (0, b"")), "asker")
        for _ in range(20):
            await send(responder, b"x")
        header = send_header(REPLY_TOPIC, properties=REPLY)
        answer = await responder.ask(RequestCode.SEND_REPLY_MESSAGE_V2, header, b"42")
        assert answer.code == ResponseCode.SUCCESS


# --- questions that clients answer -----------------------------------------------------------------------------------


async def test_a_client_consumes_a_stored_message_directly(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, tool):
        sent = await send(tool, b"again", properties="KEYS\x01k\x02")
        client = await joined(broker, Answering(lambda _: (0, b'{"consumeResult":"CR_SUCCESS"}')))
        header = ConsumeDirectlyHeader(consumer_group="readers", client_id="c1", msg_id=sent.msg_id, topic="orders")
        answer = await tool.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
        assert (answer.code, answer.body) == (0, b'{"consumeResult":"CR_SUCCESS"}')
        (asked,) = [each for each in client.asked if each.code == RequestCode.CONSUME_MESSAGE_DIRECTLY]
        (record,) = split_records(asked.body)
        assert (record.body, asked.header.broker_name, asked.header.topic_sys_flag) == (b"again", "broker-a", 0)


@pytest.mark.parametrize(
    ("client_id", "message_id", "remark"),
    [
        ("c1", None, "msgId is missing"),
        ("c1", "00", "characters"),
        ("c1", "7F0000010000000000000000000FFFFF", "is not in this store"),
        ("other", "7F000001000000000000000000000000", "not connected"),
        (None, "7F000001000000000000000000000000", "not connected"),
    ],
)
async def test_direct_consumption_of_nothing_or_by_nobody_is_refused(
    tmp_path: Path, client_id: str | None, message_id: str | None, remark: str
) -> None:
    async with running(tmp_path) as (broker, tool):
        await joined(broker, Client())
        header = ConsumeDirectlyHeader(consumer_group="readers", client_id=client_id, msg_id=message_id)
        answer = await tool.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
        assert answer.code == ResponseCode.SYSTEM_ERROR and remark in (answer.remark or ""), answer.remark


async def test_a_client_that_goes_while_it_is_asked_counts_as_one_that_did_not_answer(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, tool):
        client = await joined(broker, Client())
        header = ConsumerRunningInfoHeader(consumer_group="readers", client_id="c1")
        asking = asyncio.create_task(tool.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, header))
        await until(lambda: any(each.code == RequestCode.GET_CONSUMER_RUNNING_INFO for each in client.asked))
        client.connection.abort("crash")
        assert (await asking).code == ResponseCode.CONSUME_MSG_TIMEOUT


async def test_the_positions_of_all_clients_of_a_group_are_collected(tmp_path: Path) -> None:
    queue = QueueId("orders", "broker-a", 0)
    body = bodies.encode(bodies.ClientOffsets(message_queue_table={queue: 7}))
    async with running(tmp_path) as (broker, tool):
        await joined(broker, Answering(lambda _: (0, body)), "c1")
        await joined(broker, Answering(lambda _: (1, b"")), "c2")
        code = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
        answer = await tool.ask(code, GetConsumerStatusHeader(topic="orders", group="readers"))
        assert bodies.decode(answer.body, bodies.GroupOffsets).consumer_table == {"c1": {queue: 7}}
        one = GetConsumerStatusHeader(topic="orders", group="readers", client_addr="c2")
        assert (await tool.ask(code, one)).code == ResponseCode.CONSUME_MSG_TIMEOUT
        none = GetConsumerStatusHeader(topic="orders", group="nobody")
        assert (await tool.ask(code, none)).code == ResponseCode.SYSTEM_ERROR


# --- resets ----------------------------------------------------------------------------------------------------------


def reset_header(**changes: Any) -> ResetOffsetHeader:
    fields: dict[str, Any] = {"topic": "orders", "group": "readers", "timestamp": 0, "is_force": True}
    return ResetOffsetHeader(**fields | changes)


async def test_a_reset_is_told_to_clients_at_once_when_the_request_asks_for_it(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, tool):
        for n in range(3):
            await send(tool, b"%d" % n)
        client = await joined(broker, Client())
        await commit(tool, 3)
        answer = await tool.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset_header(queue_id=0))
        assert answer.code == 0
        answer = await tool.ask(
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset_header(queue_id=0, push_to_clients=True)
        )
        offsets = bodies.decode(answer.body, bodies.ResetOffsets).offset_table
        assert offsets == {QueueId("orders", "broker-a", 0): 0}
        await until(lambda: any(each.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET for each in client.asked))
        told = [each for each in client.asked if each.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET]
        assert [bodies.decode(each.body, bodies.ResetOffsets).offset_table for each in told] == [offsets]
        code, _, header = await pull(tool, pull_header(3))
        assert (code, header.next_begin_offset) == (ResponseCode.PULL_OFFSET_MOVED, 0)


async def test_without_server_side_resets_the_clients_do_it_and_must_be_there(tmp_path: Path) -> None:
    async with running(tmp_path, server_side_reset=False) as (broker, tool):
        await send(tool, b"0")
        unknown = await tool.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset_header())
        assert unknown.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        broker.parts.tables.groups.require("readers")
        refused = await tool.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset_header())
        assert refused.code == ResponseCode.CONSUMER_NOT_ONLINE
        client = await joined(broker, Client())
        assert (await tool.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset_header())).code == 0
        await until(lambda: any(each.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET for each in client.asked))
        assert broker.parts.tables.progress.committed("readers", "orders", 0) is None


# --- members ---------------------------------------------------------------------------------------------------------


async def test_a_heartbeat_may_leave_out_subscriptions_that_the_broker_knows(tmp_path: Path) -> None:
    subscription = Subscription(topic="orders", sub_version=1)

    def body(fingerprint: int, *, full: bool) -> bytes:
        data = ConsumerData(group_name="readers", subscription_data_set=(subscription,) if full else ())
        return encode_heartbeat(
            Heartbeat(
                client_id="c1", consumer_data_set=(data,), heartbeat_fingerprint=fingerprint, without_sub=not full
            )
        )

    async with running(tmp_path) as (broker, client):

        async def beat(fingerprint: int, *, full: bool) -> bool | None:
            answer = await client.ask(RequestCode.HEART_BEAT, body=body(fingerprint, full=full))
            header = answer.header_as(HeartbeatResponseHeader)
            assert header.is_support_heart_beat_v2 is True
            return header.is_sub_change

        assert await beat(7, full=False) is True, "it never said what it subscribes to"
        assert await beat(7, full=True) is False
        assert await beat(7, full=False) is False
        assert broker.parts.tables.members.subscription("readers", "orders") == subscription
        assert await beat(8, full=False) is True, "what it subscribes to has changed"


async def test_a_disagreement_in_a_group_shows_in_its_description(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, tool):
        asked = ConsumerGroupHeader(consumer_group="readers")
        await joined(broker, Client(), "c1", "orders")
        answer = await tool.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, asked)
        assert b"disagreeing" not in answer.body
        await joined(broker, Client(), "c2", "payments")
        answer = await tool.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, asked)
        assert decode_consumer_connections(answer.body).disagreeing_client_ids == ("c2",)


async def test_a_group_may_keep_out_who_subscribes_to_something_else(tmp_path: Path) -> None:
    refusing = GroupConfig(group_name="readers", attributes={"subscription.policy": "refuse"})

    def beat(client_id: str, *topics: str) -> bytes:
        data = ConsumerData(
            group_name="readers",
            subscription_data_set=tuple(Subscription(topic=name, sub_string="TagA") for name in topics),
        )
        return encode_heartbeat(Heartbeat(client_id=client_id, consumer_data_set=(data,)))

    async with running(tmp_path) as (broker, first):
        second = Client()
        await second.connect(broker)
        broker.parts.tables.groups.update(refusing)
        assert (await first.ask(RequestCode.HEART_BEAT, body=beat("c1", "orders"))).code == ResponseCode.SUCCESS
        refused = await second.ask(RequestCode.HEART_BEAT, body=beat("c2", "orders", "payments"))
        assert refused.code == ResponseCode.INVALID_PARAMETER
        assert refused.remark == (
            "the client cannot join group readers: it subscribes to payments (TagA), the others to nothing "
            "else; give all members the same subscription, or this one a group of its own"
        )
        live = broker.parts.tables.members.consumer_group("readers")
        assert live is not None and live.client_ids == ["c1"]
        assert (await second.ask(RequestCode.HEART_BEAT, body=beat("c2", "orders"))).code == ResponseCode.SUCCESS
        assert live.client_ids == ["c1", "c2"]
        changed = await second.ask(RequestCode.HEART_BEAT, body=beat("c2", "payments"))
        assert changed.code == ResponseCode.INVALID_PARAMETER
        assert live.client_ids == ["c1"], "who changes its mind is not a member any more"
        alone = await first.ask(RequestCode.HEART_BEAT, body=beat("c1", "payments"))
        assert alone.code == ResponseCode.SUCCESS, "the only member may change its mind"


async def test_groups_that_must_not_be_created_have_no_members(tmp_path: Path) -> None:
    async with running(tmp_path, auto_create_groups=False) as (broker, client):
        data = (ConsumerData(group_name="readers"), ConsumerData(group_name="TOOLS_CONSUMER"))
        producers = (ProducerData(group_name="senders"),)
        body = encode_heartbeat(Heartbeat(client_id="c1", consumer_data_set=data, producer_data_set=producers))
        assert (await client.ask(RequestCode.HEART_BEAT, body=body)).code == 0
        assert [group.name for group in broker.parts.tables.members.consumer_groups()] == ["TOOLS_CONSUMER"]
        assert broker.parts.tables.topics.get("%RETRY%readers") is None


async def test_a_forbidden_pull_is_told_who_forbade_it(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        create = CreateTopicHeader(
            topic="orders", default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=2,
            topic_filter_type="SINGLE_TAG", order=False,
        )  # fmt: skip
        await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, create)
        assert await forbidden_by(client, pull_header()) == "3"
        await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, _with(create, perm=6))
        await client.ask(RequestCode.HEART_BEAT, body=heartbeat("c1", "orders"))
        forbid = GroupForbiddenHeader(group="readers", topic="orders", readable=False)
        await client.ask(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, forbid)
        known = _with(pull_header(), sys_flag=int(PullFlag.SUSPEND), sub_version=1)
        assert await forbidden_by(client, known) == "5"
        await client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerPermission=2")
        assert await forbidden_by(client, known) == "1"
        assert broker.settings.permission == 2


async def forbidden_by(client: Client, header: PullHeader) -> str | None:
    answer = await client.ask(RequestCode.PULL_MESSAGE, header)
    assert answer.code == ResponseCode.NO_PERMISSION
    return answer.ext().get("forbiddenType")


def _with(header: Any, **changes: Any) -> Any:
    return type(header)(**{name: getattr(header, name) for name in header.__struct_fields__} | changes)
