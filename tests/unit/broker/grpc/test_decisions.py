"""What the gRPC front door decides without a network: statuses, queues, times, names, kinds of messages."""

from __future__ import annotations

import gzip
import zlib
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.grpc.messages import (
    RESPONSE_BYTES_MAX,
    SENT_INFLATED_BYTES_MAX,
    Delivery,
    Room,
    accepted_kinds,
    all_outgoing,
    delivered,
    gzip_as_zlib,
    kind_of,
    outgoing,
)
from pyromq.broker.grpc.names import group_name, topic_name
from pyromq.broker.grpc.polling import polling_ms, version_of
from pyromq.broker.grpc.renewals import BEFORE_MS, FIRST_MS, KEPT_MAX, LONGEST_MS, STEPS_MS, Renewals
from pyromq.broker.grpc.routing import endpoints_of, permissions
from pyromq.broker.grpc.sending import TransactionId, jump_hash
from pyromq.broker.grpc.statuses import STATUS_BY_RESPONSE, StatusError, status_of_error, status_of_response
from pyromq.broker.grpc.telemetry import retry_policy
from pyromq.broker.popping.receipts import InvalidReceiptError
from pyromq.errors import InvalidNameError, MQError
from pyromq.model.topic import GroupConfig, TopicConfig
from pyromq.net.address import Address
from pyromq.security.errors import AccessDeniedError
from pyromq.wire.codes import ResponseCode
from pyromq.wire.grpc.codes import MessageKind, QueuePermission, StatusCode
from pyromq.wire.grpc.definitions import GrpcMessage, ProtoTime, Resource, SystemProperties, time_of
from pyromq.wire.properties import encode_properties
from pyromq.wire.received import Received
from pyromq.wire.record import Record

# --- statuses, row by row ---

ROWS = {
    ResponseCode.SUCCESS: 20000,
    ResponseCode.FLUSH_DISK_TIMEOUT: 50401,
    ResponseCode.SLAVE_NOT_AVAILABLE: 50002,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: 50402,
    ResponseCode.SYSTEM_BUSY: 42900,
    ResponseCode.FLOW_CONTROL: 42900,
    ResponseCode.POLLING_FULL: 42900,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: 50100,
    ResponseCode.MESSAGE_ILLEGAL: 40016,
    ResponseCode.NO_PERMISSION: 40300,
    ResponseCode.TOPIC_NOT_EXIST: 40402,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: 40403,
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: 40010,
    ResponseCode.INVALID_PARAMETER: 40000,
    ResponseCode.ILLEGAL_OPERATION: 40000,
    ResponseCode.NO_MESSAGE: 40013,
    ResponseCode.POLLING_TIMEOUT: 40401,
    ResponseCode.PULL_NOT_FOUND: 40401,
    ResponseCode.PULL_RETRY_IMMEDIATELY: 40401,
    ResponseCode.PULL_OFFSET_MOVED: 40019,
    ResponseCode.QUERY_NOT_FOUND: 40404,
    ResponseCode.SYSTEM_ERROR: 50001,
}


@pytest.mark.parametrize("code", list(ROWS), ids=lambda code: code.name)
def test_a_response_of_the_broker_becomes_this_status(code: ResponseCode) -> None:
    response = Received(code=code, header=None, remark="why")
    assert status_of_response(response).code == ROWS[code]
    assert status_of_response(response).message == "why"


def test_every_row_of_the_table_is_looked_at() -> None:
    assert set(STATUS_BY_RESPONSE) == set(ROWS) - {ResponseCode.SYSTEM_ERROR}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StatusError(StatusCode.FORBIDDEN, "no"), StatusCode.FORBIDDEN),
        (InvalidNameError(kind="topic", name="", reason="it is blank"), StatusCode.ILLEGAL_TOPIC),
        (InvalidNameError(kind="group", name="", reason="it is blank"), StatusCode.ILLEGAL_CONSUMER_GROUP),
        (AccessDeniedError("who are you?"), StatusCode.UNAUTHORIZED),
        (InvalidReceiptError("it is old"), StatusCode.INVALID_RECEIPT_HANDLE),
        (RefusedError(ResponseCode.SYSTEM_BUSY, "later"), StatusCode.TOO_MANY_REQUESTS),
        (MQError("anything else"), StatusCode.INTERNAL_SERVER_ERROR),
    ],
)
def test_an_error_becomes_this_status(error: MQError, code: StatusCode) -> None:
    assert status_of_error(error).code == code
    assert status_of_error(error).message


