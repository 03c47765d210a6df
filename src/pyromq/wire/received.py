"""Commands as they arrive: a frame's header decoded in one step, the ext fields of requests as typed structs.

What a response's ext fields mean depends on the request that it answers, so the caller that waited for it names their
type: ``received.header_as(PullResponseHeader)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntFlag
from typing import Any, Final, Generic, TypeVar, cast

import msgspec

from pyromq.wire.binary_header import decode_binary_header
from pyromq.wire.codes import Language
from pyromq.wire.ext import JSON_ERRORS, HeaderReader, Truths, parse_ext, reader_of
from pyromq.wire.frame import Frame, SerializeType
from pyromq.wire.header_errors import HeaderFieldError, UndecodableHeaderError
from pyromq.wire.headers import REQUEST_HEADERS, Header
from pyromq.wire.headers.fields import Int32
from pyromq.wire.headers.producer import SendResponseHeader

_JSON: Final = SerializeType.JSON
_RESPONSE: Final = 1
_ONEWAY: Final = 2

H = TypeVar("H", bound=Header)
HeaderT = TypeVar("HeaderT")


class CommandFlag(IntFlag):
    RESPONSE = _RESPONSE
    ONEWAY = _ONEWAY  # the sender expects no response; Go and Node clients never set it


class Received(
    msgspec.Struct,
    Generic[HeaderT],
    gc=False,
    rename={
        "header": "extFields",
        "correlation_id": "opaque",
        "raw_language": "language",
        "body": "pyromq:body",  # both are set after decoding, whatever a peer may put there
        "frame": "pyromq:frame",
    },
):
    """A command that arrived: decoded from JSON in one step, therefore not frozen; treat it as if it were.

    ``header`` is the typed header of a request, None for a request whose code has none. Of a response it is the ext
    fields as they came, or typed already if it looks like that of a send: ``header_as`` makes something of them.
    """

    code: Int32
    header: HeaderT
    correlation_id: Int32 = 0
    flag: Int32 = 0
    version: Int32 = 0
    raw_language: Any = None
    remark: str | None = None
    body: bytes = b""
    frame: Frame = Frame(_JSON, b"")

    @property
    def is_response(self) -> bool:
        return self.flag & _RESPONSE != 0

    @property
    def is_oneway(self) -> bool:
        return self.flag & _ONEWAY != 0

    @property
    def language(self) -> Language | None:
        """None for a language that we do not know."""
        if isinstance(self.raw_language, str):
            return Language.__members__.get(self.raw_language)
        return _LANGUAGES.get(self.raw_language) if isinstance(self.raw_language, int) else None

    @property
    def serialize_type(self) -> SerializeType:
        return self.frame.serialize_type

    def ext(self) -> dict[str, str]:
        """All ext fields as strings, typed or not, as signatures need them; decoded anew at every call.

        Raises UndecodableHeaderError.
        """
        return ext_of(decode_untyped(self.frame).header)

    def header_as(self, header_type: type[H]) -> H:
        """The ext fields of a response, typed. Raises HeaderFieldError, UndecodableHeaderError."""
        raw = cast(Any, self.header)
        if type(raw) is header_type:
            return raw
        reader = reader_of(header_type)
        if isinstance(raw, Header):  # it looked like another response
            raw = decode_untyped(self.frame).header
        return reader.from_json(raw) if isinstance(raw, msgspec.Raw) else reader.from_ext(ext_of(raw))


class _ReceivedJson(Received[Any], gc=False, rename={"header": "extFields"}):
    header: msgspec.Raw = msgspec.Raw(b"{}")


_LANGUAGES: Final = {language.value: language for language in Language}
_decode_json = msgspec.json.Decoder(_ReceivedJson, strict=False).decode
_decode_sent_json = msgspec.json.Decoder(Received[SendResponseHeader], strict=False).decode
_SUCCESS: Final = b'{"code":0,"'
_SENT_FIELD: Final = b'"msgId":'
_readers: Final[dict[int, HeaderReader[Any]]] = {
    code.value: reader_of(header) for code, header in REQUEST_HEADERS.items()
}
HEADER_BYTES_DECODED_MAX: Final = 1280 * 1024  # twenty times what a message with the longest properties needs
_PEEKED_BYTES: Final = 12
_typed_decoders: Final[dict[bytes, tuple[int, Callable[[bytes], Received[Any]], Truths | None, HeaderReader[Any]]]] = {
    f'{{"code":{code.value},"'.encode()[:_PEEKED_BYTES]: (
        code.value,
        msgspec.json.Decoder(Received[header], strict=False).decode,  # type: ignore[valid-type]
        reader_of(header).truths,
        reader_of(header),
    )
    for code, header in REQUEST_HEADERS.items()
    if 10 <= code <= 999
}


def decode_received(frame: Frame) -> Received[Any]:
    """The command in a frame, its ext fields typed if it is a request that has some.

    Raises UndecodableHeaderError (close the connection) or HeaderFieldError (answer its ``received`` with an error).
    """
    # Fast path: all clients write the code first and as two or three digits, so twelve bytes say what type to decode
    # into. They are a hint only: what does not decode that way, or is something else after all, is decoded in steps.
    header = frame.header
    if header.startswith(_SUCCESS) and _SENT_FIELD in header and frame.serialize_type is _JSON:
        return _decode_sent(frame)
    typed = _typed_decoders.get(header[:_PEEKED_BYTES])
    if typed is not None and frame.serialize_type is _JSON:
        code, decode, truths, reader = typed
        try:
            received = decode(header)
        except JSON_ERRORS:
            return _decode_stepwise(frame)
        if received.code == code and not received.flag & _RESPONSE:
            found = received.header
            if truths is None or True not in truths(found) or reader.is_spelled_as_in_java(header, found):
                received.body, received.frame = frame.body, frame
                return received
    return _decode_stepwise(frame)


def _decode_sent(frame: Frame) -> Received[Any]:
    """Most likely the response to a send, of which there are the most: its ext fields typed at once."""
    if len(frame.header) > HEADER_BYTES_DECODED_MAX:
        return _decode_stepwise(frame)  # says what is wrong
    try:
        received = _decode_sent_json(frame.header)
    except JSON_ERRORS:
        return _decode_stepwise(frame)
    if not received.flag & _RESPONSE:
        return _decode_stepwise(frame)
    received.body, received.frame = frame.body, frame
    return received


def _decode_stepwise(frame: Frame) -> Received[Any]:
    received = decode_untyped(frame)
    if received.flag & _RESPONSE:
        return received
    raw, received.header = received.header, None
    reader = _readers.get(received.code)
    if reader is not None:
        try:
            received.header = reader.from_json(raw) if isinstance(raw, msgspec.Raw) else reader.from_ext(raw)
        except HeaderFieldError as error:
            error.received = received
            raise
    return received


def decode_untyped(frame: Frame) -> Received[Any]:
    """The command in a frame with its ext fields as they came. Raises UndecodableHeaderError."""
    if len(frame.header) > HEADER_BYTES_DECODED_MAX:  # a million small fields take a second
        text = f"a header of {len(frame.header)} bytes, at most {HEADER_BYTES_DECODED_MAX} are decoded field by field"
        raise UndecodableHeaderError(text)
    if frame.serialize_type is not _JSON:
        return _decode_binary(frame)
    try:
        received = _decode_json(frame.header)
    except JSON_ERRORS as error:
        text = f"a JSON header of {len(frame.header)} bytes cannot be decoded: {error}"
        raise UndecodableHeaderError(text) from error
    received.body, received.frame = frame.body, frame
    return received


def _decode_binary(frame: Frame) -> Received[Any]:
    code, language, version, correlation_id, flag, remark, ext = decode_binary_header(frame.header)
    return Received(code, ext, correlation_id, flag, version, language, remark, frame.body, frame)


def ext_of(raw: msgspec.Raw | dict[str, str]) -> dict[str, str]:
    """The string map of ext fields as they came. Raises UndecodableHeaderError."""
    return parse_ext(raw) if isinstance(raw, msgspec.Raw) else raw


def decode_header(ext: Mapping[str, str], header_type: type[H]) -> H:
    """The typed form of a map of ext fields. Raises HeaderFieldError."""
    return reader_of(header_type).from_ext(ext)
