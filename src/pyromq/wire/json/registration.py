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

A table is as good as its worst entry only for those who want it so: with ``left_out`` a topic that cannot be read is
noted there and the others count. Ordinary JSON is decoded into its types at once; text that needs the parser of
fastjson's dialect costs fifty times as much, so less of it is allowed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, Final
from zlib import compress

import msgspec
from msgspec.structs import replace

from pyromq.checksum import CRC_MASK, crc32
from pyromq.errors import RemoteProtocolError
from pyromq.model.topic import DataVersion, TopicConfig
from pyromq.wire.compression import INFLATED_BYTES_MAX, inflate_zlib
from pyromq.wire.json import java_json

_WRAPPED_SINCE_VERSION: Final = 37  # 3.0.11
_STATIC_TOPICS_SINCE_VERSION: Final = 413  # 5.0.0
_COMPRESSION_LEVEL: Final = 9
_LENGTH: Final = struct.Struct(">i")
_DIALECT_BYTES_MAX: Final = 128 * 1024
_NAME_BYTES_SHOWN: Final = 255
_ODD_TOPICS_MAX: Final = 1_000  # topics that need a second look; more make the table unreadable
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
    """Topics of a registering broker, with what 5.x adds for static topics, which PyroMQ only passes on."""

    mapping_data_version: DataVersion = DataVersion()
    topic_queue_mapping_detail_map: dict[str, Any] = {}
    topic_queue_mapping_info_map: dict[str, Any] = {}


