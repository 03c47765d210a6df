"""RocketMQ 5's gRPC API against a running broker, by grpcio."""

from __future__ import annotations

import asyncio
import gc
import gzip
import time
from pathlib import Path

import pytest

import grpc
from pyromq.broker.base.settings import GrpcSettings
from pyromq.broker.broker import Broker
from pyromq.broker.grpc import telemetry
from pyromq.wire.compression import decompress
from pyromq.wire.grpc.codes import ClientType, MessageKind, StatusCode
from pyromq.wire.grpc.definitions import (
    EndpointAddress,
    Endpoints,
    FilterExpression,
    MessageQueue,
    ProtoTime,
    Resource,
    time_of,
)
from pyromq.wire.grpc.services import (
    AckMessageEntry,
    AckMessageRequest,
    AckMessageResponse,
    ChangeInvisibleDurationRequest,
    ChangeInvisibleDurationResponse,
    EndTransactionRequest,
    ForwardToDeadLetterRequest,
    GetOffsetRequest,
    HeartbeatRequest,
    OffsetResponse,
    PullMessageRequest,
    PullMessageResponse,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    QueryOffsetRequest,
    QueryRouteRequest,
    QueryRouteResponse,
    RecallMessageRequest,
    RecallMessageResponse,
    ReceiveMessageRequest,
    ReceiveMessageResponse,
    StatusResponse,
    SyncLiteSubscriptionRequest,
    TelemetryCommand,
    TerminationRequest,
    UpdateOffsetRequest,
)
from tests.integration.grpc_client import (
    GrpcTester,
    add_group,
    add_topic,
    channel_to,
    consumer_settings,
    grpc_broker,
    message,
    producer_settings,
)
from tests.integration.test_broker import pull, pull_header, running, settings
from tests.integration.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.both_modes]
OK = StatusCode.OK


