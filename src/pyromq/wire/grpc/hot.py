"""The messages of sends, read and written by hand: what ``protobuf`` does for any message, in a third of the time.

``read_send`` takes what clients write, one message with fields that it knows, once each; for anything else it returns
None, and ``protobuf.decode`` says what it means, or what is wrong with it.
"""

from __future__ import annotations

from typing import Final

from pyromq.wire.grpc.codes import StatusCode
from pyromq.wire.grpc.definitions import Digest, GrpcMessage, ProtoTime, Resource, SystemProperties, status_of
from pyromq.wire.grpc.protobuf import ProtobufError, decode
from pyromq.wire.grpc.services import SendMessageRequest

_TEXTS: Final = {0x0A: "tag", 0x1A: "message_id", 0x42: "born_host"}
_NUMBERS: Final = {0x28: "body_encoding", 0x30: "message_type", 0x68: "queue_id"}
_KEY, _BORN, _DIGEST = 0x12, 0x3A, 0x22
_TRACE: Final = 0x92  # of two bytes, the second is 1
_SECONDS, _NANOS = 0x08, 0x10
_NAMESPACE, _NAME = 0x0A, 0x12
_TOPIC, _USER, _SYSTEM, _BODY = 0x0A, 0x12, 0x1A, 0x22
_MESSAGES: Final = 0x0A
_RESOURCES_MAX: Final = 1_024
_RESOURCE_BYTES_MAX: Final = 512  # no name that a broker knows is longer; strangers send others
_resources: dict[bytes, Resource] = {}  # by their bytes; nobody changes them


def read_send(data: bytes) -> SendMessageRequest | None:
    """The request, if it is as clients write it."""
    try:
        if data[0] != _MESSAGES:
            return None
        size, at = _size(data, 1)
        if at + size != len(data):
            return None  # several messages, or none that is whole
        message = _message(data, at)
    except (IndexError, UnicodeDecodeError, ProtobufError):
        return None
    return None if message is None else SendMessageRequest(messages=[message])


def _size(data: bytes, at: int) -> tuple[int, int]:
    """A number below 2^21, and where the next byte is; a larger one looks as if it were cut."""
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    second = data[at + 1]
    if second < 0x80:
        return byte & 0x7F | second << 7, at + 2
    third = data[at + 2]
    if third < 0x80:
        return byte & 0x7F | (second & 0x7F) << 7 | third << 14, at + 3
    raise IndexError


def _message(data: bytes, at: int) -> GrpcMessage | None:
    end, seen = len(data), 0
    topic = system = None
    user: dict[str, str] = {}
    body = b""
    while at < end:
        tag = data[at]
        size, at = _size(data, at + 1)
        stop = at + size
        if stop > end or (seen & 1 << (tag & 0x1F) and tag != _USER):
            return None
        seen |= 1 << (tag & 0x1F)
        if tag == _TOPIC:
            topic = _resource(data[at:stop])
        elif tag == _SYSTEM:
            system = _system(data[at:stop])
            if system is None:
                return None
        elif tag == _BODY:
            body = data[at:stop]
        elif tag == _USER:
            if not _entry(data[at:stop], user):
                return None
        else:
            return None
        at = stop
    if topic is None:
        return None
    return GrpcMessage(topic=topic, user_properties=user, system_properties=system, body=body)


def read_resource(data: bytes) -> Resource | None:
    """A topic or a group; None when it is not as clients write it."""
    try:
        return _resource(data)
    except (IndexError, UnicodeDecodeError):
        return None


def _resource(data: bytes) -> Resource | None:
    found = _resources.get(data)
    if found is not None:
        return found
    namespace, at, end = "", 0, len(data)
    if at < end and data[0] == _NAMESPACE:
        size, at = _size(data, 1)
        namespace, at = data[at : at + size].decode(), at + size
    if at >= end or data[at] != _NAME:
        return None
    size, at = _size(data, at + 1)
    if at + size != end:
        return None
    found = Resource(resource_namespace=namespace, name=data[at:end].decode())
    if end <= _RESOURCE_BYTES_MAX:
        if len(_resources) >= _RESOURCES_MAX:
            _resources.clear()
        _resources[data] = found
    return found


def _entry(data: bytes, user: dict[str, str]) -> bool:
    """Put an entry of a map, its key first, into the dictionary."""
    if data[0] != 0x0A:
        return False
    size, at = _size(data, 1)
    key, at = data[at : at + size].decode(), at + size
    if data[at] != 0x12:
        return False
    size, at = _size(data, at + 1)
    user[key] = data[at : at + size].decode()
    return at + size == len(data)


def _system(data: bytes) -> SystemProperties | None:
    at, end = 0, len(data)
    found = SystemProperties()
    seen = 0
    while at < end:
        tag = data[at]
        if tag >= 0x80:
            if tag != _TRACE or data[at + 1] != 1:
                return None
            at += 1
        value, at = _size(data, at + 1)
        if tag != _KEY:
            if seen & 1 << (tag >> 1):
                return None
            seen |= 1 << (tag >> 1)
        name = _NUMBERS.get(tag)
        if name is not None:
            setattr(found, name, value)
            continue
        stop = at + value
        if stop > end:
            return None
        name = _TEXTS.get(tag)
        if name is not None:
            setattr(found, name, data[at:stop].decode())
        elif tag == _KEY:
            found.keys.append(data[at:stop].decode())
        elif tag == _BORN:
            found.born_timestamp = _time(data[at:stop])
            if found.born_timestamp is None:
                return None
        elif tag == _DIGEST:
            found.body_digest = decode(Digest, data[at:stop])
        elif tag == _TRACE:
            found.trace_context = data[at:stop].decode()
        else:
            return None
        at = stop
    return found


def _time(data: bytes) -> ProtoTime | None:
    """Seconds, of five bytes today, and perhaps nanoseconds."""
    if len(data) < 6 or data[0] != _SECONDS or not data[4] & 0x80 or data[5] >= 0x80:
        return None
    for at in (1, 2, 3):
        if data[at] < 0x80:
            return None
    low = data[1] & 0x7F | (data[2] & 0x7F) << 7 | (data[3] & 0x7F) << 14
    seconds = low | (data[4] & 0x7F) << 21 | data[5] << 28
    if len(data) == 6:
        return ProtoTime(seconds=seconds)
    if data[6] != _NANOS:
        return None
    nanos = shift = 0
    for at in range(7, len(data)):
        byte = data[at]
        nanos |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return ProtoTime(seconds=seconds, nanos=nanos) if at + 1 == len(data) and shift <= 35 else None
    return None


# --- the response ---

STATUS_OK: Final = status_of(StatusCode.OK).encode()
_STATUS: Final = b"\x0a%c%b" % (len(STATUS_OK), STATUS_OK)


def sent_response(message_id: str, offset: int) -> bytes | None:
    """The response to one message that was stored, whose transaction id is its message id; None for a long one."""
    text = message_id.encode()
    size = len(text)
    if not 0 < size <= 40 or not 0 <= offset < 1 << 56:
        return None
    number = b""
    if offset:
        rest = bytearray(b" ")
        while offset >= 0x80:
            rest.append(offset & 0x7F | 0x80)
            offset >>= 7
        rest.append(offset)
        number = bytes(rest)
    entry = b"%b\x12%c%b\x1a%c%b%b" % (_STATUS, size, text, size, text, number)
    return b"%b\x12%c%b" % (_STATUS, len(entry), entry)