def test_a_right_that_a_user_does_not_have_is_told_apart_from_a_topic_that_is_closed() -> None:
    texts = {"User:alice has no permission to access Topic:orders from 1.2.3.4, no matched policies.": 40100}
    texts["topic orders is not readable"] = 40300
    for text, code in texts.items():
        assert status_of_response(Received(code=ResponseCode.NO_PERMISSION, header=None, remark=text)).code == code


def test_a_status_always_has_a_text() -> None:
    assert status_of_response(Received(code=ResponseCode.NO_MESSAGE, header=None)).message == "INVALID_RECEIPT_HANDLE"


# --- queues ---


def test_message_groups_keep_their_queue_when_queues_are_added() -> None:
    """Values of the algorithm's authors; keys move to new buckets only."""
    assert [jump_hash(10863919174838991, 11), jump_hash(2016238256797177309, 11)] == [6, 3]
    assert [jump_hash(1673758223894951030, 11), jump_hash(2, 100001), jump_hash(2201, 100001)] == [5, 80343, 22152]
    assert jump_hash(-5, 1) == 0
    for key in range(500):
        before, after = jump_hash(key, 8), jump_hash(key, 9)
        assert after in (before, 8)


@pytest.mark.parametrize(
    ("reads", "writes", "perm", "expected"),
    [
        (2, 2, 6, [QueuePermission.READ_WRITE] * 2),
        (3, 1, 6, [QueuePermission.READ] * 2 + [QueuePermission.READ_WRITE]),
        (1, 2, 6, [QueuePermission.WRITE, QueuePermission.READ_WRITE]),
        (2, 2, 4, [QueuePermission.READ] * 2),
        (2, 2, 2, [QueuePermission.WRITE] * 2),
        (2, 2, 0, [QueuePermission.NONE]),
    ],
)
def test_permissions_of_queues(reads: int, writes: int, perm: int, expected: list[QueuePermission]) -> None:
    assert (
        permissions(TopicConfig(topic_name="t", read_queue_nums=reads, write_queue_nums=writes, perm=perm)) == expected
    )


@pytest.mark.parametrize(("host", "scheme"), [("10.0.0.1", 1), ("::1", 2), ("mq.example", 3)])
def test_endpoints_say_what_kind_of_address_they_have(host: str, scheme: int) -> None:
    found = endpoints_of(Address(host, 8081))
    assert (found.scheme, found.addresses[0].host, found.addresses[0].port) == (scheme, host, 8081)


# --- names ---


def test_a_namespace_stands_in_front_of_names_and_behind_prefixes() -> None:
    assert topic_name(Resource(name="orders", resource_namespace="shop")) == "shop%orders"
    assert topic_name(Resource(name="orders"), "shop") == "shop%orders"
    assert topic_name(Resource(name="%DLQ%billing"), "shop") == "%DLQ%shop%billing"
    assert group_name(Resource(name="billing"), "shop") == "shop%billing"


@pytest.mark.parametrize("name", ["", " ", "a b", "TBW102", "SCHEDULE_TOPIC_XXXX", "rmq_sys_x", "%RETRY%g", "x" * 128])
def test_topics_that_clients_do_not_use(name: str) -> None:
    with pytest.raises((StatusError, InvalidNameError)) as refused:
        topic_name(Resource(name=name))
    assert status_of_error(cast(MQError, refused.value)).code == StatusCode.ILLEGAL_TOPIC


# --- times ---


def _call(left_ms: float | None) -> Any:
    return SimpleNamespace(deadline_ms=None if left_ms is None else 1_000 + left_ms)


def _client(version: str = "5.1.2", timeout: ProtoTime | None = None) -> Any:
    return SimpleNamespace(version=version, settings=SimpleNamespace(request_timeout=timeout))


