r"""Trace records: the life of a message as producers and consumers report it, in messages of the trace topic.

    body    record 0x02 record 0x02 …         record    type 0x01 field 0x01 field …          UTF-8
    KEYS    ids and keys of all messages in the body, so that a lookup by any of them finds it

A missing text is written ``null``, as Java does: its reader would lose an empty field at the end of a record. Some
clients append the address of their host to a record; readers take records with and without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import Final

import msgspec

from pyromq.model.message import Message

TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
PACK_RECORDS_MAX: Final = 20
PACK_BYTES_MAX: Final = 128_000
PACK_KEYS_BYTES_MAX: Final = 24_000  # keys are a property, and properties have 32 767 bytes together
DEFAULT_REGION: Final = "DefaultRegion"

FIELD_END: Final = "\x01"
RECORD_END: Final = "\x02"
_NONE: Final = "null"


class MessageKind(IntEnum):
    """What was sent (RocketMQ: MessageType, by its ordinal)."""

    NORMAL = 0
    PREPARED = 1
    COMMITTED = 2
    DELAYED = 3
    ORDERED = 4


class ConsumeCode(IntEnum):
    """How a listener ended (RocketMQ: ConsumeReturnType, by its ordinal)."""

    SUCCESS = 0
    TIME_OUT = 1
    EXCEPTION = 2
    RETURN_NULL = 3
    FAILED = 4


class Published(msgspec.Struct, frozen=True, kw_only=True, tag="published"):
    """A send of a producer ended."""

    time_ms: int
    group: str
    topic: str
    message_id: str
    region: str = DEFAULT_REGION
    tags: str = ""
    keys: str = ""
    store_host: str = ""
    body_bytes: int = 0
    cost_ms: int = 0
    kind: MessageKind = MessageKind.NORMAL
    offset_message_id: str = ""
    is_success: bool = True
    client_host: str = ""


class ConsumeBegan(msgspec.Struct, frozen=True, kw_only=True, tag="consume began"):
    """A listener got the message; ``request_id`` pairs it with ConsumeEnded."""

    time_ms: int
    group: str
    request_id: str
    message_id: str
    region: str = DEFAULT_REGION
    delivery_attempt: int = 0
    keys: str = ""
    client_host: str = ""


class ConsumeEnded(msgspec.Struct, frozen=True, kw_only=True, tag="consume ended"):
    """A listener returned. Old clients tell neither time nor group: 0 and empty."""

    request_id: str
    message_id: str
    cost_ms: int = 0
    is_success: bool = True
    keys: str = ""
    code: ConsumeCode = ConsumeCode.SUCCESS
    time_ms: int = 0
    group: str = ""
    client_host: str = ""  # not in the record: ``sent_from`` adds it


class TransactionEnded(msgspec.Struct, frozen=True, kw_only=True, tag="transaction ended"):
    """A producer said what becomes of a prepared message: COMMIT_MESSAGE, ROLLBACK_MESSAGE or UNKNOW."""

    time_ms: int
    group: str
    topic: str
    message_id: str
    transaction_id: str
    state: str
    region: str = DEFAULT_REGION
    tags: str = ""
    keys: str = ""
    store_host: str = ""
    kind: MessageKind = MessageKind.PREPARED
    is_from_check: bool = False


class Recalled(msgspec.Struct, frozen=True, kw_only=True, tag="recalled"):
    """A producer called a delayed message back."""

    time_ms: int
    group: str
    topic: str
    message_id: str
    region: str = DEFAULT_REGION
    is_success: bool = True


TraceRecord = Published | ConsumeBegan | ConsumeEnded | TransactionEnded | Recalled


def kind_of(message: Message) -> MessageKind:
    if message.delay_level or message.delay_ms or message.deliver_at_ms:
        return MessageKind.DELAYED
    return MessageKind.ORDERED if message.sharding_key else MessageKind.NORMAL


def keys_of(record: TraceRecord) -> list[str]:
    """What a record is found by: the ids of its message, and its keys."""
    keys = [] if isinstance(record, Recalled) else record.keys.split()
    return [record.message_id, *keys] if record.message_id else keys


# --- writing -------------------------------------------------------------------------------------------------------


def encode_record(record: TraceRecord) -> bytes:
    """One record with its end."""
    return (FIELD_END.join([_text(value) for value in _fields_of(record)]) + RECORD_END).encode("utf-8", "replace")


def _fields_of(record: TraceRecord) -> tuple[object, ...]:
    r, begin = record, tuple[object, ...]()
    match r:
        case Published():
            begin = ("Pub", r.time_ms, r.region, r.group, r.topic, r.message_id, r.tags, r.keys, r.store_host)
            return *begin, r.body_bytes, r.cost_ms, r.kind.value, r.offset_message_id, r.is_success
        case ConsumeBegan():
            begin = ("SubBefore", r.time_ms, r.region, r.group, r.request_id, r.message_id)
            return *begin, r.delivery_attempt, r.keys
        case ConsumeEnded():
            begin = ("SubAfter", r.request_id, r.message_id, r.cost_ms, r.is_success, r.keys)
            return *begin, r.code.value, r.time_ms, r.group
        case TransactionEnded():
            begin = ("EndTransaction", r.time_ms, r.region, r.group, r.topic, r.message_id, r.tags, r.keys)
            return *begin, r.store_host, r.kind.value, r.transaction_id, r.state, r.is_from_check
        case Recalled():
            return "Recall", r.time_ms, r.region, r.group, r.topic, r.message_id, r.is_success


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) or _NONE


# --- reading -------------------------------------------------------------------------------------------------------


def decode_records(body: bytes) -> list[TraceRecord]:
    """All records of a trace message. What cannot be read is passed over: it must not hide the others."""
    found: list[TraceRecord] = []
    for text in body.decode("utf-8", "replace").split(RECORD_END):
        fields = ["" if field == _NONE else field for field in text.split(FIELD_END)]
        read = _READERS.get(fields[0])
        if read is None:
            continue
        try:
            found.append(read(fields))
        except (ValueError, IndexError):
            continue
    return found


def sent_from(record: TraceRecord, born_host: str) -> TraceRecord:
    """The record with the address of the client that sent it, unless it has one: who produced, and who consumed."""
    if isinstance(record, Published | ConsumeBegan | ConsumeEnded) and not record.client_host:
        return msgspec.structs.replace(record, client_host=born_host)
    return record


def _published(f: Sequence[str]) -> Published:
    has_offset_id = len(f) >= 14  # clients before 4.5 did not write it
    return Published(
        time_ms=int(f[1]), region=f[2], group=f[3], topic=f[4], message_id=f[5], tags=f[6], keys=f[7], store_host=f[8],
        body_bytes=int(f[9]), cost_ms=int(f[10]), kind=MessageKind(int(f[11])),
        offset_message_id=f[12] if has_offset_id else "", is_success=(f[13] if has_offset_id else f[12]) == "true",
        client_host=f[14] if len(f) > 14 else "",
    )  # fmt: skip


def _consume_began(f: Sequence[str]) -> ConsumeBegan:
    return ConsumeBegan(
        time_ms=int(f[1]), region=f[2], group=f[3], request_id=f[4], message_id=f[5], delivery_attempt=int(f[6] or 0),
        keys=f[7] if len(f) > 7 else "", client_host=f[8] if len(f) > 8 else "",
    )  # fmt: skip


def _consume_ended(f: Sequence[str]) -> ConsumeEnded:
    return ConsumeEnded(
        request_id=f[1], message_id=f[2], cost_ms=int(f[3]), is_success=f[4] == "true", keys=f[5],
        code=ConsumeCode(int(f[6])) if len(f) > 6 and f[6] else ConsumeCode.SUCCESS,
        time_ms=int(f[7]) if len(f) > 8 else 0, group=f[8] if len(f) > 8 else "",
    )  # fmt: skip


def _transaction_ended(f: Sequence[str]) -> TransactionEnded:
    return TransactionEnded(
        time_ms=int(f[1]), region=f[2], group=f[3], topic=f[4], message_id=f[5], tags=f[6], keys=f[7], store_host=f[8],
        kind=MessageKind(int(f[9])), transaction_id=f[10], state=f[11], is_from_check=f[12] == "true",
    )  # fmt: skip


def _recalled(f: Sequence[str]) -> Recalled:
    return Recalled(
        time_ms=int(f[1]), region=f[2], group=f[3], topic=f[4], message_id=f[5], is_success=f[6] == "true"
    )  # fmt: skip


_READERS: Final[dict[str, Callable[[Sequence[str]], TraceRecord]]] = {
    "Pub": _published,
    "SubBefore": _consume_began,
    "SubAfter": _consume_ended,
    "EndTransaction": _transaction_ended,
    "Recall": _recalled,
}


# --- packing -------------------------------------------------------------------------------------------------------


class Pack(msgspec.Struct, frozen=True):
    """Records of one trace message, as many as it takes."""

    body: bytes
    keys: tuple[str, ...]
    records: int


def pack_records(
    records: Iterable[TraceRecord], *, records_max: int = PACK_RECORDS_MAX, bytes_max: int = PACK_BYTES_MAX
) -> list[Pack]:
    """In order, each pack within its limits. A message with more keys than a pack may have is found by its id alone."""
    packs: list[Pack] = []
    parts: list[bytes] = []
    keys: dict[str, None] = {}
    size = keys_size = 0
    for record in records:
        text, own_keys = encode_record(record), _keys_that_fit(record)
        own_size = sum(map(_key_bytes, own_keys))
        if parts and (
            len(parts) >= records_max or size + len(text) > bytes_max or keys_size + own_size > PACK_KEYS_BYTES_MAX
        ):
            packs.append(Pack(b"".join(parts), tuple(keys), len(parts)))
            parts, keys, size, keys_size = [], {}, 0, 0
        parts.append(text)
        keys |= dict.fromkeys(own_keys)
        size, keys_size = size + len(text), keys_size + own_size
    return [*packs, Pack(b"".join(parts), tuple(keys), len(parts))] if parts else packs


def _keys_that_fit(record: TraceRecord) -> list[str]:
    keys = keys_of(record)
    return keys if sum(map(_key_bytes, keys)) <= PACK_KEYS_BYTES_MAX else keys[:1]


def _key_bytes(key: str) -> int:
    return len(key.encode("utf-8", "replace")) + 1
