"""Messages between the two protocols: what a gRPC client sends as a remoting send, what is stored as it is delivered.

    gRPC message      property        gRPC message             property
    message_id        UNIQ_KEY        message_group            __SHARDINGKEY
    tag, keys         TAGS, KEYS      delivery_timestamp       TIMER_DELIVER_MS
    trace_context     TRACE_CONTEXT   priority                 _SYS_MSG_PRIORITY_
    born_host         __BORNHOST      (transaction)            TRAN_MSG, PGROUP, CHECK_IMMUNITY_TIME_IN_SECONDS

A gzip body is stored as zlib, whose deflated bytes are the same, so that consumers of the remoting protocol read it.
Bodies are delivered as they were before any compression.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from hashlib import md5
from typing import Final, NamedTuple

from pyromq.broker.grpc.names import RESERVED, check_message_group, check_properties
from pyromq.broker.grpc.statuses import StatusError
from pyromq.model import property_names as names
from pyromq.model.names import DEAD_LETTER_PREFIX
from pyromq.model.system_names import MESSAGE_TYPE
from pyromq.net.http2 import GrpcCall, Http2Connection
from pyromq.wire.compression import DecompressionError, compressed_flag, decompress
from pyromq.wire.flags import SysFlag
from pyromq.wire.grpc.codes import BodyEncoding, DigestKind, MessageKind, StatusCode
from pyromq.wire.grpc.definitions import (
    DeadLetterOrigin,
    Digest,
    GrpcMessage,
    Resource,
    SystemProperties,
    time_of,
)
from pyromq.wire.grpc.framing import GrpcError, GrpcStatus, inflated
from pyromq.wire.message_id import Host, stored_id
from pyromq.wire.properties import decode_properties
from pyromq.wire.property_text import join_items
from pyromq.wire.record import Record

BODY_BYTES_MAX: Final = 4 << 20
DELAY_MS_MAX: Final = 24 * 3_600_000
RECOVERY_MS_MAX: Final = 3_600_000
SENT_INFLATED_BYTES_MAX: Final = 16 << 20  # of all bodies of one request; clients compress at most 4 MiB
RESPONSE_BYTES_MAX: Final = 16 << 20  # of the bodies in one response, if there are several
_UNUSED_BYTES: Final = 64 << 10  # wait on a connection at most while nothing large does
_INFLATED_BYTES_MAX: Final = 32 << 20  # of one body that is delivered
_GZIP_HEAD_BYTES: Final = 10
_GZIP_TAIL_BYTES: Final = 8
_ZLIB_HEAD: Final = b"\x78\x9c"
_DELAYS: Final = (names.TIMER_DELIVER_MS, names.TIMER_DELAY_MS, names.TIMER_DELAY_SEC, names.DELAY)
_NO_DELAY: Final = ("", "0", "-1")
_MIXED: Final = (MessageKind.NORMAL, MessageKind.FIFO, MessageKind.DELAY, MessageKind.TRANSACTION)
OWN_PROPERTIES: Final = RESERVED | {
    names.SHARDING_KEY,
    names.PRIORITY,
    names.TRACE_CONTEXT,
    names.BORN_HOST,
    names.CHECK_IMMUNITY,
}
"""Properties that are not among those of the application when a message is delivered."""


def accepted_kinds(attributes: Mapping[str, str]) -> tuple[MessageKind, ...]:
    """Which kinds of messages a topic takes, by its attribute ``message.type``."""
    text = attributes.get(MESSAGE_TYPE, "NORMAL").upper()
    if text == "MIXED":
        return _MIXED
    kind = MessageKind.__members__.get(text, MessageKind.UNSPECIFIED)
    return (kind,)


class Outgoing(NamedTuple):
    """A message that may be stored."""

    kind: MessageKind
    properties: str
    body: bytes
    sys_flag: int
    born_ms: int
    message_id: str
    message_group: str
    inflated_bytes: int  # of a compressed body


def all_outgoing(messages: Iterable[GrpcMessage], topic: str, now_ms: int) -> list[Outgoing]:
    """What to store of the messages of one request, whose bodies are decompressed on the way. Raises StatusError."""
    found: list[Outgoing] = []
    left = SENT_INFLATED_BYTES_MAX
    for message in messages:
        found.append(outgoing(message, topic, now_ms, left))
        left -= found[-1].inflated_bytes
    return found


def outgoing(message: GrpcMessage, topic: str, now_ms: int, inflated_max: int = SENT_INFLATED_BYTES_MAX) -> Outgoing:
    """What to store of a message. Raises StatusError."""
    system = message.system_properties or SystemProperties()
    body, sys_flag, inflated_bytes = _body(message.body, system.body_encoding, inflated_max)
    check_properties(message.user_properties, system)
    kind, items = _special(system, topic, now_ms)
    items += [(names.UNIQUE_KEY, system.message_id)]
    if system.tag:
        items.append((names.TAGS, system.tag))
    if system.keys:
        items.append((names.KEYS, " ".join(system.keys)))
    if system.trace_context:
        items.append((names.TRACE_CONTEXT, system.trace_context))
    items += message.user_properties.items()
    born_ms = system.born_timestamp.ms if system.born_timestamp else now_ms
    group = system.message_group or ""
    return Outgoing(kind, join_items(items), body, sys_flag, born_ms, system.message_id, group, inflated_bytes)


def _body(body: bytes, encoding: int, inflated_max: int) -> tuple[bytes, int, int]:
    """The body as it is stored, its flag, and the size of what was decompressed. Raises StatusError."""
    if not body:
        raise StatusError(StatusCode.MESSAGE_BODY_EMPTY, "the message has no body; send at least one byte")
    if len(body) > BODY_BYTES_MAX:
        text = f"the body has {len(body)} bytes, at most {BODY_BYTES_MAX} are allowed"
        raise StatusError(StatusCode.MESSAGE_BODY_TOO_LARGE, text)
    if encoding != BodyEncoding.GZIP:
        return body, 0, 0
    wrapped, inflated_bytes = gzip_as_zlib(body, inflated_max)
    return wrapped, compressed_flag(0, SysFlag.ZLIB), inflated_bytes


def gzip_as_zlib(body: bytes, inflated_max: int = SENT_INFLATED_BYTES_MAX) -> tuple[bytes, int]:
    """Put the deflated bytes of a gzip body into zlib's wrapping; the size of the plain body. Raises StatusError when
    they are not gzip, or too much.
    """
    try:
        plain = inflated(body, inflated_max)
    except GrpcError as error:
        if error.status is GrpcStatus.RESOURCE_EXHAUSTED:
            text = f"decompressed, the bodies of this request have more than {SENT_INFLATED_BYTES_MAX} bytes"
            raise StatusError(StatusCode.MESSAGE_BODY_TOO_LARGE, text) from error
        text = f"the body is said to be gzip, and is not: {error}"
        raise StatusError(StatusCode.MESSAGE_CORRUPTED, text) from error
    if body[3] or len(body) < _GZIP_HEAD_BYTES + _GZIP_TAIL_BYTES:  # names and comments: rare
        return zlib.compress(plain), len(plain)
    deflated = body[_GZIP_HEAD_BYTES:-_GZIP_TAIL_BYTES]
    return _ZLIB_HEAD + deflated + zlib.adler32(plain).to_bytes(4, "big"), len(plain)


def _special(system: SystemProperties, topic: str, now_ms: int) -> tuple[MessageKind, list[tuple[str, str]]]:
    """What makes it more than a normal message: its kind, and properties. Raises StatusError."""
    items: list[tuple[str, str]] = []
    group = system.message_group
    if group:
        check_message_group(group)
        items.append((names.SHARDING_KEY, group))
    if system.message_type == MessageKind.TRANSACTION:
        items += [(names.PREPARED, "true"), (names.PRODUCER_GROUP, topic)]
        recovery = system.orphaned_transaction_recovery_duration
        if recovery is not None and recovery.ms > 0:
            if recovery.ms > RECOVERY_MS_MAX:
                text = f"a transaction is checked after {recovery.ms} ms, at most {RECOVERY_MS_MAX} are allowed (1 h)"
                raise StatusError(StatusCode.BAD_REQUEST, text)
            items.append((names.CHECK_IMMUNITY, str(recovery.ms // 1000)))
        return MessageKind.TRANSACTION, items
    if system.delivery_timestamp is not None:
        due_ms = system.delivery_timestamp.ms
        if due_ms > now_ms + DELAY_MS_MAX:
            text = f"the message would be delivered in {due_ms - now_ms} ms, at most {DELAY_MS_MAX} are allowed (24 h)"
            raise StatusError(StatusCode.ILLEGAL_DELIVERY_TIME, text)
        items.append((names.TIMER_DELIVER_MS, str(due_ms)))
        return MessageKind.DELAY, items
    if group:
        return MessageKind.FIFO, items
    if system.priority is not None:
        if system.priority < 0:
            raise StatusError(StatusCode.BAD_REQUEST, f"priority {system.priority} is below 0")
        items.append((names.PRIORITY, str(system.priority)))
        return MessageKind.PRIORITY, items
    if system.lite_topic is not None:
        raise StatusError(StatusCode.NOT_IMPLEMENTED, "lite topics are not served; use a topic of its own")
    return MessageKind.NORMAL, items


# --- delivery ---


def check_room(call: GrpcCall) -> None:
    """Refuse to read messages for a client that does not read its responses. Raises StatusError."""
    if call.connection.room_bytes < BODY_BYTES_MAX:  # a message of any size must fit
        text = "responses of this connection wait to be read, as many as may wait; read them first"
        raise StatusError(StatusCode.TOO_MANY_REQUESTS, text)


def room_bytes(connection: Http2Connection) -> int:
    """How many bytes of bodies one response may have now."""
    return min(RESPONSE_BYTES_MAX, connection.room_bytes)


class Room:
    """How many bytes of bodies still fit into a response: a few stored bytes may be many delivered ones."""

    def __init__(self, call: GrpcCall) -> None:
        self._left = room_bytes(call.connection)
        self._is_unused = call.connection.unsent_bytes < _UNUSED_BYTES  # then one message fits, whatever its size

    def has(self, message: GrpcMessage) -> bool:
        """Whether a message may be sent, too."""
        self._left -= len(message.body)
        is_first, self._is_unused = self._is_unused, False
        return self._left >= 0 or is_first


class Delivery(NamedTuple):
    """What a hand-out says of a message."""

    topic: Resource
    receipt: str | None = None
    attempts: int | None = None
    invisible_ms: int | None = None


def delivered(record: Record, to: Delivery) -> GrpcMessage:
    """A stored message as clients get it; a body that cannot be decompressed stays as it is."""
    properties = decode_properties(record.properties)
    try:
        body = decompress(record.body, record.sys_flag, bytes_max=_INFLATED_BYTES_MAX)
    except DecompressionError:
        body = record.body
    digest = Digest(kind=DigestKind.MD5, checksum=md5(body, usedforsecurity=False).hexdigest().upper())
    due_ms = _number(properties.get(names.TIMER_DELIVER_MS, ""))
    system = SystemProperties(
        tag=properties.get(names.TAGS),
        keys=properties.get(names.KEYS, "").split(),
        message_id=properties.get(names.UNIQUE_KEY) or stored_id(record.store_host, record.position),
        body_digest=digest,
        body_encoding=BodyEncoding.IDENTITY,
        message_type=kind_of(properties),
        born_timestamp=time_of(record.born_ms),
        born_host=properties.get(names.BORN_HOST) or str(Host.decode(record.born_host)),
        store_timestamp=time_of(record.stored_ms),
        store_host=str(Host.decode(record.store_host)),
        delivery_timestamp=None if due_ms is None else time_of(due_ms),
        receipt_handle=to.receipt,
        queue_id=record.queue_id,
        queue_offset=record.offset,
        invisible_duration=None if to.invisible_ms is None else time_of(to.invisible_ms),
        delivery_attempt=to.attempts,
        message_group=properties.get(names.SHARDING_KEY),
        trace_context=properties.get(names.TRACE_CONTEXT),
        dead_letter_queue=_origin(to.topic, properties),
        priority=_number(properties.get(names.PRIORITY, "")),
    )
    user = {name: value for name, value in properties.items() if name not in OWN_PROPERTIES}
    return GrpcMessage(topic=to.topic, user_properties=user, system_properties=system, body=body)


def _number(text: str) -> int | None:
    """A number that a field of a message can hold; producers write what they like."""
    return int(text) if text.isdecimal() and len(text) < 19 else None


def is_dead_letters(topic: Resource) -> bool:
    return topic.name.startswith(DEAD_LETTER_PREFIX)


def _origin(topic: Resource, properties: Mapping[str, str]) -> DeadLetterOrigin | None:
    """Where a dead letter came from."""
    if not is_dead_letters(topic):
        return None
    return DeadLetterOrigin(
        topic=properties.get(names.DLQ_ORIGIN_TOPIC) or properties.get(names.RETRY_TOPIC, ""),
        message_id=properties.get(names.DLQ_ORIGIN_MESSAGE_ID) or properties.get(names.ORIGIN_MESSAGE_ID, ""),
    )


def kind_of(properties: Mapping[str, str]) -> MessageKind:
    """By its properties."""
    if properties.get(names.PREPARED, "").lower() == "true":
        return MessageKind.TRANSACTION
    if any(properties.get(name, "0") not in _NO_DELAY for name in _DELAYS):
        return MessageKind.DELAY
    if names.SHARDING_KEY in properties:
        return MessageKind.FIFO
    return MessageKind.PRIORITY if names.PRIORITY in properties else MessageKind.NORMAL
