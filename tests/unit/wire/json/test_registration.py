from __future__ import annotations

import random
import struct
import zlib

import msgspec
import pytest

from pyromq.errors import RemoteProtocolError
from pyromq.model.topic import DataVersion, TopicConfig, TopicFilterType
from pyromq.wire.compression import DecompressionError, InflatedTooLargeError
from pyromq.wire.json.registration import (
    BodyChecksumError,
    BrokerRegistration,
    MalformedRegistrationError,
    RegisteredTopics,
    TopicTableBody,
    body_checksum,
    decode_registration,
    decode_topic_table,
    encode_registration,
    encode_topic_table,
)

VERSION = 479
REGISTRATION = BrokerRegistration(
    topics=RegisteredTopics(
        data_version=DataVersion(counter=3, timestamp=1_700_000_000_000),
        topic_config_table={
            "TBW102": TopicConfig(topic_name="TBW102", perm=7),
            "t": TopicConfig(
                topic_name="t",
                read_queue_nums=4,
                write_queue_nums=2,
                topic_filter_type=TopicFilterType.MULTI_TAG,
                attributes={"message.type": "FI FO é"},
            ),
        },
        topic_queue_mapping_info_map={"s": {"topic": "s", "currIdMap": {0: 1}, "totalQueues": 8}},
    ),
    filter_server_list=["10.0.0.9:1"],
)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_registration_reads_back_from_either_form(compressed: bool) -> None:
    body = encode_registration(REGISTRATION, compressed=compressed, version=VERSION)
    decoded = decode_registration(body, compressed=compressed, version=VERSION, checksum=body_checksum(body))
    assert decoded == REGISTRATION


def test_brokers_before_5_send_no_static_topics_in_the_compressed_form() -> None:
    body = encode_registration(REGISTRATION, compressed=True, version=412)
    decoded = decode_registration(body, compressed=True, version=412)
    assert decoded.topics.topic_queue_mapping_info_map == {}
    assert decoded.topics.topic_config_table == REGISTRATION.topics.topic_config_table
    with pytest.raises(MalformedRegistrationError):
        decode_registration(body, compressed=True, version=413)


def test_brokers_before_3_0_11_send_the_table_alone() -> None:
    body = encode_registration(REGISTRATION, version=36)
    assert decode_registration(body, version=36).topics == REGISTRATION.topics


def blocks(*topics: bytes, head: bytes = b'{"counter":1,"timestamp":2}', tail: bytes = b"[]") -> bytes:
    parts = [struct.pack(">i", len(head)), head, struct.pack(">i", len(topics))]
    parts += [struct.pack(">i", len(topic)) + topic for topic in topics]
    return zlib.compress(b"".join([*parts, struct.pack(">i", len(tail)), tail]))


def test_topics_of_older_brokers_have_five_fields() -> None:
    decoded = decode_registration(blocks(b"t 4 8 6 SINGLE_TAG"), compressed=True, version=317)
    assert decoded.topics.topic_config_table == {
        "t": TopicConfig(topic_name="t", read_queue_nums=4, write_queue_nums=8)
    }
    assert decoded.topics.data_version == DataVersion(counter=1, timestamp=2)


@pytest.mark.parametrize(
    "line",
    [
        b"", b"t", b"t 4 4 6", b"t x 4 6 SINGLE_TAG", b"t 4 4 6 OTHER", b"\xff 4 4 6 SINGLE_TAG",
        b"t 4 4 6 SINGLE_TAG {", b"t 4 4 6 SINGLE_TAG 5", b"t 4 4 6 SINGLE_TAG {} {}", b"t 4 4 6 SINGLE_TAG ",
    ],
)  # fmt: skip
def test_odd_topics_are_typed_errors(line: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_registration(blocks(line), compressed=True, version=317)


def test_topics_that_differ_in_their_names_only_keep_them_and_odd_ones_are_left_out_alone() -> None:
    lines = [
        b"a 4 8 6 SINGLE_TAG {}",
        b"\xff 4 8 6 SINGLE_TAG {}",
        "ä 4 8 6 SINGLE_TAG {}".encode(),
        b"b 4 x 6 SINGLE_TAG {}",
    ]
    left_out: dict[str, str] = {}
    decoded = decode_registration(blocks(*lines), compressed=True, version=317, left_out=left_out)
    expected = {name: TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=8) for name in ("a", "ä")}
    assert decoded.topics.topic_config_table == expected
    assert list(left_out) == ["\ufffd", "b"] and "UTF-8" in left_out["\ufffd"]


def test_a_wrong_checksum_is_found_and_zero_is_not_checked() -> None:
    body = encode_registration(REGISTRATION, version=VERSION)
    assert 0 < body_checksum(body) <= 0x7FFFFFFF
    with pytest.raises(BodyChecksumError) as caught:
        decode_registration(body + b" ", version=VERSION, checksum=body_checksum(body))
    assert caught.value.expected == body_checksum(body)
    assert decode_registration(body + b" ", version=VERSION, checksum=0) == REGISTRATION


def test_every_truncation_of_the_compressed_form_is_a_typed_error() -> None:
    body = encode_registration(REGISTRATION, compressed=True, version=VERSION)
    for size in range(len(body)):
        with pytest.raises(DecompressionError):
            decode_registration(body[:size], compressed=True, version=VERSION)
    inflated = zlib.decompress(body)
    for size in range(len(inflated)):
        with pytest.raises(RemoteProtocolError):
            decode_registration(zlib.compress(inflated[:size]), compressed=True, version=VERSION)


@pytest.mark.parametrize("number", [-1, 2**31 - 1])
def test_absurd_counts_and_lengths_are_typed_errors(number: int) -> None:
    absurd = struct.pack(">i", number)
    head = struct.pack(">i", 2) + b"{}"
    for data in (absurd, head + absurd, head + struct.pack(">i", 1) + absurd, head + struct.pack(">i", 0) + absurd):
        with pytest.raises(MalformedRegistrationError):
            decode_registration(zlib.compress(data), compressed=True, version=VERSION)


def test_a_bomb_is_refused() -> None:
    bomb = zlib.compress(b"\0" * 5_000_000)
    with pytest.raises(InflatedTooLargeError):
        decode_registration(bomb, compressed=True, version=VERSION, inflated_bytes_max=1_000_000)


def test_a_static_topic_needs_a_name() -> None:
    nameless = msgspec.structs.replace(REGISTRATION.topics, topic_queue_mapping_info_map={"s": {"totalQueues": 8}})
    body = encode_registration(BrokerRegistration(topics=nameless), compressed=True, version=VERSION)
    with pytest.raises(MalformedRegistrationError):
        decode_registration(body, compressed=True, version=VERSION)


def test_a_topic_table_reads_back() -> None:
    table = TopicTableBody(data_version=DataVersion(counter=1), topic_config_table={"t": TopicConfig(topic_name="t")})
    assert decode_topic_table(encode_topic_table(table)) == table


def test_flipped_bytes_give_a_value_or_a_typed_error() -> None:
    seed = 77
    print(f"seed={seed}")
    rng = random.Random(seed)
    inflated = zlib.decompress(encode_registration(REGISTRATION, compressed=True, version=VERSION))
    for _ in range(3_000):
        damaged = bytearray(inflated)
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            decode_registration(zlib.compress(damaged, 1), compressed=True, version=VERSION)
        except RemoteProtocolError:
            continue
