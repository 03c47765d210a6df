"""Where a message goes, what is tried again, and how it looks on the wire: pure decisions, no sockets."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.client.core.broker_health import TABLE_4, TABLE_5, BrokerHealth
from pyromq.client.core.errors import (
    NoWritableQueueError,
    SendFailedError,
    SystemBusyError,
    TopicNotFoundError,
    error_of,
)
from pyromq.client.core.settings import Compression, ProducerSettings
from pyromq.client.producer.attempts import Attempts, SendStep
from pyromq.client.producer.outgoing import (
    SEND,
    SEND_BATCH,
    OutgoingMessage,
    check_batch,
    header_fields,
    pack_body,
    properties_text,
    split_batch,
    system_text,
)
from pyromq.client.producer.selectors import at_random, by_sharding_key, hashed_index
from pyromq.client.producer.topic_queues import TopicQueues, borrowed_queues, queues_to_write
from pyromq.errors import (
    BrokerError,
    ConnectFailedError,
    ConnectionLostError,
    MessageRefusedError,
    MessageTooLargeError,
    MQError,
    PropertiesTooLargeError,
    RequestTimeoutError,
)
from pyromq.model.message import Message
from pyromq.model.queue import QueueId
from pyromq.model.route import BrokerData, QueueData, TopicRoute
from pyromq.net import TooManyRequestsError
from pyromq.testing import ManualClock
from pyromq.wire.batch import ITEM_OVERHEAD_BYTES, decode_batch
from pyromq.wire.compression import decompress
from pyromq.wire.ext import header_to_ext
from pyromq.wire.headers.producer import SendV2Header
from pyromq.wire.properties import decode_properties
from pyromq.wire.received import Received

QUEUES = [QueueId("t", broker, number) for broker in ("a", "b", "c") for number in range(2)]
LOST = ConnectionLostError("gone", peer="a")
NOT_CONNECTED = ConnectFailedError("refused", peer="a")


def topic_queues(cursor: int = 0, queues: list[QueueId] = QUEUES) -> TopicQueues:
    return TopicQueues("t", queues, {}, cursor=cursor)


# --- queues ---


def test_queues_take_turns() -> None:
    chosen = topic_queues()
    assert Counter(chosen.next() for _ in range(12)) == dict.fromkeys(QUEUES, 2)


@given(cursor=st.integers(0, 100), last=st.sampled_from(["a", "b", "c"]))
def test_another_attempt_goes_to_another_broker(cursor: int, last: str) -> None:
    assert topic_queues(cursor).next_elsewhere(last).broker != last


def test_the_only_broker_is_asked_again() -> None:
    assert topic_queues(queues=QUEUES[:2]).next_elsewhere("a").broker == "a"


@pytest.mark.parametrize(("key", "count", "index"), [("a", 4, 1), ("TagA", 4, 3), ("polygenelubricants", 7, 2)])
def test_a_sharding_key_chooses_as_java_does(key: str, count: int, index: int) -> None:
    assert hashed_index(key, count) == index  # the last one hashes to Integer.MIN_VALUE


def test_the_same_sharding_key_always_has_the_same_queue() -> None:
    messages = [Message("t", b"x", sharding_key=f"k{n}") for n in range(200)]
    assert [by_sharding_key(m, QUEUES) for m in messages] == [by_sharding_key(m, QUEUES) for m in messages]
    assert {by_sharding_key(m, QUEUES) for m in messages} == set(QUEUES)
    with pytest.raises(MessageRefusedError):
        by_sharding_key(Message("t", b"x"), QUEUES)


def test_chance_reaches_every_queue() -> None:
    choose = at_random(Random(1))
    assert {choose(Message("t", b"x"), QUEUES) for _ in range(200)} == set(QUEUES)


# --- routes ---


def route(perm: int = 6, reads: int = 8, writes: int = 8, **addresses: str) -> TopicRoute:
    brokers = [BrokerData(cluster="C", broker_name=name, broker_addrs={0: at}) for name, at in addresses.items()]
    queues = [
        QueueData(broker_name=name, read_queue_nums=reads, write_queue_nums=writes, perm=perm) for name in addresses
    ]
    return TopicRoute(broker_datas=tuple(brokers), queue_datas=tuple(queues))


def test_a_new_topic_borrows_as_many_queues_as_it_will_have() -> None:
    queues = borrowed_queues("new", route(perm=7, a="1:1", b="2:2"), 4)
    assert queues == [QueueId("new", broker, number) for broker in ("a", "b") for number in range(4)]
    assert len(borrowed_queues("new", route(perm=7, reads=2, a="1:1"), 4)) == 2


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (route(perm=4, a="1:1"), r"broker a does not allow writing \(perm 4\)"),
        (route(writes=0, a="1:1"), "broker a has no write queues of it"),
        (TopicRoute(), "no broker lists queues"),
        (
            TopicRoute(
                broker_datas=(BrokerData(cluster="C", broker_name="a", broker_addrs={1: "1:1"}),),
                queue_datas=(QueueData(broker_name="a", read_queue_nums=4, write_queue_nums=4, perm=6),),
            ),
            "broker a has no master",
        ),
    ],
)
def test_a_topic_that_cannot_be_written_says_why(found: TopicRoute, text: str) -> None:
    with pytest.raises(NoWritableQueueError, match=text):
        queues_to_write("t", found)
    with pytest.raises(NoWritableQueueError, match=text):
        borrowed_queues("t", found, 4)


# --- slow brokers ---


@pytest.mark.parametrize(
    ("latency_ms", "five_ms", "four_ms"),
    [
        (0, 0, 0),
        (99, 0, 0),
        (550, 2_000, 30_000),
        (1_800, 5_000, 60_000),
        (3_000, 6_000, 180_000),
        (99_999, 30_000, 600_000),
    ],
)
def test_a_slow_broker_is_avoided_as_long_as_the_tables_say(latency_ms: int, five_ms: int, four_ms: int) -> None:
    assert (TABLE_5.avoid_for_ms(latency_ms), TABLE_4.avoid_for_ms(latency_ms)) == (five_ms, four_ms)


def test_a_slow_broker_is_back_after_its_time() -> None:
    clock = ManualClock()
    health = BrokerHealth(clock)
    health.answered("a", 600)
    assert not health.is_available("a") and health.is_reachable("a")
    chosen = topic_queues()
    assert "a" not in {chosen.next_healthy("b", health).broker for _ in range(10)}
    clock.advance_ms(2_000)
    assert health.is_available("a")


def test_when_all_are_slow_one_that_can_be_reached_is_taken_and_else_any() -> None:
    health = BrokerHealth(ManualClock())
    health.failed("a", was_reached=False)
    health.failed("b", was_reached=True)
    health.failed("c", was_reached=False)
    chosen = topic_queues()
    assert {chosen.next_healthy("", health).broker for _ in range(10)} == {"b"}
    assert {chosen.next_healthy("b", health).broker for _ in range(10)} <= {"a", "b", "c"}
    health.answered("a", 1)
    assert {chosen.next_healthy("", health).broker for _ in range(10)} == {"a"}


# --- attempts ---


def attempts(**fields: Any) -> Attempts:
    return Attempts(**{"deadline_ms": 1_000, "retries": 2, **fields})


@pytest.mark.parametrize("code", [1, 2, 14, 16, 17, 204, 205, 1500])
def test_two_more_attempts_follow_what_may_pass(code: int) -> None:
    tries, error = attempts(), BrokerError(code=code, remark="")
    assert [tries.after("a", error, 0, {"a"}) for _ in range(3)] == [SendStep.AGAIN, SendStep.AGAIN, SendStep.GIVE_UP]


@pytest.mark.parametrize("code", [13, 29, 26, 3, 604])
def test_what_will_not_pass_is_given_up_at_once(code: int) -> None:
    assert attempts().after("a", BrokerError(code=code, remark=""), 0, {"a"}) is SendStep.GIVE_UP


@pytest.mark.parametrize("error", [LOST, RequestTimeoutError("late")])
def test_a_lost_answer_is_an_attempt(error: MQError) -> None:
    tries = attempts()
    assert [tries.after("a", error, 0, {"a", "b"}) for _ in range(3)] == [
        SendStep.AGAIN,
        SendStep.AGAIN,
        SendStep.GIVE_UP,
    ]
    assert attempts(is_pinned=True).after("a", error, 0, {"a"}) is SendStep.GIVE_UP


@pytest.mark.parametrize("error", [NOT_CONNECTED, TooManyRequestsError(peer="a", in_flight_max=1)])
def test_what_was_never_sent_is_no_attempt(error: MQError) -> None:
    tries = attempts()
    steps = [tries.after(broker, error, 0, {"a", "b"}) for broker in ("a", "b", "a", "b")]
    assert steps == [SendStep.AGAIN, SendStep.PAUSE, SendStep.AGAIN, SendStep.PAUSE]
    assert (tries.reached, tries.pauses, tries.last_broker) == (0, 2, "b")
    pinned = attempts(is_pinned=True)
    assert [pinned.after("a", error, 0, {"a", "b"}) for _ in range(20)] == [SendStep.PAUSE] * 20
    assert len(pinned.failed) == 1


def test_when_the_time_is_up_nothing_is_tried() -> None:
    assert attempts().after("a", NOT_CONNECTED, 1_000, {"a"}) is SendStep.GIVE_UP


def test_a_fixed_queue_is_tried_again_only_when_the_broker_goes_away() -> None:
    assert attempts(is_pinned=True).after("a", BrokerError(code=2, remark=""), 0, {"a"}) is SendStep.GIVE_UP
    assert attempts(is_pinned=True).after("a", BrokerError(code=1500, remark=""), 0, {"a"}) is SendStep.AGAIN


def test_a_failure_leaves_doubt_only_if_an_answer_was_lost() -> None:
    tries = attempts()
    tries.after("a", NOT_CONNECTED, 0, {"a"})
    tries.after("a", BrokerError(code=2, remark="busy"), 0, {"a"})
    assert not SendFailedError("t", tries.failed).maybe_stored
    tries.after("a", LOST, 0, {"a"})
    error = SendFailedError("t", tries.failed)
    assert error.maybe_stored
    assert "not confirmed after 3 attempts (a: refused; a: code 2: busy; a: gone)" in str(error)


def test_errors_follow_from_answer_codes() -> None:
    assert isinstance(error_of(Received(2, {}, remark="slow down")), SystemBusyError)
    missing = error_of(Received(17, {}), topic="t")
    assert isinstance(missing, TopicNotFoundError) and missing.topic == "t"
    assert str(error_of(Received(604, {}))) == "code 604: ILLEGAL_OPERATION"


# --- letters ---


@pytest.mark.parametrize("code", [SEND, SEND_BATCH])
def test_fields_written_by_hand_are_those_of_the_typed_header(code: int) -> None:
    letter = OutgoingMessage(code, "t", b"x", "TAGS\x01a\x02", "ID", 1_700_000_000_000, 0, flag=-3, sys_flag=0x301)
    header = SendV2Header(
        producer_group="g",
        topic="t",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=3,
        sys_flag=0x301,
        born_timestamp=1_700_000_000_000,
        flag=-3,
        properties="TAGS\x01a\x02",
        reconsume_times=0,
        unit_mode=False,
        batch=code == SEND_BATCH,
        broker_name="broker-a",
    )
    assert header_fields(letter, QueueId("t", "broker-a", 3), "g", "TBW102", "4") == header_to_ext(header)


def test_all_that_a_message_says_is_in_its_properties() -> None:
    message = Message(
        "t", b"x", tags="a", keys="k1 k2", properties={"x": "ü"}, sharding_key="s", wait_stored=False, delay_level=3
    )
    assert decode_properties(properties_text(message, "ID", system_text([("TTL", "5")])).encode()) == {
        "UNIQ_KEY": "ID",
        "TTL": "5",
        "TAGS": "a",
        "KEYS": "k1 k2",
        "x": "ü",
        "__SHARDINGKEY": "s",
        "WAIT": "false",
        "DELAY": "3",
    }
    assert "TIMER_DELAY_MS\x0150\x02" in properties_text(Message("t", b"x", delay_ms=50), "ID")
    assert "TIMER_DELIVER_MS\x0150\x02" in properties_text(Message("t", b"x", deliver_at_ms=50), "ID")


def test_properties_are_measured_in_bytes() -> None:
    properties_text(Message("t", b"x", properties={"x": "a" * 32_000}), "ID")
    with pytest.raises(PropertiesTooLargeError):
        properties_text(Message("t", b"x", properties={"x": "ü" * 17_000}), "ID")


@pytest.mark.parametrize("compression", Compression)
def test_a_body_is_packed_only_if_that_helps(compression: Compression) -> None:
    settings = ProducerSettings(compression=compression)
    body, noise = b"again " * 1_000, Random(1).randbytes(5_000)
    packed, flag = pack_body(body, settings)
    assert decompress(packed, flag) == body
    assert (len(packed) < len(body)) == (compression is not Compression.NONE)
    assert pack_body(noise, settings) == (noise, 0)


# --- batches ---


@given(sizes=st.lists(st.integers(1, 300), min_size=1, max_size=60), bytes_max=st.integers(400, 1_000))
def test_a_batch_is_split_in_order_and_no_part_is_too_large(sizes: list[int], bytes_max: int) -> None:
    messages = [Message("t", bytes([n % 251]) * size, keys=f"k{n}") for n, size in enumerate(sizes)]
    ids = [f"ID{n}" for n in range(len(messages))]
    parts = split_batch(messages, ids, "", bytes_max)
    assert all(len(part.body) <= bytes_max for part in parts)
    assert [each for part in parts for each in part.unique_ids] == ids
    items = [item for part in parts for item in decode_batch(part.body)]
    assert [item.body for item in items] == [message.body for message in messages]
    assert [decode_properties(item.properties)["UNIQ_KEY"] for item in items] == ids
    for one, other in pairwise(parts):  # the first of the next part would not have fitted into this one
        first = decode_batch(other.body)[0]
        assert len(one.body) + ITEM_OVERHEAD_BYTES + len(first.body) + len(first.properties) > bytes_max


def test_a_message_that_fits_into_no_request_is_refused() -> None:
    with pytest.raises(MessageTooLargeError):
        split_batch([Message("t", b"x" * 500)], ["ID"], "", 400)


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (Message("u", b"x"), "one topic"),
        (Message("t", b"x", wait_stored=False), "wait_stored"),
        (Message("t", b"x", sharding_key="k"), "sharding key"),
        (Message("t", b"x", delay_level=1), "cannot be delayed"),
    ],
)
def test_what_cannot_be_one_batch_is_refused(other: Message, text: str) -> None:
    with pytest.raises(MessageRefusedError, match=text):
        check_batch([Message("t", b"x"), other])
    with pytest.raises(MessageRefusedError):
        check_batch([])
