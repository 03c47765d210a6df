"""Lazy messages say the same as the full decoder, and damaged bytes never lead outside of a record."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.client.core.received_message import HELD_MAX, InflatedBodies, PullFacts, ReceivedMessage, split_messages
from pyromq.errors import CorruptRecordError, MQError
from pyromq.model.queue import QueueId
from pyromq.wire.compression import InflatedTooLargeError, TooMuchInflatedError, compress, compressed_flag
from pyromq.wire.flags import SysFlag
from pyromq.wire.message_id import Host
from pyromq.wire.properties import encode_properties
from pyromq.wire.record import Draft, decode_record, encode_record

HOST = Host.parse("10.0.0.1:10911").encode()
HOST_V6 = Host.parse("[::1]:10911").encode()


def record(topic: str = "orders", body: bytes = b"hello", **fields: object) -> bytes:
    values = {"topic": topic, "body": body, "queue_id": 3, "born_ms": 11, "flag": 5, "delivery_attempt": 2, **fields}
    properties = values.pop("properties", {"UNIQ_KEY": "ID", "TAGS": "t", "KEYS": "a b", "x": "y"})
    store_host = values.pop("store_host", HOST)
    draft = Draft(properties=encode_properties(properties), **values)  # type: ignore[arg-type]
    return encode_record(draft, offset=7, position=4096, stored_ms=22, store_host=store_host)  # type: ignore[arg-type]


def only(data: bytes, **named: str) -> ReceivedMessage:
    (message,) = split_messages(data, "broker-a", **named)
    return message


@pytest.mark.parametrize("born", [HOST, HOST_V6])
@pytest.mark.parametrize("stored", [HOST, HOST_V6])
@pytest.mark.parametrize("topic", ["orders", "%RETRY%" + "g" * 150])
def test_every_field_is_what_the_full_decoder_reads(topic: str, born: bytes, stored: bytes) -> None:
    data = record(topic, born_host=born, store_host=stored, prepared_position=99)
    message, full = only(data), decode_record(data)
    assert message.body == full.body
    assert message.stored_topic == full.topic.decode()
    assert message.queue == QueueId(topic, "broker-a", 3)
    assert (message.offset, message.position, message.flag) == (full.offset, full.position, full.flag)
    assert (message.born_ms, message.stored_ms) == (full.born_ms, full.stored_ms)
    assert (message.born_host.encode(), message.store_host.encode()) == (full.born_host, full.store_host)
    assert (message.delivery_attempt, message.prepared_position) == (2, 99)
    assert message.properties["x"] == "y"
    assert (message.tags, message.keys, message.message_id) == ("t", ("a", "b"), "ID")
    assert message.size_bytes == len(data)


def test_without_a_unique_key_the_id_is_the_place() -> None:
    message = only(record(properties={"a": "b"}))
    assert message.message_id == message.offset_message_id == "0A00000100002A9F0000000000001000"
    assert (message.tags, message.keys, message.get("nothing")) == ("", (), None)


@pytest.mark.parametrize("algorithm", [SysFlag.ZLIB, SysFlag.LZ4, SysFlag.ZSTD])
def test_compressed_bodies_are_unpacked_on_access(algorithm: SysFlag) -> None:
    body = b"again and again " * 100
    packed = compress(body, algorithm)
    message = only(record(body=packed, sys_flag=int(compressed_flag(0, algorithm))))
    assert message.body == body
    assert message.body is message.body


def test_a_retried_message_shows_the_topic_it_was_sent_to() -> None:
    message = only(record("%RETRY%g", properties={"RETRY_TOPIC": "orders"}))
    assert (message.topic, message.stored_topic) == ("orders", "%RETRY%g")


def test_the_namespace_is_taken_off_the_topic() -> None:
    assert only(record("ns%orders"), namespace="ns").topic == "orders"
    assert only(record("%RETRY%ns%g", properties={"RETRY_TOPIC": "ns%orders"}), namespace="ns").topic == "orders"


def test_a_response_is_taken_apart_in_order() -> None:
    found = split_messages(b"".join(record(body=b"%d" % n) for n in range(5)), "b")
    assert [message.body for message in found] == [b"0", b"1", b"2", b"3", b"4"]
    assert split_messages(b"", "b") == []


@given(cut=st.integers(1, 400))
def test_a_cut_response_is_refused(cut: int) -> None:
    data = record() * 2
    if cut % len(record()) == 0:
        return
    with pytest.raises(CorruptRecordError):
        split_messages(data[: cut % len(data) or 1], "b")


@given(at=st.integers(0, len(record()) - 1), value=st.integers(0, 255))
def test_whatever_byte_changes_reading_gives_a_value_or_our_error(at: int, value: int) -> None:
    data = bytearray(record())
    data[at] = value
    try:
        for message in split_messages(bytes(data), "b"):
            for name in ("body", "properties", "topic", "queue", "message_id", "born_host", "store_host", "stored_ms"):
                getattr(message, name)
    except MQError:
        pass


def test_a_message_that_comes_again_knows_its_topic_and_the_id_of_its_first_copy() -> None:
    first = only(record())
    origin = {"RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": first.offset_message_id, "UNIQ_KEY": "ID"}
    again = only(record("%RETRY%billing", properties=origin))
    assert (first.is_retry, again.is_retry) == (False, True)
    assert first.topic == again.topic == "orders"
    assert first.origin_message_id == again.origin_message_id == first.offset_message_id


def test_a_failure_that_only_this_member_knows_counts_as_an_attempt() -> None:
    message = only(record(), namespace="eu")
    again = message.after_failure().after_failure()
    assert (message.delivery_attempt, again.delivery_attempt) == (2, 4)
    assert (again.record, again.namespace, again.offset) == (message.record, "eu", 7)


def test_the_packed_body_is_the_stored_one() -> None:
    packed = compress(b"hello" * 100, SysFlag.ZLIB)
    message = only(record(body=packed, sys_flag=compressed_flag(0, SysFlag.ZLIB)))
    assert (message.packed_body, message.body) == (packed, b"hello" * 100)


def test_the_checksum_of_the_record_is_no_property_of_the_message() -> None:
    draft = Draft(topic="orders", queue_id=0, body=b"x", properties=encode_properties({"TAGS": "new"}))
    stored = encode_record(draft, offset=0, position=0, stored_ms=1, store_host=HOST, checksum=True)
    assert b"__CRC32#" in stored
    message = only(stored)
    assert (message.properties, message.tags) == ({"TAGS": "new"}, "new")
    assert message.get("__CRC32#") is None


def test_a_pulled_message_tells_the_range_of_its_queue_and_when_its_listener_began() -> None:
    taken: dict[int, int] = {}
    stale = {"MAX_OFFSET": "1", "x": "y"}  # of a copy that some client made
    (message,) = split_messages(record(properties=stale), "b", pull=PullFacts(2, 100, taken, 1_000))
    assert (message.get("MIN_OFFSET"), message.get("MAX_OFFSET"), message.get("x")) == ("2", "100", "y")
    assert (message.behind, message.consume_start_ms, message.get("CONSUME_START_TIME")) == (92, None, None)
    taken[7] = 5
    assert (message.consume_start_ms, message.get("CONSUME_START_TIME")) == (1_005, "1005")
    expected = {"x": "y", "MIN_OFFSET": "2", "MAX_OFFSET": "100", "CONSUME_START_TIME": "1005"}
    assert expected.items() <= message.properties.items()
    assert message.after_failure().behind == 92
    fetched = only(record())
    assert (fetched.behind, fetched.consume_start_ms, fetched.get("MAX_OFFSET")) == (None, None, None)


# --- bodies that were decompressed -----------------------------------------------------------------------------------

MIB = 1 << 20


def bombs(count: int, taken: dict[int, int], size: int = 8 * MIB) -> list[ReceivedMessage]:
    """Messages of one queue, a few kilobytes each, that decompress to so many bytes."""
    packed = compress(bytes(size), SysFlag.ZLIB)
    whole = record(body=packed, sys_flag=int(compressed_flag(0, SysFlag.ZLIB)))
    (one,) = split_messages(whole, "b", pull=PullFacts(0, count, taken, 0))
    return [msgspec.structs.replace(one, offset=offset) for offset in range(count)]


def held_by(messages: list[ReceivedMessage]) -> int:
    return sum(len(message._body) for message in messages if message._body is not None)


@pytest.fixture
def inflated(monkeypatch: pytest.MonkeyPatch) -> InflatedBodies:
    made = InflatedBodies(100 * MIB, pause=lambda: None)
    monkeypatch.setattr("pyromq.client.core.received_message.inflated_bodies", made)
    return made


def test_bodies_that_listeners_have_are_bounded_together_and_the_next_one_fails_as_itself(
    inflated: InflatedBodies,
) -> None:
    taken = dict.fromkeys(range(40), 1)
    messages, failed = bombs(40, taken), 0
    for message in messages:
        try:
            assert len(message.body) == 8 * MIB
        except TooMuchInflatedError as error:
            failed += 1
            assert "fewer listeners" in str(error).lower()
    assert (failed, held_by(messages), inflated.held_bytes) == (40 - 12, 96 * MIB, 96 * MIB)
    del taken[0]  # a listener has ended
    assert len(messages[30].body) == 8 * MIB and messages[0]._body is None


def test_bodies_that_nobody_has_any_more_are_let_go_of(inflated: InflatedBodies) -> None:
    messages = bombs(40, {})
    assert {len(message.body) for message in messages} == {8 * MIB}
    assert held_by(messages) <= 32 * MIB
    assert len(messages[0].body) == 8 * MIB, "it is inflated again when somebody asks"


@pytest.mark.parametrize("size", [0, 1])
def test_messages_with_tiny_bodies_are_let_go_of_too(inflated: InflatedBodies, size: int) -> None:
    for number, message in enumerate(bombs(3 * HELD_MAX, {}, size)):
        assert len(message.body) == size
        assert len(inflated) <= min(number, HELD_MAX) + 1


def test_tiny_bodies_that_listeners_have_are_kept(inflated: InflatedBodies) -> None:
    messages = bombs(3 * HELD_MAX, dict.fromkeys(range(3 * HELD_MAX), 1), 1)
    assert {message.body for message in messages} == {bytes(1)}
    assert held_by(messages) == len(inflated) == 3 * HELD_MAX


def test_one_that_is_larger_than_any_may_be_says_so_however_much_room_there_is(inflated: InflatedBodies) -> None:
    (message,) = bombs(1, {}, 65 * MIB)
    with pytest.raises(InflatedTooLargeError, match="more than 67108864 bytes"):
        _ = message.body
    assert inflated.held_bytes == 0


def test_a_listener_on_a_thread_waits_for_others_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = dict.fromkeys(range(9), 1)
    monkeypatch.setattr(
        "pyromq.client.core.received_message.inflated_bodies", InflatedBodies(70 * MIB, pause=taken.clear)
    )
    messages = bombs(9, taken)
    for message in messages[:8]:
        assert message.body
    assert len(messages[8].body) == 8 * MIB
