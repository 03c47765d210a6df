"""Responses that leave a broker for every message, made from templates.

The plain form is ``command.encode_response``; what a template cannot hold goes there. A template is that form with
places for what differs between responses, so it follows from the typed header.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from pyromq.wire.codes import ResponseCode
from pyromq.wire.command import encode_response
from pyromq.wire.frame import HEADER_BYTES_MAX, PREFIX_BYTES, SerializeType, pack_prefix, unpack_prefix
from pyromq.wire.headers.consumer import PullResponseHeader
from pyromq.wire.headers.pop import PopResponseHeader
from pyromq.wire.headers.producer import SendHeader, SendResponseHeader
from pyromq.wire.received import CommandFlag, Received

_JSON: Final = SerializeType.JSON
_ONEWAY: Final = int(CommandFlag.ONEWAY)
_SUCCESS_CODE: Final = ResponseCode.SUCCESS
_NUMBER: Final = 123_454_321  # stands in a template where a number will be
_SUCCESS: Final = encode_response(_SUCCESS_CODE, _NUMBER)[PREFIX_BYTES:].replace(b"%d" % _NUMBER, b"%d")
_SUCCESS_HEAD: Final = b'{"code":0,'
_BINARY_SUCCESS: Final = bytes(2)  # has no remark
_SUCCESS_TAIL: Final = _SUCCESS.partition(b"%d")[2]  # behind the correlation id; a remark stands before it


def success(request: Received[Any]) -> bytes:
    """The frame that says yes and nothing else; empty for a one-way request."""
    if request.flag & _ONEWAY:
        return b""
    if request.serialize_type is _JSON:
        header = _SUCCESS % request.correlation_id
        return pack_prefix(len(header) + 4, len(header)) + header
    return encode_response(_SUCCESS_CODE, request.correlation_id, serialize_type=request.serialize_type)


def success_pieces() -> tuple[bytes, bytes]:
    """The header of ``success`` around the correlation id, for the compiled core."""
    before, _, behind = _SUCCESS.partition(b"%d")
    return before, behind


def with_status(responses: bytes, code: int, remark: str) -> Iterator[bytes]:
    """Rewrite responses under another code and with a remark: what stands between is carried over unread.

    They were made here or by the compiled core, say success and have no body. Others stay as they are.
    """
    for start, header, end in _headers(responses):
        if responses[start + 4] and header.startswith(_BINARY_SUCCESS):  # code, eleven bytes, remark, fields
            text = remark.encode()
            parts = (code.to_bytes(2, "big"), header[2:13], len(text).to_bytes(4, "big"), text, header[17:])
        elif header.startswith(_SUCCESS_HEAD):
            facts = header[len(_SUCCESS_HEAD) : -len(_SUCCESS_TAIL)]
            parts = (b'{"code":%d,' % code, facts, b',"remark":', msgspec.json.encode(remark), _SUCCESS_TAIL)
        else:
            yield responses[start:end]
            continue
        text = b"".join(parts)
        yield pack_prefix(len(text) + 4, responses[start + 4] << 24 | len(text)) + text


def correlation_ids(responses: bytes) -> Iterator[int]:
    """Whose responses these are; ``with_status`` says which ones it knows."""
    for start, header, _ in _headers(responses):
        if responses[start + 4]:
            yield int.from_bytes(header[5:9], "big", signed=True)
        else:
            yield int(header[: -len(_SUCCESS_TAIL)].rpartition(b":")[2])


def _headers(responses: bytes) -> Iterator[tuple[int, bytes, int]]:
    """Where each frame begins, its header, and where it ends."""
    start = 0
    while start < len(responses):
        length, word = unpack_prefix(responses, start)
        end = start + 4 + length
        yield start, responses[start + PREFIX_BYTES : start + PREFIX_BYTES + (word & HEADER_BYTES_MAX)], end
        start = end


def found_messages_head(correlation_id: int, next_offset: int, first: int, end: int, body_size: int) -> bytes:
    """The frame of a response to a pull that found messages, up to its body, as JSON and without flags."""
    header = _FOUND % (next_offset, first, end, correlation_id)
    size = len(header)
    return pack_prefix(size + 4 + body_size, size) + header


def _found_template() -> bytes:
    header = PullResponseHeader(
        suggest_which_broker_id=0, next_begin_offset=111_111_113, min_offset=111_111_112, max_offset=111_111_111
    )
    text = encode_response(_SUCCESS_CODE, _NUMBER, header, remark="FOUND")[PREFIX_BYTES:]
    numbers = [b"%d" % number for number in (111_111_113, 111_111_112, 111_111_111, _NUMBER)]
    assert sorted(numbers, key=text.index) == numbers, "they stand in another order"
    for number in numbers:
        text = text.replace(number, b"%d")
    return text


_FOUND: Final = _found_template()


def found_messages_pieces() -> tuple[bytes, ...]:
    """The header of ``found_messages_head`` around its four numbers, for the compiled core."""
    return tuple(_FOUND.split(b"%d"))


def pop_response_pieces() -> tuple[bytes, ...]:
    """The header of a response to a pop around its six fields and the correlation id, for the compiled core."""
    texts = str(_NUMBER)
    header = PopResponseHeader(
        pop_time=_NUMBER,
        invisible_time=_NUMBER,
        revive_qid=_NUMBER,
        rest_num=_NUMBER,
        start_offset_info=texts,
        msg_offset_info=texts,
    )
    text = encode_response(_SUCCESS_CODE, _NUMBER, header, remark="FOUND")[PREFIX_BYTES:]
    return tuple(text.split(b"%d" % _NUMBER))


class SendResponses:
    """Responses to sends of one broker: its host (hexadecimal, as in message ids) and region are in all of them."""

    def __init__(self, host_hex: str, region: str) -> None:
        self._host_hex = host_hex
        self._region = region
        self._template = _send_template(host_hex, region)
        self._batch_template = _batch_template(region)

    def pieces(self, on_disk: str) -> tuple[bytes, ...]:
        """The text of a response around what differs between responses, for the compiled core.

        Before the message ids, the host in each of them, before queue id, offset and unique key, behind the key, in
        place of the key when there is none, and behind the correlation id.
        """
        mark, number = "\x00", 111_111_111
        found = SendResponseHeader(
            msg_id=mark,
            queue_id=number,
            queue_offset=number,
            transaction_id=mark,
            region=self._region,
            trace_on="true",
            on_disk=on_disk,
        )
        shown, digits = b"\\u0000", b"%d" % number
        text = encode_response(_SUCCESS_CODE, _NUMBER, found)[PREFIX_BYTES:]
        bare = encode_response(_SUCCESS_CODE, _NUMBER, msgspec.structs.replace(found, transaction_id=None))[
            PREFIX_BYTES:
        ]
        before_ids, rest = text.split(shown, 1)
        before_queue, before_offset, rest = rest.split(digits, 2)
        before_key, rest = rest.split(shown, 1)
        behind_key, end = rest.rsplit(b"%d" % _NUMBER, 1)
        without_key = bare.split(digits, 2)[2].rsplit(b"%d" % _NUMBER, 1)[0]
        host = self._host_hex.encode()
        return before_ids, host, before_queue, before_offset, before_key, behind_key, without_key, end

    def encode(
        self,
        request: Received[SendHeader],
        queue_id: int,
        position: int,
        offset: int,
        unique_key: str,
        on_disk: str,
        recall_handle: str | None,
    ) -> bytes:
        """The response to a message that was stored there. ``on_disk`` is "true" or "false"."""
        key = unique_key.encode()
        if recall_handle is None and key.isalnum() and request.frame.serialize_type is _JSON:
            header = self._template % (position, queue_id, offset, key, on_disk.encode(), request.correlation_id)
            size = len(header)
            return pack_prefix(size + 4, size) + header
        message_id = f"{self._host_hex}{position:016X}"
        return self._encode_plain(request, queue_id, offset, message_id, unique_key, on_disk, recall_handle)

    def encode_batch(
        self,
        request: Received[SendHeader],
        queue_id: int,
        positions: list[int],
        offset: int,
        unique_key: str | None,
        on_disk: str,
    ) -> bytes:
        """The response to a batch: an id for each of its messages, the offset of the first."""
        ids = self._message_ids(positions)
        if unique_key is None and request.frame.serialize_type is _JSON:
            facts = (ids.encode(), queue_id, offset, on_disk.encode(), request.correlation_id)
            header = self._batch_template % facts
            size = len(header)
            return pack_prefix(size + 4, size) + header
        return self._encode_plain(request, queue_id, offset, ids, unique_key, on_disk, None)

    def _message_ids(self, positions: list[int]) -> str:
        """Host and 16 digits of each, with commas between: all digits at once."""
        digits = struct.pack(f">{len(positions)}Q", *positions).hex(",", 8).upper()
        return self._host_hex + digits.replace(",", f",{self._host_hex}")

    def _encode_plain(
        self,
        request: Received[SendHeader],
        queue_id: int,
        offset: int,
        message_id: str,
        unique_key: str | None,
        on_disk: str,
        recall_handle: str | None,
    ) -> bytes:
        header = SendResponseHeader(
            msg_id=message_id,
            queue_id=queue_id,
            queue_offset=offset,
            transaction_id=unique_key,
            recall_handle=recall_handle,
            region=self._region,
            trace_on="true",
            on_disk=on_disk,
        )
        return encode_response(_SUCCESS_CODE, request.correlation_id, header, serialize_type=request.serialize_type)


def _send_template(host_hex: str, region: str) -> bytes:
    """For position, queue id, offset, unique key, ``on_disk`` and correlation id, in this order."""
    text = _response_text(f"{host_hex}<position>", "<unique key>")
    return _with_places(text, (("<position>", "%016X"), ("<unique key>", "%b")), region)


def _batch_template(region: str) -> bytes:
    """For message ids, queue id, offset, ``on_disk`` and correlation id, in this order; without a unique key."""
    return _with_places(_response_text("<ids>", None), (("<ids>", "%b"),), region)


def _response_text(message_id: str, unique_key: str | None) -> str:
    header = SendResponseHeader(
        msg_id=message_id,
        queue_id=111_111_111,
        queue_offset=222_222_222,
        transaction_id=unique_key,
        region="<region>",
        trace_on="true",
        on_disk="<on disk>",
    )
    return encode_response(_SUCCESS_CODE, _NUMBER, header)[PREFIX_BYTES:].decode()


def _with_places(text: str, own: tuple[tuple[str, str], ...], region: str) -> bytes:
    for there, place in (
        *own,
        ("111111111", "%d"),
        ("222222222", "%d"),
        ("<on disk>", "%b"),
        (f"{_NUMBER}", "%d"),
        ('"<region>"', msgspec.json.encode(region).decode().replace("%", "%%")),  # the last: it may hold anything
    ):
        text = text.replace(there, place)
    return text.encode()