@pytest.mark.parametrize(
    ("wanted_s", "left_ms", "expected"),
    [
        (15, 18_000, 15_000),
        (30, 33_000, 20_000),
        (1, 18_000, 5_000),
        (20, 6_000, 5_500),
        (None, 18_000, 16_500),
        (None, None, 20_000),
        (10, None, 10_000),
    ],
)
def test_a_receive_waits_within_bounds_and_before_its_deadline(
    wanted_s: int | None, left_ms: float | None, expected: int
) -> None:
    wanted = None if wanted_s is None else ProtoTime(seconds=wanted_s)
    assert polling_ms(wanted, _call(left_ms), _client(), 1_000) == expected


@pytest.mark.parametrize(
    ("version", "code"), [("5.1.2", 40018), ("5.0.2", 40000), ("", 40000), ("5.0.3-SNAPSHOT", 40018)]
)
def test_a_deadline_that_is_near_has_a_code_that_the_client_knows(version: str, code: int) -> None:
    with pytest.raises(StatusError) as refused:
        polling_ms(None, _call(3_000), _client(version), 1_000)
    assert refused.value.code == code
    assert version_of(_client("abc")) == (0,)


def test_renewals_grow_and_end() -> None:
    renewals = Renewals()
    renewals.keep("g", "t", "first", 0)
    assert renewals.due(FIRST_MS - BEFORE_MS - 1) == []
    [(handle, renewal)] = renewals.due(FIRST_MS - BEFORE_MS)
    assert (handle, renewal.next_ms) == ("first", STEPS_MS[0])
    renewal.handle, renewal.times, renewal.until_ms = "second", 9, LONGEST_MS * 2
    assert (renewals.current("first"), renewals.current("other")) == ("second", "other")
    assert renewal.next_ms == STEPS_MS[-1]
    renewals.due(LONGEST_MS + 1)
    assert not len(renewals), "somebody else's turn"
    for number in range(KEPT_MAX + 5):
        renewals.keep("g", "t", str(number), 0)
    assert len(renewals) == KEPT_MAX
    renewals.drop("7")
    assert len(renewals.take_all()) == KEPT_MAX - 1


def test_the_retry_policy_of_a_group_as_clients_read_it() -> None:
    usual = retry_policy(GroupConfig(group_name="g"))
    assert usual.max_attempts == 17 and usual.customized_backoff is not None
    assert [each.ms for each in usual.customized_backoff.next][:3] == [1_000, 5_000, 10_000]
    growing = {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 100, "max": 1_000, "multiplier": 3}}
    found = retry_policy(GroupConfig(group_name="g", retry_max_times=2, group_retry_policy=growing))
    assert found.max_attempts == 3 and found.exponential_backoff is not None
    assert (found.exponential_backoff.initial, found.exponential_backoff.multiplier) == (time_of(100), 3.0)
    steps = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [7]}}
    own = retry_policy(GroupConfig(group_name="g", group_retry_policy=steps))
    assert own.customized_backoff is not None and own.customized_backoff.next == [time_of(7)]


# --- messages ---


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (None, [1]),
        ("FIFO", [2]),
        ("delay", [3]),
        ("TRANSACTION", [4]),
        ("PRIORITY", [6]),
        ("MIXED", [1, 2, 3, 4]),
        ("what", [0]),
    ],
)
def test_a_topic_takes_the_kinds_that_its_attribute_says(text: str | None, kinds: list[int]) -> None:
    assert list(accepted_kinds({} if text is None else {"message.type": text})) == kinds


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({}, MessageKind.NORMAL),
        ({"__SHARDINGKEY": "g"}, MessageKind.FIFO),
        ({"TIMER_DELIVER_MS": "5"}, MessageKind.DELAY),
        ({"DELAY": "3"}, MessageKind.DELAY),
        ({"DELAY": "0"}, MessageKind.NORMAL),
        ({"TRAN_MSG": "true", "DELAY": "3"}, MessageKind.TRANSACTION),
        ({"_SYS_MSG_PRIORITY_": "1"}, MessageKind.PRIORITY),
    ],
)
def test_the_kind_of_a_stored_message(properties: dict[str, str], kind: MessageKind) -> None:
    assert kind_of(properties) is kind