class BrokerRegistration(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body with which a broker registers (RocketMQ: RegisterBrokerBody)."""

    topics: RegisteredTopics = msgspec.field(name="topicConfigSerializeWrapper", default_factory=RegisteredTopics)
    filter_server_list: list[str] = []


class _RawTopics(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """RegisteredTopics whose entries are read one by one."""

    data_version: DataVersion = DataVersion()
    topic_config_table: dict[str, msgspec.Raw] = {}
    mapping_data_version: DataVersion = DataVersion()
    topic_queue_mapping_detail_map: dict[str, Any] = {}
    topic_queue_mapping_info_map: dict[str, Any] = {}


class _RawRegistration(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    topics: _RawTopics = msgspec.field(name="topicConfigSerializeWrapper", default_factory=_RawTopics)
    filter_server_list: list[str] = []


_JSON_ERRORS: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
_typed = msgspec.json.Decoder(BrokerRegistration, strict=False).decode
_typed_topics = msgspec.json.Decoder(RegisteredTopics, strict=False).decode
_raw = msgspec.json.Decoder(_RawRegistration, strict=False).decode
_raw_topics = msgspec.json.Decoder(_RawTopics, strict=False).decode
_typed_topic = msgspec.json.Decoder(TopicConfig, strict=False).decode


def body_checksum(body: bytes) -> int:
    """Compute the value for ``bodyCrc32``."""
    return crc32(body) & CRC_MASK


def encode_topic_table(table: TopicTableBody) -> bytes:
    return java_json.dumps(table)


def decode_topic_table(body: bytes) -> TopicTableBody:
    """Decode the topics of a broker. Raises RemoteProtocolError."""
    return java_json.decode(body, TopicTableBody)


def encode_registration(registration: BrokerRegistration, *, compressed: bool = False, version: int) -> bytes:
    """The body as a broker of that version sends it."""
    if compressed:
        return compress(b"".join(_blocks(registration, version)), _COMPRESSION_LEVEL)
    value = registration if version >= _WRAPPED_SINCE_VERSION else registration.topics
    topics = registration.topics
    if topics.topic_queue_mapping_detail_map or topics.topic_queue_mapping_info_map:  # their keys may be numbers
        return java_json.dumps(value)
    try:
        return msgspec.json.encode(value, order="sorted")  # the same bytes at a twentieth of the cost
    except UnicodeError:
        return java_json.dumps(value)  # says what is wrong


def decode_registration(
    body: bytes,
    *,
    compressed: bool = False,
    version: int,
    checksum: int = 0,
    inflated_bytes_max: int = INFLATED_BYTES_MAX,
    left_out: dict[str, str] | None = None,
) -> BrokerRegistration:
    """What a broker of that version says; raises BodyChecksumError and other RemoteProtocolErrors.

    ``left_out`` takes the topics that cannot be read, each with the reason; without it the first of them is raised.
    """
    if checksum and checksum != (actual := body_checksum(body)):
        raise BodyChecksumError(expected=checksum, actual=actual)
    if compressed:
        return _from_blocks(_Blocks(inflate_zlib(body, inflated_bytes_max)), version, left_out)
    is_wrapped = version >= _WRAPPED_SINCE_VERSION
    try:
        return _typed(body) if is_wrapped else BrokerRegistration(topics=_typed_topics(body))
    except _JSON_ERRORS:
        return _by_entry(body, is_wrapped, left_out)


# --- plain JSON with something odd in it ---------------------------------------------------------------------------


def _by_entry(body: bytes, is_wrapped: bool, left_out: dict[str, str] | None) -> BrokerRegistration:
    try:
        raw = _raw(body) if is_wrapped else _RawRegistration(topics=_raw_topics(body))
    except _JSON_ERRORS:
        return _in_dialect(body, is_wrapped, left_out)
    found = _Entries(left_out)
    for name, text in raw.topics.topic_config_table.items():
        found.take(name, text)
    return _registration(raw.topics, found.topics, raw.filter_server_list)


def _in_dialect(body: bytes, is_wrapped: bool, left_out: dict[str, str] | None) -> BrokerRegistration:
    value = java_json.parse(body, bytes_max=_DIALECT_BYTES_MAX)
    if not is_wrapped:
        value = {"topicConfigSerializeWrapper": value}
    wrapper = value.get("topicConfigSerializeWrapper") if isinstance(value, dict) else None
    table = (wrapper.pop("topicConfigTable", None) or {}) if isinstance(wrapper, dict) else {}
    if not isinstance(table, dict):
        raise MalformedRegistrationError("the table of topics is no object")
    rest = java_json.convert(value, BrokerRegistration)
    found = _Entries(left_out)
    for name, entry in table.items():
        found.convert(str(name), entry)
    return _registration(rest.topics, found.topics, rest.filter_server_list)


def _registration(
    topics: RegisteredTopics | _RawTopics, table: dict[str, TopicConfig], filter_servers: list[str]
) -> BrokerRegistration:
    return BrokerRegistration(
        topics=RegisteredTopics(
            data_version=topics.data_version,
            topic_config_table=table,
            mapping_data_version=topics.mapping_data_version,
            topic_queue_mapping_detail_map=topics.topic_queue_mapping_detail_map,
            topic_queue_mapping_info_map=topics.topic_queue_mapping_info_map,
        ),
        filter_server_list=filter_servers,
    )


class _Entries:
    """Topics read one by one; those that cannot be read go to ``left_out``, or end it all when that is None."""

    def __init__(self, left_out: dict[str, str] | None) -> None:
        self.topics: dict[str, TopicConfig] = {}
        self._left_out = left_out
        self._odd = 0

    def take(self, name: str, text: msgspec.Raw) -> None:
        try:
            self.topics[name] = _typed_topic(text)
        except _JSON_ERRORS:
            self._odd += 1
            if self._odd > _ODD_TOPICS_MAX:
                raise MalformedRegistrationError(f"more than {_ODD_TOPICS_MAX} topics cannot be read") from None
            self._read(name, lambda: java_json.decode(bytes(text), TopicConfig, bytes_max=_DIALECT_BYTES_MAX))

    def convert(self, name: str, entry: Any) -> None:
        self._read(name, lambda: java_json.convert(entry, TopicConfig))

    def _read(self, name: str, read: Callable[[], TopicConfig]) -> None:
        try:
            self.topics[name] = read()
        except RemoteProtocolError as error:
            if self._left_out is None:
                raise
            self._left_out[name] = str(error)


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

    def blocks(self, count: int) -> list[bytes]:
        """So many of them, without a call for each."""
        data, position, taken = self._data, self._position, list[bytes]()
        for _ in range(count):
            size = int.from_bytes(data[position : position + _LENGTH.size], "big", signed=True)
            end = position + _LENGTH.size + size
            if size < 0 or end > len(data):
                self._position = position
                self.block()  # raises, and says what is wrong
            taken.append(data[position + _LENGTH.size : end])
            position = end
        self._position = position
        return taken

    def _take(self, size: int) -> bytes:
        taken = self._data[self._position : self._position + size]
        if len(taken) < size:
            raise MalformedRegistrationError(f"{size} bytes announced at {self._position}, only {len(taken)} follow")
        self._position += size
        return taken


def _from_blocks(blocks: _Blocks, version: int, left_out: dict[str, str] | None) -> BrokerRegistration:
    data_version = java_json.decode(blocks.block(), DataVersion)
    topics = _topics_of(blocks.blocks(blocks.number()), left_out)
    filter_servers = java_json.decode(blocks.block(), list[str])
    static: dict[str, Any] = {}
    if version >= _STATIC_TOPICS_SINCE_VERSION:
        static = dict(_static_topic(blocks.block()) for _ in range(blocks.number()))
    return BrokerRegistration(
        topics=RegisteredTopics(
            data_version=data_version,
            topic_config_table=topics,
            topic_queue_mapping_info_map=static,
        ),
        filter_server_list=filter_servers,
    )


def _topics_of(lines: list[bytes], left_out: dict[str, str] | None) -> dict[str, TopicConfig]:
    topics: dict[str, TopicConfig] = {}
    alike: dict[bytes, TopicConfig] = {}  # by all but the name: thousands of topics differ in nothing else
    for line in lines:
        name, _, rest = line.partition(b" ")
        try:
            known = alike.get(rest)
            if known is None:
                known = alike[rest] = _topic_of(line)
            topic_name = _name_of(name)
        except RemoteProtocolError as error:
            if left_out is None:
                raise
            left_out[name[:_NAME_BYTES_SHOWN].decode(errors="replace")] = str(error)
        else:
            topics[topic_name] = replace(known, topic_name=topic_name)
    return topics


def _name_of(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeError as error:
        raise MalformedRegistrationError("a topic is not UTF-8") from error


def _topic_of(line: bytes) -> TopicConfig:
    try:
        tokens: list[Any] = line.decode().split(" ", len(_TOPIC_FIELDS) - 1)
    except UnicodeError as error:
        raise MalformedRegistrationError("a topic is not UTF-8") from error
    if len(tokens) < len(_TOPIC_FIELDS) - 1:
        raise MalformedRegistrationError(f"a topic has {len(tokens)} fields")
    if len(tokens) == len(_TOPIC_FIELDS):
        if tokens[-1] == "{}":  # nearly all
            tokens.pop()
        else:
            tokens[-1] = java_json.parse(tokens[-1], bytes_max=_DIALECT_BYTES_MAX)
    try:
        return msgspec.convert(dict(zip(_TOPIC_FIELDS, tokens, strict=False)), TopicConfig, strict=False)
    except (msgspec.MsgspecError, OverflowError):
        pass  # a null among the attributes, perhaps, or something that deserves its error
    return java_json.convert(dict(zip(_TOPIC_FIELDS, tokens, strict=False)), TopicConfig)


def _static_topic(data: bytes) -> tuple[str, Any]:
    info = java_json.parse(data)
    if not (isinstance(info, dict) and isinstance(topic := info.get("topic"), str)):
        raise MalformedRegistrationError("a static topic without name")
    return topic, info