def test_send_receive_acknowledge(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with grpc_broker(tmp_path) as (_, client):
            sent = await client.send(
                message(b"one", tag="a", keys=["k1", "k2"], user_properties={"colour": "blue"}, trace_context="t")
            )
            assert sent.status is not None and sent.status.code == OK
            assert sent.entries[0].message_id and sent.entries[0].status is not None
            parts = await client.receive()
            assert parts[0].status.code == OK
            assert parts[-1].delivery_timestamp is not None
            [found] = [each.message for each in parts if each.message]
            system = found.system_properties
            assert (found.body, found.topic.name, found.user_properties["colour"]) == (b"one", "orders", "blue")
            assert (system.tag, system.keys, system.trace_context) == ("a", ["k1", "k2"], "t")
            assert (system.message_id, system.delivery_attempt) == (sent.entries[0].message_id, 1)
            assert (system.message_type, system.body_encoding) == (MessageKind.NORMAL, 1)
            assert len(system.body_digest.checksum) == 32
            assert (await client.ack(found)).status.code == OK
            again = await client.receive()
            assert again[0].status.code == StatusCode.MESSAGE_NOT_FOUND

    asyncio.run(scenario())


def test_a_route_has_every_queue_and_the_address_that_the_client_knows(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with grpc_broker(tmp_path) as (broker, client):
            add_topic(broker, "urgent", "MIXED", queues=3)
            seen = Endpoints(scheme=3, addresses=[EndpointAddress(host="mq.example", port=443)])
            found = await client.ask(
                "QueryRoute", QueryRouteRequest(topic=Resource(name="urgent"), endpoints=seen), QueryRouteResponse
            )
            assert [queue.id for queue in found.message_queues] == [0, 1, 2]
            queue = found.message_queues[0]
            assert (queue.permission, queue.broker.id, queue.broker.endpoints) == (4, 0, seen)
            assert queue.accept_message_types == [1, 2, 3, 4]
            own = await client.ask("QueryRoute", QueryRouteRequest(topic=Resource(name="urgent")), QueryRouteResponse)
            assert own.message_queues[0].broker.endpoints.addresses[0].port == broker.grpc_address.port  # type: ignore[union-attr]
            none = await client.ask("QueryRoute", QueryRouteRequest(topic=Resource(name="no")), QueryRouteResponse)
            assert none.status.code == StatusCode.TOPIC_NOT_FOUND
            assert "pyromq topic create no" in none.status.message

    asyncio.run(scenario())


def test_assignments_are_the_whole_topic_or_in_order_each_queue(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with grpc_broker(tmp_path) as (broker, client):
            add_group(broker, "ordered", consume_message_orderly=True)
            found = []
            for group in ("billing", "ordered"):
                request = QueryAssignmentRequest(topic=Resource(name="orders"), group=Resource(name=group))
                response = await client.ask("QueryAssignment", request, QueryAssignmentResponse)
                found.append([each.message_queue.id for each in response.assignments])
            assert found == [[-1], [0, 1]]

    asyncio.run(scenario())


def test_a_receive_waits_for_the_next_message(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with grpc_broker(tmp_path) as (_, client):
            waiting = asyncio.create_task(client.messages())
            await asyncio.sleep(0.1)
            assert not waiting.done()
            await client.send(message(b"late"))
            assert [each.body for each in await waiting] == [b"late"]

    asyncio.run(scenario())


def test_a_receive_that_is_cancelled_takes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with grpc_broker(tmp_path) as (broker, client):
            waiting = asyncio.create_task(client.messages())
            pops = broker.parts.popping.pops
            await until(lambda: len(pops.waiting), "the receive waits")
            waiting.cancel()
            await until(lambda: not len(pops.waiting), "the wait is over")
            await client.send(message(b"for somebody else"))
            [found] = await client.messages()
            assert found.system_properties is not None and found.system_properties.delivery_attempt == 1

    asyncio.run(scenario())


def test_the_invisible_time_is_changed_and_the_new_handle_counts(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with grpc_broker(tmp_path) as (_, client):
            await client.send(message())
            [found] = await client.messages()
            handle = found.system_properties.receipt_handle  # type: ignore[union-attr]
            request = ChangeInvisibleDurationRequest(
                group=Resource(name="billing"),
                topic=Resource(name="orders"),
                receipt_handle=handle,
                invisible_duration=ProtoTime(seconds=0),
            )
            changed = await client.ask("ChangeInvisibleDuration", request, ChangeInvisibleDurationResponse)
            assert changed.status.code == OK and changed.receipt_handle not in ("", handle)
            [again] = await client.messages()
            assert again.system_properties.delivery_attempt == 2  # type: ignore[union-attr]
            late = await client.ack(found)
            assert late.status is not None and late.status.code == StatusCode.INVALID_RECEIPT_HANDLE
            assert (await client.ack(again)).status.code == OK  # type: ignore[union-attr]

    asyncio.run(scenario())


def test_a_message_is_forwarded_to_the_dead_letters(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with grpc_broker(tmp_path) as (_, client):
            await client.send(message(b"poison"))
            [found] = await client.messages()
            handle = found.system_properties.receipt_handle  # type: ignore[union-attr]
            request = ForwardToDeadLetterRequest(
                group=Resource(name="billing"), topic=Resource(name="orders"), receipt_handle=handle
            )
            assert (await client.ask("ForwardMessageToDeadLetterQueue", request, StatusResponse)).status.code == OK
            [letter] = await client.messages(group="undertaker", topic="%DLQ%billing")
            assert letter.body == b"poison"
            assert letter.system_properties.dead_letter_queue.topic == "orders"  # type: ignore[union-attr]
            twice = await client.ask("ForwardMessageToDeadLetterQueue", request, StatusResponse)
            assert twice.status.code == StatusCode.INVALID_RECEIPT_HANDLE

    asyncio.run(scenario())


def test_messages_of_a_group_come_in_order_and_one_that_fails_holds_its_group(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with grpc_broker(tmp_path) as (broker, client):
            add_topic(broker, "fifo", "FIFO", queues=4)
            add_group(broker, "ordered", consume_message_orderly=True)
            for number in range(6):
                name = "a" if number % 2 else "b"
                sent = await client.send(
                    message(b"%d" % number, "fifo", message_type=MessageKind.FIFO, message_group=name)
                )
                assert sent.status is not None and sent.status.code == OK, sent.status
            first = await client.messages(group="ordered", topic="fifo", batch_size=1)
            assert len(first) == 1
            mine = first[0].system_properties.message_group  # type: ignore[union-attr]
            others = await client.messages(group="ordered", topic="fifo")
            assert {each.system_properties.message_group for each in others} == {"a", "b"} - {mine}  # type: ignore[union-attr]
            await client.ack(first[0], group="ordered", topic="fifo")
            rest = await client.messages(group="ordered", topic="fifo")
            found = [each.body for each in (*first, *rest)]
            assert found == sorted(found) and len(found) == 3

    asyncio.run(scenario())


def test_delayed_messages_come_when_they_are_due_and_can_be_recalled(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with grpc_broker(tmp_path) as (broker, client):
            add_topic(broker, "later", "DELAY")
            due_ms = int(time.time() * 1000) + 2_000
            sent = await client.send(
                message(b"due", "later", message_type=MessageKind.DELAY, delivery_timestamp=time_of(due_ms))
            )
            assert sent.entries[0].recall_handle
            far = await client.send(
                message(
                    b"never",
                    "later",
                    message_type=MessageKind.DELAY,
                    delivery_timestamp=time_of(int(time.time() * 1000) + 3_600_000),
                )
            )
            recall = RecallMessageRequest(topic=Resource(name="later"), recall_handle=far.entries[0].recall_handle)
            recalled = await client.ask("RecallMessage", recall, RecallMessageResponse)
            assert (recalled.status.code, recalled.message_id) == (OK, far.entries[0].message_id)
            [found] = await client.messages(topic="later", long_polling_timeout=ProtoTime(seconds=20))
            assert int(time.time() * 1000) >= due_ms
            assert found.system_properties.message_type == MessageKind.DELAY  # type: ignore[union-attr]
            wrong = RecallMessageRequest(topic=Resource(name="later"), recall_handle="nonsense")
            refused = await client.ask("RecallMessage", wrong, RecallMessageResponse)
            assert refused.status.code == StatusCode.BAD_REQUEST

    asyncio.run(scenario())


def test_transactions_are_committed_rolled_back_and_asked_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        quick = {"transaction_timeout_ms": 100, "transaction_check_interval_ms": 200}
        async with grpc_broker(tmp_path, **quick) as (broker, client):
            add_topic(broker, "money", "TRANSACTION")
            stream, answer = await client.settings(producer_settings("money"))
            assert answer.status.code == OK
            ids = {}
            for body in (b"commit", b"rollback", b"orphan"):
                sent = await client.send(message(body, "money", message_type=MessageKind.TRANSACTION))
                ids[body] = sent.entries[0]
            for body, resolution in ((b"commit", 1), (b"rollback", 2)):
                assert (await end(client, ids[body], resolution)).status.code == OK
            while True:
                command = await stream.read()
                asked = command.recover_orphaned_transaction_command
                if asked is not None and asked.message.body == b"orphan":
                    break
            assert asked.message.system_properties.message_id == ids[b"orphan"].message_id
            request = EndTransactionRequest(
                topic=Resource(name="money"),
                message_id=asked.message.system_properties.message_id,
                transaction_id=asked.transaction_id,
                resolution=1,
                source=2,
            )
            assert (await client.ask("EndTransaction", request, StatusResponse)).status.code == OK
            found: set[bytes] = set()
            while len(found) < 2:
                found |= {each.body for each in await client.messages(topic="money")}
            assert found == {b"commit", b"orphan"}
            assert (await end(client, ids[b"rollback"], 1)).status.code == StatusCode.INVALID_TRANSACTION_ID
            stream.cancel()

    asyncio.run(scenario())


async def end(client: GrpcTester, entry, resolution: int):  # type: ignore[no-untyped-def]
    request = EndTransactionRequest(
        topic=Resource(name="money"),
        message_id=entry.message_id,
        transaction_id=entry.transaction_id,
        resolution=resolution,
        source=1,
    )
    return await client.ask("EndTransaction", request, StatusResponse)


def test_priority_messages_come_first(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with grpc_broker(tmp_path) as (broker, client):
            add_topic(broker, "urgent", "PRIORITY", queues=4)
            for priority in (0, 9, 2):
                sent = await client.send(message(b"%d" % priority, "urgent", message_type=6, priority=priority))
                assert sent.status is not None and sent.status.code == OK, sent.status
            found = await client.messages(topic="urgent")
            assert [each.body for each in found] == [b"9", b"2", b"0"]
            assert found[0].system_properties.priority == 9  # type: ignore[union-attr]

    asyncio.run(scenario())


def test_settings_are_completed_and_heartbeats_keep_a_client(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with grpc_broker(tmp_path) as (broker, client):
            early = await client.ask("Heartbeat", HeartbeatRequest(client_type=1), StatusResponse)
            assert early.status.code == StatusCode.UNRECOGNIZED_CLIENT_TYPE
            stream, answer = await client.settings(consumer_settings("billing", "orders"))
            found = answer.settings
            assert (found.subscription.fifo, found.subscription.receive_batch_size) == (False, 32)
            assert (found.backoff_policy.max_attempts, found.subscription.long_polling_timeout.seconds) == (17, 20)
            assert len(found.backoff_policy.customized_backoff.next) == 18
            assert found.metric.on is False
            group = broker.parts.tables.members.consumer_group("billing")
            assert group is not None and len(group.members) == 1
            beat = HeartbeatRequest(client_type=2, group=Resource(name="billing"))
            assert (await client.ask("Heartbeat", beat, StatusResponse)).status.code == OK
            goodbye = TerminationRequest(group=Resource(name="billing"))
            assert (await client.ask("NotifyClientTermination", goodbye, StatusResponse)).status.code == OK
            live = broker.parts.tables.members.consumer_group("billing")
            assert live is None or not live.members
            stream.cancel()
            producer, answered = await client.settings(producer_settings("orders"))
            publishing = answered.settings.publishing
            assert (publishing.max_body_size, publishing.validate_message_type) == (4 << 20, True)
            assert answered.settings.backoff_policy.exponential_backoff.multiplier == 2.0
            await producer.done_writing()
            assert await producer.read() is grpc.aio.EOF, "a stream that is closed on one side is closed on both"

    asyncio.run(scenario())


def test_messages_of_a_push_consumer_are_renewed_and_shown_again_when_it_is_gone(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with grpc_broker(tmp_path) as (broker, client):
            stream, _ = await client.settings(consumer_settings("billing", "orders"))
            await client.send(message(b"long work"))
            [found] = await client.messages(auto_renew=True, invisible_duration=None)
            known = next(iter(broker._grpc.clients))
            assert len(known.renewals) == 1
            handle = found.system_properties.receipt_handle  # type: ignore[union-attr]
            renewal = known.renewals._by_handle[handle]
            renewal.until_ms -= 50_000
            broker._grpc.look_around()
            await until(lambda: renewal.times == 1, "it is renewed")
            assert renewal.handle != handle
            goodbye = TerminationRequest(group=Resource(name="billing"))
            await client.ask("NotifyClientTermination", goodbye, StatusResponse)
            [again] = await client.messages(long_polling_timeout=ProtoTime(seconds=20))
            assert again.body == b"long work"
            stream.cancel()

    asyncio.run(scenario())


def test_an_acknowledgement_with_the_first_handle_counts_after_a_renewal(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with grpc_broker(tmp_path) as (broker, client):
            stream, _ = await client.settings(consumer_settings("billing", "orders"))
            await client.send(message())
            [found] = await client.messages(auto_renew=True, invisible_duration=None)
            known = next(iter(broker._grpc.clients))
            renewal = next(iter(known.renewals._by_handle.values()))
            renewal.until_ms -= 50_000
            broker._grpc.look_around()
            await until(lambda: renewal.times == 1, "it is renewed")
            assert (await client.ack(found)).status.code == OK  # type: ignore[union-attr]
            assert not len(known.renewals)
            stream.cancel()

    asyncio.run(scenario())


def test_positions_are_read_and_written(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with grpc_broker(tmp_path) as (broker, client):
            add_topic(broker, "log", queues=1)
            for number in range(3):
                await client.send(message(b"%d" % number, "log"))
            queue, group = MessageQueue(topic=Resource(name="log"), id=0), Resource(name="readers")
            offsets = []
            for policy in (0, 1):
                asked = QueryOffsetRequest(message_queue=queue, query_offset_policy=policy)
                offsets.append((await client.ask("QueryOffset", asked, OffsetResponse)).offset)
            assert offsets == [0, 3]
            unknown = await client.ask("GetOffset", GetOffsetRequest(group=group, message_queue=queue), OffsetResponse)
            assert unknown.status.code == StatusCode.OFFSET_NOT_FOUND
            update = UpdateOffsetRequest(group=group, message_queue=queue, offset=2)
            assert (await client.ask("UpdateOffset", update, StatusResponse)).status.code == OK
            known = await client.ask("GetOffset", GetOffsetRequest(group=group, message_queue=queue), OffsetResponse)
            assert (known.status.code, known.offset) == (OK, 2)
            request = PullMessageRequest(group=group, message_queue=queue, offset=1, batch_size=10)
            parts = await client.stream("PullMessage", request, PullMessageResponse)
            assert [part.message.body for part in parts if part.message] == [b"1", b"2"]
            assert parts[-1].next_offset == 3
            request.offset = 3
            empty = await client.stream("PullMessage", request, PullMessageResponse)
            assert empty[0].status.code == StatusCode.MESSAGE_NOT_FOUND

    asyncio.run(scenario())


def test_batches_are_stored_together_and_compressed_bodies_are_read_by_everybody(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with grpc_broker(tmp_path) as (broker, client):
            add_topic(broker, "log", queues=1)
            sent = await client.send(*(message(b"%d" % number, "log") for number in range(3)))
            assert [entry.offset for entry in sent.entries] == [0, 1, 2]
            await client.send(message(gzip.compress(b"x" * 1000), "log", body_encoding=2))
            found = await client.messages(topic="log")
            assert [each.body for each in found] == [b"0", b"1", b"2", b"x" * 1000]
            mixed = await client.send(message(topic="log"), message(topic="orders"))
            assert mixed.status is not None and mixed.status.code == StatusCode.MESSAGE_CORRUPTED

    asyncio.run(scenario())


def test_both_protocols_see_the_same_messages(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, grpc=GrpcSettings(port=0)) as (broker, remoting):
            add_topic(broker, "orders", queues=1)
            async with channel_to(broker) as channel:
                client = GrpcTester(channel)
                await client.send(message(gzip.compress(b"by gRPC"), body_encoding=2))
                _, [record], _ = await pull(remoting, pull_header())
                assert decompress(record.body, record.sys_flag) == b"by gRPC"

    asyncio.run(scenario())


def test_namespaces_are_those_of_the_remoting_protocol(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with grpc_broker(tmp_path) as (broker, client):
            add_topic(broker, "shop%orders")
            request = QueryRouteRequest(topic=Resource(name="orders", resource_namespace="shop"))
            found = await client.ask("QueryRoute", request, QueryRouteResponse)
            assert found.message_queues[0].topic == Resource(name="orders", resource_namespace="shop")
            async with channel_to(broker) as channel:
                other = GrpcTester(channel, **{"x-mq-namespace": "shop"})
                await other.send(message(b"inside"))
                assert [each.body for each in await other.messages()] == [b"inside"]
                assert (await client.receive())[0].status.code == StatusCode.MESSAGE_NOT_FOUND

    asyncio.run(scenario())


# --- what goes wrong ---


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ({"body": b""}, StatusCode.MESSAGE_BODY_EMPTY),
        ({"body": b"x" * ((4 << 20) + 1)}, StatusCode.MESSAGE_BODY_TOO_LARGE),
        ({"topic": ""}, StatusCode.ILLEGAL_TOPIC),
        ({"topic": "no spaces"}, StatusCode.ILLEGAL_TOPIC),
        ({"topic": "RMQ_SYS_TRANS_HALF_TOPIC"}, StatusCode.ILLEGAL_TOPIC),
        ({"topic": "nowhere"}, StatusCode.TOPIC_NOT_FOUND),
        ({"tag": "a|b"}, StatusCode.ILLEGAL_MESSAGE_TAG),
        ({"tag": "  "}, StatusCode.ILLEGAL_MESSAGE_TAG),
        ({"keys": ["a\x01"]}, StatusCode.ILLEGAL_MESSAGE_KEY),
        ({"message_id": " "}, StatusCode.ILLEGAL_MESSAGE_ID),
        ({"user_properties": {"UNIQ_KEY": "x"}}, StatusCode.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"user_properties": {"a": "b\x02"}}, StatusCode.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"user_properties": {str(n): "" for n in range(129)}}, StatusCode.MESSAGE_PROPERTIES_TOO_LARGE),
        ({"user_properties": {"a": "x" * 20_000}}, StatusCode.MESSAGE_PROPERTIES_TOO_LARGE),
        ({"message_group": "g"}, StatusCode.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        ({"message_group": "g" * 64}, StatusCode.ILLEGAL_MESSAGE_GROUP),
        ({"delivery_timestamp": ProtoTime(seconds=99_999_999_999)}, StatusCode.ILLEGAL_DELIVERY_TIME),
        ({"priority": -1}, StatusCode.BAD_REQUEST),
        ({"body": b"no gzip", "body_encoding": 2}, StatusCode.MESSAGE_CORRUPTED),
        ({"lite_topic": "chat"}, StatusCode.NOT_IMPLEMENTED),
        (
            {"message_type": 4, "orphaned_transaction_recovery_duration": ProtoTime(seconds=4_000)},
            StatusCode.BAD_REQUEST,
        ),
    ],
)
def test_a_message_that_cannot_be_stored_gets_its_status(tmp_path: Path, sent: dict, code: StatusCode) -> None:  # type: ignore[type-arg]
    async def scenario() -> None:
        async with grpc_broker(tmp_path) as (_, client):
            response = await client.send(message(**sent))
            assert response.status is not None
            assert (response.status.code, bool(response.status.message)) == (code, True), response.status
            assert response.entries[0].status == response.status

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"group": ""}, StatusCode.ILLEGAL_CONSUMER_GROUP),
        ({"group": "CID_RMQ_SYS_x"}, StatusCode.ILLEGAL_CONSUMER_GROUP),
        ({"topic": "nowhere"}, StatusCode.TOPIC_NOT_FOUND),
        ({"batch_size": 0}, StatusCode.BAD_REQUEST),
        ({"invisible_duration": ProtoTime(seconds=1)}, StatusCode.ILLEGAL_INVISIBLE_TIME),
        ({"invisible_duration": ProtoTime(seconds=50_000)}, StatusCode.ILLEGAL_INVISIBLE_TIME),
        ({"filter_expression": FilterExpression(kind=2, expression="a ><")}, StatusCode.ILLEGAL_FILTER_EXPRESSION),
    ],
)
def test_a_receive_that_cannot_be_served_gets_its_status(tmp_path: Path, asked: dict, code: StatusCode) -> None:  # type: ignore[type-arg]
    async def scenario() -> None:
        async with grpc_broker(tmp_path) as (_, client):
            parts = await client.receive(**asked)
            assert parts[0].status.code == code, parts[0].status
            assert parts[1].delivery_timestamp is not None

    asyncio.run(scenario())


def test_a_deadline_that_is_too_near_is_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with grpc_broker(tmp_path) as (broker, _):
            async with channel_to(broker) as channel:
                client = GrpcTester(channel, **{"x-mq-client-version": "5.1.2"})
                request = {"group": Resource(name="g"), "message_queue": MessageQueue(topic=Resource(name="orders"))}
                receive = ReceiveMessageRequest(**request, batch_size=1, auto_renew=True)  # type: ignore[arg-type]
                parts = await client.stream("ReceiveMessage", receive, ReceiveMessageResponse, timeout_s=2)
                assert parts[0].status.code == StatusCode.ILLEGAL_POLLING_TIME

    asyncio.run(scenario())


def test_handles_and_ids_that_mean_nothing_are_never_internal_errors(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with grpc_broker(tmp_path) as (broker, client):
            await client.send(message())
            handles = [
                "",
                "x",
                "1 2 3",
                "a b c d e f g h",
                f"0 1 60000 77 0 {broker.settings.name} 0 0",
                "0 1 60000 7 0 b 0 0",
            ]
            for handle in handles:
                request = AckMessageRequest(
                    group=Resource(name="billing"),
                    topic=Resource(name="orders"),
                    entries=[AckMessageEntry(message_id="m", receipt_handle=handle)],
                )
                answered = await client.ask("AckMessage", request, AckMessageResponse)
                assert answered.status.code == StatusCode.INVALID_RECEIPT_HANDLE, handle
                assert answered.entries[0].receipt_handle == handle
            for text in ("", "x", "1:x:2", "999:999:key"):
                ended = EndTransactionRequest(topic=Resource(name="orders"), transaction_id=text, resolution=1)
                response = await client.ask("EndTransaction", ended, StatusResponse)
                assert response.status.code == StatusCode.INVALID_TRANSACTION_ID, text

    asyncio.run(scenario())


def test_calls_that_say_not_who_they_are_and_what_is_not_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with grpc_broker(tmp_path) as (_, client):
            route = QueryRouteRequest(topic=Resource(name="orders"))
            nobody = await client.ask("QueryRoute", route, QueryRouteResponse, **{"x-mq-client-id": " "})
            assert nobody.status.code == StatusCode.CLIENT_ID_REQUIRED
            lite = SyncLiteSubscriptionRequest(topic=Resource(name="orders"))
            assert (
                await client.ask("SyncLiteSubscription", lite, StatusResponse)
            ).status.code == StatusCode.NOT_IMPLEMENTED
            with pytest.raises(grpc.aio.AioRpcError) as unknown:
                await client.ask("NoSuchThing", route, StatusResponse)
            assert unknown.value.code() is grpc.StatusCode.UNIMPLEMENTED
            with pytest.raises(grpc.aio.AioRpcError) as odd:
                await client.settings(consumer_settings("", "orders"))
            assert odd.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert "ILLEGAL_CONSUMER_GROUP" in (odd.value.details() or "")

    asyncio.run(scenario())


def test_a_pull_consumer_and_a_simple_consumer_may_register(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with grpc_broker(tmp_path) as (_, client):
            for kind in (ClientType.SIMPLE_CONSUMER, ClientType.PULL_CONSUMER):
                stream, answer = await client.settings(consumer_settings("billing", "orders", kind=kind))
                assert answer.settings.client_type == kind
                stream.cancel()

    asyncio.run(scenario())


# --- the port ---


def test_tls_and_plain_text_share_the_port_and_the_certificate_is_made_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Broker(settings(grpc=GrpcSettings(port=0)), tmp_path / "store") as broker:
            add_topic(broker, "orders")
            authority = (tmp_path / "store" / "grpc-tls" / "ca.pem").read_bytes()
            credentials = grpc.ssl_channel_credentials(authority)
            assert broker.grpc_address is not None
            async with grpc.aio.secure_channel(f"localhost:{broker.grpc_address.port}", credentials) as channel:
                sent = await GrpcTester(channel).send(message(b"secret"))
                assert sent.status is not None and sent.status.code == OK
            async with channel_to(broker) as channel:
                assert [each.body for each in await GrpcTester(channel).messages()] == [b"secret"]
        async with Broker(settings(grpc=GrpcSettings(port=0)), tmp_path / "store"):
            assert (tmp_path / "store" / "grpc-tls" / "ca.pem").read_bytes() == authority

    asyncio.run(scenario())


def test_a_broker_whose_port_is_picked_serves_no_grpc_unless_it_is_asked_to(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Broker(settings(), tmp_path / "store") as broker:
            assert broker.grpc_address is None

    asyncio.run(scenario())


def test_clients_whose_start_waits_late_get_their_settings_again(tmp_path: Path) -> None:
    """The Node.js client begins to wait when it has its routes; settings that came before are lost to it."""

    async def scenario() -> None:
        async with grpc_broker(tmp_path) as (broker, _), channel_to(broker) as channel:
            client = GrpcTester(channel, **{"x-mq-language": "HTTP"})
            stream, first = await client.settings(producer_settings("orders"))
            assert await stream.read() == first
            stream.cancel()

    asyncio.run(scenario())


def test_clients_that_left_are_not_kept_by_their_connection(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with grpc_broker(tmp_path) as (broker, client):
            clients = broker._grpc.clients
            for number in range(5):
                name = {"x-mq-client-id": f"short-{number}"}
                await client.ask(
                    "QueryRoute", QueryRouteRequest(topic=Resource(name="orders")), QueryRouteResponse, **name
                )
                await client.ask("NotifyClientTermination", TerminationRequest(), StatusResponse, **name)
            assert [len(found) for found in clients._by_connection.values()] == [0]

    asyncio.run(scenario())


def test_settings_are_bounded_and_repeated_for_one_stream_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with grpc_broker(tmp_path) as (_, client):
            large = producer_settings("orders")
            large.access_point = Endpoints(scheme=3, addresses=[EndpointAddress(host="h" * 200_000, port=1)])
            with pytest.raises(grpc.aio.AioRpcError, match="at most 131072"):
                await client.settings(large)
            repeated: list[object] = []
            loop = asyncio.get_running_loop()
            with pytest.MonkeyPatch.context() as patch:
                later = loop.call_later
                patch.setattr(telemetry, "_AGAIN_S", (50.0, 60.0))
                patch.setattr(loop, "call_later", lambda s, *rest: (s >= 50 and repeated.append(s), later(s, *rest))[1])
                node = GrpcTester(client._channel, **{"x-mq-language": "NODE_JS"})
                stream, _ = await node.settings(producer_settings("orders"))
                for _ in range(3):
                    await stream.write(TelemetryCommand(settings=producer_settings("orders")))
                    await stream.read()
            assert repeated == [50.0, 60.0]
            stream.cancel()

    asyncio.run(scenario())


def test_receives_that_wait_end_with_their_client_or_their_broker_and_leave_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        unhandled: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: unhandled.append(context))
        async with grpc_broker(tmp_path) as (broker, client):
            first, second = (asyncio.ensure_future(client.receive(group=name)) for name in ("one", "two"))
            waiting = broker.parts.popping.pops.waiting
            await until(lambda: len(waiting) == 2)
            first.cancel()
            await until(lambda: len(waiting) == 1)
            await broker.stop()
            await until(lambda: not len(waiting))
            await asyncio.gather(first, second, return_exceptions=True)
        gc.collect()
        await asyncio.sleep(0)
        assert not unhandled

    asyncio.run(scenario())