def test_a_gzip_body_keeps_its_deflated_bytes() -> None:
    plain = b"some text " * 100
    packed = gzip.compress(plain, mtime=0)
    found, size = gzip_as_zlib(packed)
    assert zlib.decompress(found) == plain and size == len(plain)
    assert packed[10:-8] in found, "nothing is compressed again"
    with pytest.raises(StatusError):
        gzip_as_zlib(b"no gzip at all")


def test_a_transaction_id_says_where_the_message_lies() -> None:
    found = TransactionId(12, 3456, "01AB")
    assert TransactionId.parse(found.text()) == found
    for text in ("", "1", "1:2", "a:2:k", "-1:2:k", "1:99999999999999999999:k"):
        if text == "1:2":
            assert TransactionId.parse(text).key == ""
            continue
        with pytest.raises(StatusError) as refused:
            TransactionId.parse(text)
        assert refused.value.code is StatusCode.INVALID_TRANSACTION_ID


def test_a_prepared_message_names_its_topic_as_its_group() -> None:
    system = SystemProperties(
        message_id="m",
        message_type=MessageKind.TRANSACTION,
        orphaned_transaction_recovery_duration=ProtoTime(seconds=9),
    )
    found = outgoing(GrpcMessage(body=b"x", system_properties=system), "money", 0)
    for item in ("TRAN_MSG\x01true\x02", "PGROUP\x01money\x02", "CHECK_IMMUNITY_TIME_IN_SECONDS\x019\x02"):
        assert item in found.properties


def test_bodies_of_one_request_are_decompressed_up_to_a_bound_together() -> None:
    body = gzip.compress(bytes(SENT_INFLATED_BYTES_MAX // 2))
    system = SystemProperties(message_id="01", message_type=1, body_encoding=2)
    bomb = GrpcMessage(body=body, system_properties=system)
    assert len(all_outgoing([bomb, bomb], "orders", 0)) == 2
    with pytest.raises(StatusError, match="decompressed") as refused:
        all_outgoing([bomb, bomb, bomb], "orders", 0)
    assert refused.value.code is StatusCode.MESSAGE_BODY_TOO_LARGE


def test_a_trace_context_begins_no_other_property() -> None:
    system = SystemProperties(message_id="01", message_type=1, trace_context="t\x02DELAY\x013")
    with pytest.raises(StatusError, match="trace context"):
        outgoing(GrpcMessage(body=b"x", system_properties=system), "orders", 0)


def test_numbers_that_no_field_can_hold_do_not_keep_a_message_from_its_consumers() -> None:
    host = b"\x7f\0\0\1\0\0\0\0"
    text = encode_properties({"_SYS_MSG_PRIORITY_": "9" * 5_000, "TIMER_DELIVER_MS": "8" * 5_000})
    record = Record(
        **dict.fromkeys(("position", "size", "magic", "body_crc", "queue_id", "flag", "offset", "sys_flag"), 0),
        **dict.fromkeys(("born_ms", "stored_ms", "delivery_attempt", "prepared_position"), 0),
        **{"born_host": host, "store_host": host, "topic": b"orders", "properties": text, "body": b"x"},
    )
    system = delivered(record, Delivery(Resource(name="orders"))).system_properties
    assert system is not None and (system.priority, system.delivery_timestamp) == (None, None)


def test_a_response_has_so_many_bytes_but_always_one_message_where_nothing_waits() -> None:
    def room(unsent: int) -> Room:
        connection = SimpleNamespace(room_bytes=32 << 20, unsent_bytes=unsent)
        return Room(cast(Any, SimpleNamespace(connection=connection)))

    half, large = GrpcMessage(body=bytes(RESPONSE_BYTES_MAX // 2)), GrpcMessage(body=bytes(RESPONSE_BYTES_MAX + 1))
    usual = room(0)
    assert [usual.has(half) for _ in range(3)] == [True, True, False]
    assert [room(0).has(large), room(100).has(large), room(1 << 20).has(large)] == [True, True, False]
