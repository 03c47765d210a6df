"""A message as it rests in the commit log and travels in pull responses: the same bytes.

``record_layout`` has the layout. Records that end in a checksum were written by PyroMQ or by Apache RocketMQ (5.2 on,
where it is asked to); older readers take it for an ordinary property. With it every flipped bit of a record is found,
and whatever else leaves its size alone and happens before the checksum; without it only what is in the body and in
lengths.

This is the plain form. The commit log has ``encode_record`` unrolled in ``stage``, ``fast`` has what reads many records
or few fields of them; tests hold each against this module.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from typing import Any

import msgspec

from pyromq.checksum import CRC_MASK, crc32
from pyromq.errors import CorruptRecordError, MessageTooLargeError, PropertiesTooLargeError
from pyromq.wire.flags import TRANSACTION_MASK, SysFlag
from pyromq.wire.properties import PROPERTIES_BYTES_MAX, closed_properties
from pyromq.wire.record_layout import (
    ANY_V6,
    ATTEMPT_AT,
    BLANK_BYTES,
    BORN_V6,
    CHECKSUM_BACKWARDS,
    CHECKSUM_BYTES,
    CHECKSUM_END,
    CHECKSUM_NAME,
    FIXED,
    HOST_BITS_AT,
    HOST_V4_BYTES,
    HOST_V6_BYTES,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    POSITION_AT,
    PREFIX,
    RECORD_OVERHEAD_BYTES,
    STORE_V6,
    SYS_FLAG_AT,
    TOPIC_BYTES_MAX,
    TOPIC_V1_BYTES_MAX,
    V6_MORE_BYTES,
)

_FIXED_V4 = FIXED[0]
_PROPERTIES_LENGTH = struct.Struct(">H")
_LONG_TOPIC_LENGTH = struct.Struct(">H")
_CHECKSUM_FRAME = int.from_bytes(CHECKSUM_NAME + CHECKSUM_END, "big")  # what surrounds the digits
_RESEMBLING_BITS = 3
_TRANSACTION, _COMMIT = TRANSACTION_MASK, int(SysFlag.COMMIT)  # plain ints: IntFlag arithmetic is too slow per message
_MAGICS = tuple(magic.to_bytes(4, "big") for magic in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK))
_is_log_magic = re.compile(b"|".join(map(re.escape, _MAGICS[:2]))).finditer
_SEARCH_BYTES = 1 << 20


class Draft(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A message that wants to become a record: everything but its address and store time."""

    topic: str
    queue_id: int
    body: bytes
    properties: bytes = b""
    flag: int = 0
    sys_flag: int = 0
    born_ms: int = 0
    born_host: bytes = b"\x7f\0\0\1\0\0\0\0"
    delivery_attempt: int = 0
    prepared_position: int = 0


