"""Prepared messages and op records: how a transaction lies in the log.

    RMQ_SYS_TRANS_HALF_TOPIC     the message itself; where it belongs is in REAL_TOPIC and REAL_QID
    RMQ_SYS_TRANS_OP_HALF_TOPIC  tag ``d``, body ``12,15,``: these offsets of the other topic need no decision any more

A prepared message without an op record waits for its producer. Brokers before 5.0 wrote one offset without a comma.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

import msgspec

from pyromq.model.property_names import (
    CHECK_IMMUNITY,
    CHECK_TIMES,
    ITEM_END,
    PREPARED_OFFSET,
    PRODUCER_GROUP,
    REAL_QUEUE,
    REAL_TOPIC,
    TRANSACTION_ID,
    UNIQUE_KEY,
)
from pyromq.wire.properties import ITEM_END_BYTE
from pyromq.wire.property_text import item_key, number_of, value_of, without
from pyromq.wire.record import Record, has_checksum
from pyromq.wire.record_layout import CHECKSUM_BYTES, FIXED, HOST_BITS_AT, MAGIC_V1

ARRIVED: Final = "HALF_ARRIVED_MS"  # ours, in copies: when the first of them was stored
ENDED_TAG: Final = "d"
_TOPIC: Final = item_key(REAL_TOPIC)
_QUEUE: Final = ITEM_END + item_key(REAL_QUEUE)
_TRANSACTION: Final = ITEM_END + item_key(TRANSACTION_ID)
_home = re.compile(f"{ITEM_END}{_TOPIC}([^{ITEM_END}]+){_QUEUE}(\\d+){ITEM_END}(?={_TRANSACTION[1:]})".encode()).search
_CHECKED: Final = item_key(CHECK_TIMES)
_COPIED: Final = item_key(PREPARED_OFFSET)
_OFFSETS_PER_RECORD: Final = 200  # RocketMQ keeps such a body below 4096 bytes; an offset has at most 19 digits


class StoredPrepared(msgspec.Struct, frozen=True, gc=False):
    """A record of a prepared message; its properties without the checksum, which was that of this record."""

    offset: int
    position: int
    flag: int
    sys_flag: int
    born_ms: int
    born_host: bytes
    stored_ms: int
    store_host: bytes
    delivery_attempt: int
    body: bytes
    properties: bytes

    @property
    def text(self) -> str:
        return self.properties.decode(errors="surrogateescape")  # others may have stored anything


def read_stored(data: memoryview) -> StoredPrepared:
    """From the bytes of a record that are known to be one; ``decode_record`` is for all others, and takes longer."""
    raw = bytes(data)
    fixed = FIXED[raw[HOST_BITS_AT] >> 4 & 3]
    fields = fixed.unpack_from(raw)
    body_start, body_end = fixed.size, fixed.size + fields[14]
    start = body_end + (3 + raw[body_end] if fields[1] == MAGIC_V1 else 4 + (raw[body_end] << 8 | raw[body_end + 1]))
    properties = raw[start:-CHECKSUM_BYTES] if has_checksum(raw) else raw[start:]
    _, _, _, _, flag, offset, position, sys_flag, born_ms, born_host, stored_ms, store_host, attempt, _, _ = fields
    return StoredPrepared(
        offset,
        position,
        flag,
        sys_flag,
        born_ms,
        born_host,
        stored_ms,
        store_host,
        attempt,
        raw[body_start:body_end],
        properties,
    )


def has_item(properties: bytes, item: bytes) -> bool:
    """True when the stored properties have this item: name, 0x01, value, 0x02."""
    start = properties.find(item)
    while start > 0 and properties[start - 1] != ITEM_END_BYTE:
        start = properties.find(item, start + 1)
    return start >= 0


def with_home(text: str, topic: str, queue_id: int, unique_key: str) -> str:
    """Properties of a message that is prepared: closed, and with the place that ``take_home`` reads back."""
    end = ITEM_END if text and text[-1] != ITEM_END else ""
    return f"{text}{end}{_TOPIC}{topic}{_QUEUE}{queue_id}{_TRANSACTION}{unique_key}{ITEM_END}"


def take_home(properties: bytes) -> tuple[str, int, bytes]:
    """Topic and queue of a prepared message once it is committed, and its properties without them."""
    found = _home(properties)
    if found is None:  # another program wrote it, in another order
        text = properties.decode(errors="surrogateescape")
        rest = without(text, (REAL_TOPIC, REAL_QUEUE)).encode(errors="surrogateescape")
        return value_of(text, REAL_TOPIC), number_of(text, REAL_QUEUE) or 0, rest
    topic, queue_id = found.groups()
    return topic.decode(), int(queue_id), properties[: found.start() + 1] + properties[found.end() :]


class PreparedFacts(Protocol):
    """What is needed of a record to say what it waits for."""

    @property
    def offset(self) -> int: ...
    @property
    def position(self) -> int: ...
    @property
    def born_ms(self) -> int: ...
    @property
    def stored_ms(self) -> int: ...


class PreparedMessage(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A prepared message: it waits at ``offset`` and ``position``, it belongs to ``topic`` and ``queue_id``."""

    offset: int
    position: int
    topic: str
    queue_id: int
    group: str
    unique_key: str
    arrived_ms: int  # by the clock of the broker; of copies that others made the producer's clock has to do
    checks: int  # made before this copy of it was written
    immunity_ms: int | None  # its own patience before the first check; None: as the broker likes
    is_copy: bool  # of a prepared message that was written earlier


def read_prepared(record: PreparedFacts, text: str) -> PreparedMessage:
    """``text`` are the properties of the record; what a prepared message should have and has not is empty."""
    seconds, is_copy = number_of(text, CHECK_IMMUNITY), _CHECKED in text or _COPIED in text
    arrived_ms = min(record.born_ms, record.stored_ms) if is_copy else record.stored_ms
    return PreparedMessage(
        offset=record.offset,
        position=record.position,
        topic=value_of(text, REAL_TOPIC),
        queue_id=number_of(text, REAL_QUEUE) or 0,
        group=value_of(text, PRODUCER_GROUP),
        unique_key=value_of(text, UNIQUE_KEY),
        arrived_ms=number_of(text, ARRIVED) or arrived_ms,
        checks=max(0, number_of(text, CHECK_TIMES) or 0),
        immunity_ms=None if seconds is None or seconds < 0 else seconds * 1_000,
        is_copy=is_copy,
    )


def op_bodies(offsets: Sequence[int]) -> Iterator[tuple[Sequence[int], bytes]]:
    """Bodies of op records for these offsets of prepared messages, each with the offsets it holds."""
    for start in range(0, len(offsets), _OFFSETS_PER_RECORD):
        part = offsets[start : start + _OFFSETS_PER_RECORD]
        yield part, "".join([f"{offset}," for offset in part]).encode()


def op_offsets(body: bytes) -> list[int]:
    """Offsets of prepared messages in the body of an op record; what is not a number is passed over."""
    return [int(word) for word in body.split(b",") if word.isdigit()]


def unresolved(prepared: Iterable[Record], ops: Iterable[Record]) -> list[PreparedMessage]:
    """Prepared messages that no op record names, oldest first: what an operator wants to see."""
    ended = {offset for record in ops for offset in op_offsets(record.body)}
    waiting = [record for record in prepared if record.offset not in ended]
    return [read_prepared(record, record.properties.decode(errors="replace")) for record in waiting]
