"""Fields of a send request, written out, and frames of sends to one queue: a template with places for what differs.

The plain form of the fields is ``header_to_ext`` of a ``SendV2Header``, at twice the cost. The plain form of a frame is
``command.encode_request`` with these fields, at three times the cost; the template is made of it, and the compiled core
fills the same one.
"""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from pyromq.compiled_core import SendFrame, core
from pyromq.model.queue import QueueId
from pyromq.wire.codes import RequestCode
from pyromq.wire.command import encode_request
from pyromq.wire.frame import FRAME_BYTES_MAX, HEADER_BYTES_MAX, PREFIX_BYTES, pack_prefix

_SEND: Final = int(RequestCode.SEND_MESSAGE_V2)
_LENGTH_MAX: Final = FRAME_BYTES_MAX - 4
_encode_json = msgspec.json.Encoder().encode
_SEND_BATCH: Final = int(RequestCode.SEND_BATCH_MESSAGE)


class SendFacts(Protocol):
    """What is needed of a message on its way out; ``topic`` as servers know it, ``properties`` as one text."""

    code: int
    topic: str
    properties: str
    born_ms: int
    flag: int
    sys_flag: int


def header_fields(
    message: SendFacts, queue: QueueId, group: str, template_topic: str, queue_nums: str
) -> dict[str, str]:
    """The fields of a SendV2Header as they go on the wire."""
    return {
        "a": group,
        "b": message.topic,
        "c": template_topic,
        "d": queue_nums,
        "e": str(queue.number),
        "f": str(message.sys_flag),
        "g": str(message.born_ms),
        "h": str(message.flag),
        "i": message.properties,
        "j": "0",
        "k": "false",
        "m": "true" if message.code == _SEND_BATCH else "false",
        "n": queue.broker,
    }


# --- frames ---------------------------------------------------------------------------------------------------------


class _Marked(msgspec.Struct):
    """A message whose numbers and properties are marks that nothing else in a header is."""

    code: int
    topic: str
    properties: str = ""
    born_ms: int = 0
    flag: int = 0
    sys_flag: int = 0


def send_frame(topic: str, queue: QueueId, group: str, template_topic: str, queue_nums: str) -> SendFrame:
    """``topic`` as servers know it. Raises LocalProtocolError for names that are no UTF-8."""
    pieces = _pieces(_Marked(_SEND, topic), queue, group, template_topic, queue_nums)
    return SendTemplate(pieces) if core is None else core.SendFrame(pieces)


class SendTemplate:
    """In pure Python. ``pieces`` stand before time, flag, properties and correlation id, and at the end."""

    __slots__ = ("_text",)

    def __init__(self, pieces: tuple[bytes, ...]) -> None:
        time, flag, properties, number, end = (piece.replace(b"%", b"%%") for piece in pieces)
        self._text = b"%b%%d%b%%d%b%%b%b%%d%b" % (time, flag, properties, number, end)

    def encode(self, correlation_id: int, born_ms: int, flag: int, properties: str, body: bytes) -> bytes | None:
        """The whole frame; None for one that is too large, and for properties that are no UTF-8."""
        try:
            header = self._text % (born_ms, flag, _encode_json(properties), correlation_id)
        except UnicodeEncodeError:
            return None
        size = len(header)
        length = 4 + size + len(body)
        if length > _LENGTH_MAX or size > HEADER_BYTES_MAX:
            return None
        return pack_prefix(length, size) + header + body


def _pieces(message: SendFacts, queue: QueueId, group: str, template_topic: str, queue_nums: str) -> tuple[bytes, ...]:
    """Quotes inside of values are escaped, so a name between quotes is found where it is one and nowhere else."""
    frame = encode_request(_SEND, 0, header_fields(message, queue, group, template_topic, queue_nums))
    before_time, rest = _cut(frame[PREFIX_BYTES:], b'"g":"', b"0")
    before_flag, rest = _cut(rest, b'"h":"', b"0")
    before_properties, rest = _cut(rest, b'"i":', b'""')
    before_number, end = _cut(rest, b'"opaque":', b"0")
    return before_time, before_flag, before_properties, before_number, end


def _cut(text: bytes, name: bytes, value: bytes) -> tuple[bytes, bytes]:
    """What stands before a value and behind it."""
    before, found, behind = text.partition(name + value)
    assert found, "the header has another form"
    return before + name, behind