class Record(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A record with every field read; ``properties`` stay in their stored form."""

    position: int
    size: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    offset: int
    sys_flag: int
    born_ms: int
    born_host: bytes
    stored_ms: int
    store_host: bytes
    delivery_attempt: int
    prepared_position: int
    topic: bytes
    properties: bytes
    body: bytes


class RecordFound(msgspec.Struct, frozen=True, gc=False):
    """A whole, undamaged record: what dispatch needs of it."""

    size: int
    queue_id: int
    offset: int
    sys_flag: int
    stored_ms: int
    topic: bytes
    properties: bytes


class SegmentEnd(msgspec.Struct, frozen=True, gc=False):
    """The blank mark: the log goes on in the next segment."""


class NothingWritten(msgspec.Struct, frozen=True, gc=False):
    """Zeros where the next record would start: the log ends here."""


class Damage(msgspec.Struct, frozen=True, gc=False):
    """Bytes that are neither a record nor an end; a crash tears the tail, a bad disk flips bits anywhere."""

    reason: str


Scanned = RecordFound | SegmentEnd | NothingWritten | Damage


def topic_field(topic: bytes) -> bytes:
    """Topic with its length in front, as V1 or, for long names, V2 has it."""
    if len(topic) <= TOPIC_V1_BYTES_MAX:
        return bytes((len(topic),)) + topic
    if len(topic) > TOPIC_BYTES_MAX:
        raise MessageTooLargeError(what="topic", size_bytes=len(topic), bytes_max=TOPIC_BYTES_MAX)
    return _LONG_TOPIC_LENGTH.pack(len(topic)) + topic


def record_magic(topic: bytes) -> int:
    return MAGIC_V1 if len(topic) <= TOPIC_V1_BYTES_MAX else MAGIC_V2


def encode_record(
    draft: Draft, *, offset: int, position: int, stored_ms: int, store_host: bytes, checksum: bool = True
) -> bytes:
    """The bytes of one record. The commit log has the same steps unrolled for speed; a test holds them together."""
    assert {len(draft.born_host), len(store_host)} <= {HOST_V4_BYTES, HOST_V6_BYTES}, "a host has 8 or 20 bytes"
    topic = draft.topic.encode()
    sys_flag = draft.sys_flag & ~ANY_V6
    sys_flag |= BORN_V6 if len(draft.born_host) == HOST_V6_BYTES else 0
    sys_flag |= STORE_V6 if len(store_host) == HOST_V6_BYTES else 0
    properties = with_checksum_room(draft.properties) if checksum else plain_properties(draft.properties)
    properties_bytes = len(properties) + (CHECKSUM_BYTES if checksum else 0)
    if properties_bytes > PROPERTIES_BYTES_MAX:
        raise PropertiesTooLargeError(what="properties", size_bytes=properties_bytes, bytes_max=PROPERTIES_BYTES_MAX)
    tail = topic_field(topic) + _PROPERTIES_LENGTH.pack(properties_bytes) + properties
    fixed = FIXED[sys_flag >> 4 & 3]
    total = fixed.size + len(draft.body) + len(tail) + (CHECKSUM_BYTES if checksum else 0)
    head = fixed.pack(
        total,
        record_magic(topic),
        crc32(draft.body) & CRC_MASK,
        draft.queue_id,
        draft.flag,
        offset,
        position,
        sys_flag,
        draft.born_ms,
        draft.born_host,
        stored_ms,
        store_host,
        draft.delivery_attempt,
        draft.prepared_position,
        len(draft.body),
    )
    record = head + draft.body + tail
    return record + checksum_property(crc32(record)) if checksum else record


def with_checksum_room(properties: bytes) -> bytes:
    """Properties that a checksum can follow: closed, and without a checksum of an earlier life."""
    if CHECKSUM_NAME in properties:
        properties = _without_checksum(properties)
    return closed_properties(properties)


def plain_properties(properties: bytes) -> bytes:
    """Properties that no checksum follows: their end must not be taken for one, nor for unwritten zeros."""
    if CHECKSUM_NAME in properties:
        properties = _without_checksum(properties)
    if _resembles_checksum(properties[-CHECKSUM_BYTES:]):  # shift it by a byte: the last 0x02 is optional
        return properties[:-1] if properties.endswith(b"\x02") else properties + b"\x02"
    return properties + b"\x02" if properties.endswith(b"\0") else properties


def _without_checksum(properties: bytes) -> bytes:
    return b"\x02".join([item for item in properties.split(b"\x02") if not item.startswith(CHECKSUM_NAME)])


def has_checksum(properties: bytes) -> bool:
    """True when stored properties end in a checksum."""
    return properties[-CHECKSUM_BYTES:].startswith(CHECKSUM_NAME)


def checksum_property(crc: int) -> bytes:
    """The checksum as the 20 last bytes of a record."""
    return (CHECKSUM_BACKWARDS % (crc & CRC_MASK))[::-1]


def checksum_properties(crcs: Iterable[int]) -> list[bytes]:
    """Compute ``checksum_property`` of many records."""
    return [(CHECKSUM_BACKWARDS % (crc & CRC_MASK))[::-1] for crc in crcs]


def scan_record(
    data: memoryview, start: int, position: int, *, verify: bool = True, may_be_torn: bool = False
) -> Scanned:
    """What lies at ``start`` of a segment, whose byte ``start`` has log address ``position``.

    Nothing is believed: lengths must add up, the record must know its own address, checksums must match. A record
    without checksum that ``may_be_torn`` must not end in zeros, unless another record follows it.
    """
    end = len(data)
    if end - start < BLANK_BYTES:
        return Damage("fewer than 8 bytes left in the segment")
    total, magic = PREFIX.unpack_from(data, start)
    if magic == MAGIC_BLANK:
        return SegmentEnd() if total == end - start else Damage(f"blank mark of {total} bytes, {end - start} are left")
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        return NothingWritten() if total == magic == 0 else Damage(f"unknown magic {magic:#010x}")
    if total > end - start or total < RECORD_OVERHEAD_BYTES:
        return Damage(f"impossible size {total}")
    sys_flag = int.from_bytes(data[start + SYS_FLAG_AT : start + SYS_FLAG_AT + 4], "big")
    fixed = FIXED[sys_flag >> 4 & 3]
    if total < fixed.size + 3:
        return Damage(f"impossible size {total}")
    fields = fixed.unpack_from(data, start)
    crc, queue_id, offset, own_position, stored_ms, body_bytes = *fields[2:4], *fields[5:7], fields[10], fields[14]
    if own_position != position:
        return Damage(f"it says it belongs to position {own_position}")
    body_start = start + fixed.size
    topic_start = body_start + body_bytes + (1 if magic == MAGIC_V1 else 2)
    record_end = start + total
    if body_bytes < 0 or topic_start + 2 > record_end:
        return Damage(f"impossible body length {body_bytes}")
    topic_bytes = data[topic_start - 1]
    if magic == MAGIC_V2:
        topic_bytes |= data[topic_start - 2] << 8
    properties_start = topic_start + topic_bytes + 2
    if topic_bytes == 0 or properties_start > record_end:
        return Damage(f"impossible topic length {topic_bytes}")
    properties_bytes = data[properties_start - 2] << 8 | data[properties_start - 1]
    if properties_start + properties_bytes != record_end:
        return Damage(f"its parts do not add up to its size {total}")
    properties = bytes(data[properties_start:record_end])
    if verify:
        body = data[body_start : body_start + body_bytes]
        if reason := _checksum_damage(data[start:record_end], body, crc, properties):
            return Damage(reason)
        torn = may_be_torn and properties.endswith(b"\0")
        if torn and bytes(data[record_end + 4 : record_end + 8]) not in _MAGICS:
            return Damage("its properties end in zeros: their end was never written")
    topic = bytes(data[topic_start : topic_start + topic_bytes])
    return RecordFound(total, queue_id, offset, sys_flag, stored_ms, topic, properties)


def _checksum_damage(record: memoryview, body: memoryview, body_crc: int, properties: bytes) -> str:
    """Why a record whose lengths add up is not what was written; empty when it is."""
    trailer = properties[-CHECKSUM_BYTES:]
    if _resembles_checksum(trailer):
        return "" if trailer == checksum_property(crc32(record[:-CHECKSUM_BYTES])) else "its checksum does not match"
    if body and crc32(body) & CRC_MASK != body_crc:
        return "the CRC of its body does not match"
    return ""


def _resembles_checksum(trailer: bytes) -> bool:
    """True for a checksum property, also when a few bits around its digits flipped: no other one comes that close."""
    if len(trailer) < CHECKSUM_BYTES or trailer.startswith(CHECKSUM_NAME):
        return len(trailer) == CHECKSUM_BYTES
    frame = int.from_bytes(trailer[: len(CHECKSUM_NAME)] + trailer[-1:], "big")
    return (frame ^ _CHECKSUM_FRAME).bit_count() <= _RESEMBLING_BITS


def decode_record(data: memoryview | bytes, start: int = 0) -> Record:
    """All fields of a record that came over the wire or was scanned before; raises CorruptRecordError."""
    view = memoryview(data)
    if (plain := _decode_plain(view, start)) is not None:
        return plain
    position = -1
    if len(view) - start >= SYS_FLAG_AT:
        position = int.from_bytes(view[start + POSITION_AT : start + SYS_FLAG_AT], "big", signed=True)
    found = scan_record(view, start, position)
    if not isinstance(found, RecordFound):
        reason = found.reason if isinstance(found, Damage) else "there is no record"
        raise CorruptRecordError(position=position, reason=reason)
    fixed = FIXED[found.sys_flag >> 4 & 3]
    fields, body_start = fixed.unpack_from(view, start), start + fixed.size
    return _record(fields, found.topic, found.properties, bytes(view[body_start : body_start + fields[14]]))


def _decode_plain(view: memoryview, start: int) -> Record | None:
    """Fast path for the usual record (V1, IPv4, with checksum, undamaged); None is for the slow path to explain."""
    if len(view) - start < RECORD_OVERHEAD_BYTES + CHECKSUM_BYTES:
        return None
    fields = _FIXED_V4.unpack_from(view, start)
    topic_start, record_end = start + _FIXED_V4.size + fields[14] + 1, start + fields[0]
    if fields[1] != MAGIC_V1 or fields[7] & ANY_V6 or fields[14] < 0 or record_end > len(view):
        return None
    if topic_start + 3 > record_end:
        return None
    topic_end = topic_start + view[topic_start - 1]
    properties = bytes(view[topic_end + 2 : record_end])
    if len(properties) < CHECKSUM_BYTES or len(properties) != view[topic_end] << 8 | view[topic_end + 1]:
        return None
    if topic_end == topic_start or properties[-CHECKSUM_BYTES:] != checksum_property(
        crc32(view[start : record_end - CHECKSUM_BYTES])
    ):
        return None
    body = bytes(view[start + _FIXED_V4.size : topic_start - 1])
    return _record(fields, bytes(view[topic_start:topic_end]), properties, body)


def _record(fields: tuple[Any, ...], topic: bytes, properties: bytes, body: bytes) -> Record:
    return Record(
        position=fields[6],
        size=fields[0],
        magic=fields[1],
        body_crc=fields[2],
        queue_id=fields[3],
        flag=fields[4],
        offset=fields[5],
        sys_flag=fields[7],
        born_ms=fields[8],
        born_host=fields[9],
        stored_ms=fields[10],
        store_host=fields[11],
        delivery_attempt=fields[12],
        prepared_position=fields[13],
        topic=topic,
        properties=properties,
        body=body,
    )


def split_records(data: bytes) -> list[Record]:
    """All records of a pull response, in order."""
    records, start, view = [], 0, memoryview(data)
    while start < len(view):
        records.append(decode_record(view, start))
        start += records[-1].size
    return records


def with_attempts(record: memoryview | bytes, attempts: int) -> bytes:
    """A record of a message that is delivered for the n-th time, for the wire; the field counts from 0."""
    copy = bytearray(record)
    hosts = copy[HOST_BITS_AT] >> 4 & 3
    at = ATTEMPT_AT + V6_MORE_BYTES * hosts.bit_count()
    copy[at : at + 4] = (attempts - 1).to_bytes(4, "big")
    if has_checksum(bytes(copy[-CHECKSUM_BYTES:])):
        copy[-CHECKSUM_BYTES:] = checksum_property(crc32(bytes(copy[:-CHECKSUM_BYTES])))
    return bytes(copy)


def find_record_after(data: memoryview, start: int, position: int) -> int | None:
    """Where in ``data`` the next undamaged record begins behind damage at ``start``; None when there is none."""
    for begin in range(start + 4, len(data), _SEARCH_BYTES):
        window = bytes(data[begin : begin + _SEARCH_BYTES + 3])
        for match in _is_log_magic(window):
            candidate = begin + match.start() - 4
            if isinstance(scan_record(data, candidate, position + candidate - start), RecordFound):
                return candidate
    return None


def is_visible(sys_flag: int) -> bool:
    """True for what consume queues list: ordinary and committed messages, not prepared or rolled-back ones."""
    return sys_flag & _TRANSACTION in (0, _COMMIT)


def is_indexed(sys_flag: int) -> bool:
    """True for what the key index lists: everything but rollbacks."""
    return sys_flag & _TRANSACTION != _TRANSACTION
