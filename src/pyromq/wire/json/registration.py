"""How a broker tells a name server its topics: the body of REGISTER_BROKER, plain or compressed.

    plain        {"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{…},"topicConfigTable":{…},…}}
                 below version 37 the wrapper alone

    compressed   a zlib stream of blocks, each an i32 length and that many bytes:
                 version of the table (JSON)
                 i32 number of topics, for each a block ``name reads writes perm filterType attributes``
                 filter servers (JSON)
                 from version 413 on: i32 number of static topics, for each a block (JSON)

The compressed form carries neither topicSysFlag nor order; brokers before 5.0 leave the attributes out. ``bodyCrc32``
covers the bytes as sent; 0 means not checked. Lengths and counts come from the peer: every one is checked against what
is there, and the inflated size is bounded.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final
from zlib import compress

import msgspec

from pyromq.checksum import CRC_MASK, crc32
from pyromq.errors import RemoteProtocolError
from pyromq.model.topic import DataVersion, TopicConfig
from pyromq.wire.compression import INFLATED_BYTES_MAX, inflate_zlib
from pyromq.wire.json import java_json

_WRAPPED_SINCE_VERSION: Final = 37  # 3.0.11
_STATIC_TOPICS_SINCE_VERSION: Final = 413  # 5.0.0
_COMPRESSION_LEVEL: Final = 9
_LENGTH: Final = struct.Struct(">i")
_TOPIC_FIELDS: Final = ("topicName", "readQueueNums", "writeQueueNums", "perm", "topicFilterType", "attributes")


class MalformedRegistrationError(RemoteProtocolError):
    """The body of a registration is cut off, or its parts do not fit together."""


class BodyChecksumError(RemoteProtocolError):
    """The body is not the one that was sent."""

    def __init__(self, *, expected: int, actual: int) -> None:
        super().__init__(f"the body has checksum {actual}, its header says {expected}")
        self.expected = expected
        self.actual = actual


class TopicTableBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """All topics of a broker (RocketMQ: TopicConfigSerializeWrapper)."""

    data_version: DataVersion = DataVersion()
    topic_config_table: dict[str, TopicConfig] = {}


class RegisteredTopics(TopicTableBody, frozen=True, kw_only=True, rename="camel"):
    """The same with what 5.x adds for static topics, which PyroMQ only passes on."""

    mapping_data_version: DataVersion = DataVersion()
    topic_queue_mapping_detail_map: dict[str, Any] = {}
    topic_queue_mapping_info_map: dict[str, Any] = {}


class BrokerRegistration(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """RocketMQ: RegisterBrokerBody."""

    topics: RegisteredTopics = msgspec.field(name="topicConfigSerializeWrapper", default_factory=RegisteredTopics)
    filter_server_list: list[str] = []


def body_checksum(body: bytes) -> int:
    """The value for ``bodyCrc32``."""
    return crc32(body) & CRC_MASK


def encode_topic_table(table: TopicTableBody) -> bytes:
    return java_json.dumps(table)


def decode_topic_table(body: bytes) -> TopicTableBody:
    """Raises RemoteProtocolError."""
    return java_json.decode(body, TopicTableBody)


def encode_registration(registration: BrokerRegistration, *, compressed: bool = False, version: int) -> bytes:
    """The body as a broker of that version sends it."""
    if compressed:
        return compress(b"".join(_blocks(registration, version)), _COMPRESSION_LEVEL)
    return java_json.dumps(registration if version >= _WRAPPED_SINCE_VERSION else registration.topics)


def decode_registration(
    body: bytes,
    *,
    compressed: bool = False,
    version: int,
    checksum: int = 0,
    inflated_bytes_max: int = INFLATED_BYTES_MAX,
) -> BrokerRegistration:
    """What a broker of that version says; raises BodyChecksumError and other RemoteProtocolErrors."""
    if checksum and checksum != (actual := body_checksum(body)):
        raise BodyChecksumError(expected=checksum, actual=actual)
    if compressed:
        return _from_blocks(_Blocks(inflate_zlib(body, inflated_bytes_max)), version)
    if version < _WRAPPED_SINCE_VERSION:
        return BrokerRegistration(topics=java_json.decode(body, RegisteredTopics))
    return java_json.decode(body, BrokerRegistration)


# --- the compressed form -------------------------------------------------------------------------------------------


def _blocks(registration: BrokerRegistration, version: int) -> Iterator[bytes]:
    topics = registration.topics
    yield _block(java_json.dumps(topics.data_version))
    yield _LENGTH.pack(len(topics.topic_config_table))
    yield from (_block(_topic_line(topic).encode()) for topic in topics.topic_config_table.values())
    yield _block(java_json.dumps(registration.filter_server_list))
    if version >= _STATIC_TOPICS_SINCE_VERSION:
        yield _LENGTH.pack(len(topics.topic_queue_mapping_info_map))
        yield from (_block(java_json.dumps(static)) for static in topics.topic_queue_mapping_info_map.values())


def _block(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


def _topic_line(topic: TopicConfig) -> str:
    numbers = f"{topic.read_queue_nums} {topic.write_queue_nums} {topic.perm}"
    return f"{topic.topic_name} {numbers} {topic.topic_filter_type.name} {java_json.dumps(topic.attributes).decode()}"


class _Blocks:
    """Reads numbers and blocks one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def number(self) -> int:
        (number,) = _LENGTH.unpack(self._take(_LENGTH.size))
        if number < 0:
            raise MalformedRegistrationError(f"a length or count of {number}")
        return int(number)

    def block(self) -> bytes:
        return self._take(self.number())

    def _take(self, size: int) -> bytes:
        taken = self._data[self._position : self._position + size]
        if len(taken) < size:
            raise MalformedRegistrationError(f"{size} bytes announced at {self._position}, only {len(taken)} follow")
        self._position += size
        return taken


def _from_blocks(blocks: _Blocks, version: int) -> BrokerRegistration:
    data_version = java_json.decode(blocks.block(), DataVersion)
    topics = [_topic_of(blocks.block()) for _ in range(blocks.number())]
    filter_servers = java_json.decode(blocks.block(), list[str])
    static: dict[str, Any] = {}
    if version >= _STATIC_TOPICS_SINCE_VERSION:
        static = dict(_static_topic(blocks.block()) for _ in range(blocks.number()))
    return BrokerRegistration(
        topics=RegisteredTopics(
            data_version=data_version,
            topic_config_table={topic.topic_name: topic for topic in topics},
            topic_queue_mapping_info_map=static,
        ),
        filter_server_list=filter_servers,
    )


def _topic_of(line: bytes) -> TopicConfig:
    try:
        tokens: list[Any] = line.decode().split(" ", len(_TOPIC_FIELDS) - 1)
    except UnicodeError as error:
        raise MalformedRegistrationError("a topic is not UTF-8") from error
    if len(tokens) < len(_TOPIC_FIELDS) - 1:
        raise MalformedRegistrationError(f"a topic has {len(tokens)} fields")
    if len(tokens) == len(_TOPIC_FIELDS):
        tokens[-1] = java_json.parse(tokens[-1])
    return java_json.convert(dict(zip(_TOPIC_FIELDS, tokens, strict=False)), TopicConfig)


def _static_topic(data: bytes) -> tuple[str, Any]:
    info = java_json.parse(data)
    if not (isinstance(info, dict) and isinstance(topic := info.get("topic"), str)):
        raise MalformedRegistrationError("a static topic without name")
    return topic, info
