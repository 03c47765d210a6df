"""Commands: what a frame's header and body mean.

A command is a request or, with the same correlation id (wire: opaque) and the response flag, the response to one. Its
header is JSON or binary and holds the code, language and version of its sender, a remark and the ext fields, a map of
strings. This module has the plain form of it, for whatever need not be fast, and the writers; ``wire.received`` has the
typed form, ``wire.fast`` has requests and responses of the hot paths.

Responses must hold nothing but strings in their ext fields (the Go client drops anything else): all writers see to
that. JSON is written compactly and in Java's order of keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from pyromq.errors import LocalProtocolError
from pyromq.wire.binary_header import encode_binary_header
from pyromq.wire.codes import VERSION, Language
from pyromq.wire.ext import header_to_ext, strings_of
from pyromq.wire.frame import FRAME_BYTES_MAX, Frame, SerializeType, encode_prefix, pack_prefix
from pyromq.wire.headers import Header
from pyromq.wire.received import CommandFlag, decode_untyped, ext_of

_JSON: Final = SerializeType.JSON
_RESPONSE: Final = CommandFlag.RESPONSE.value
_ONEWAY: Final = CommandFlag.ONEWAY.value
_PYTHON: Final = Language.PYTHON  # attributes of an enum are slow to look up

Ext = Header | Mapping[str, str] | None


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A command with its ext fields as a map of strings."""

    code: int
    correlation_id: int = 0
    flag: int = 0
    language: Language | None = Language.PYTHON  # None: one we do not know
    version: int = VERSION
    remark: str | None = None
    ext: dict[str, str] = {}
    body: bytes = b""
    serialize_type: SerializeType = _JSON

    @property
    def is_response(self) -> bool:
        return self.flag & _RESPONSE != 0

    @property
    def is_oneway(self) -> bool:
        return self.flag & _ONEWAY != 0


def decode_command(frame: Frame) -> Command:
    """The command in a frame with its ext fields as strings. Raises UndecodableHeaderError."""
    received = decode_untyped(frame)
    return Command(
        code=received.code,
        correlation_id=received.correlation_id,
        flag=received.flag,
        language=received.language,
        version=received.version,
        remark=received.remark,
        ext=ext_of(received.header),
        body=frame.body,
        serialize_type=frame.serialize_type,
    )


# --- encoding ------------------------------------------------------------------------------------------------------


class _JsonHeader(msgspec.Struct, omit_defaults=True, gc=False):
    """A header in Java's order of keys; what is None is left out."""

    code: int | None = None
    extFields: object = None  # noqa: N815 - a wire name
    flag: int | None = None
    language: str | None = None
    opaque: int | None = None
    remark: str | None = None
    serializeTypeCurrentRPC: str | None = None  # noqa: N815 - a wire name
    version: int | None = None


_encode_json = msgspec.json.Encoder().encode
_LANGUAGE_NAMES: Final[dict[Language | None, str | None]] = {None: None, **{each: each.name for each in Language}}
_LENGTH_MAX: Final = FRAME_BYTES_MAX - 4


def encode_response(
    code: int,
    correlation_id: int,
    header: Ext = None,
    *,
    body: bytes = b"",
    remark: str | None = None,
    serialize_type: SerializeType = _JSON,
) -> bytes:
    """The whole frame of a response. Raises LocalProtocolError."""
    encode_head = _encode_json_head if serialize_type is _JSON else _encode_binary_head
    head = encode_head(code, _PYTHON, VERSION, correlation_id, _RESPONSE, remark, header, len(body))
    return head + body if body else head


def encode_response_head(
    code: int,
    correlation_id: int,
    header: Ext = None,
    *,
    body_size: int,
    remark: str | None = None,
    serialize_type: SerializeType = _JSON,
) -> bytes:
    """A response's frame up to its body, for bodies that are sent from where they lie. Raises LocalProtocolError."""
    encode_head = _encode_json_head if serialize_type is _JSON else _encode_binary_head
    return encode_head(code, _PYTHON, VERSION, correlation_id, _RESPONSE, remark, header, body_size)


def encode_request(
    code: int,
    correlation_id: int,
    header: Ext = None,
    *,
    body: bytes = b"",
    oneway: bool = False,
    remark: str | None = None,
    language: Language = Language.PYTHON,
    serialize_type: SerializeType = _JSON,
) -> bytes:
    """The whole frame of a request. Raises LocalProtocolError, for POP codes in a binary header among others."""
    flag = _ONEWAY if oneway else 0
    encode_head = _encode_json_head if serialize_type is _JSON else _encode_binary_head
    head = encode_head(code, language, VERSION, correlation_id, flag, remark, header, len(body))
    return head + body if body else head


def encode_command(command: Command) -> bytes:
    """The whole frame of a command. Raises LocalProtocolError."""
    encode_head = _encode_json_head if command.serialize_type is _JSON else _encode_binary_head
    head = encode_head(
        command.code,
        command.language,
        command.version,
        command.correlation_id,
        command.flag,
        command.remark,
        command.ext or None,
        len(command.body),
    )
    return head + command.body


def _encode_json_head(
    code: int,
    language: Language | None,
    version: int,
    correlation_id: int,
    flag: int,
    remark: str | None,
    header: Ext,
    body_size: int,
) -> bytes:
    name = _LANGUAGE_NAMES[language]
    try:
        encoded = _encode_json(
            _JsonHeader(code, strings_of(header), flag, name, correlation_id, remark, "JSON", version)
        )
    except (UnicodeEncodeError, OverflowError) as error:
        raise LocalProtocolError(f"a JSON header cannot hold that: {error}") from error
    if not -0x80000000 <= correlation_id <= 0x7FFFFFFF:
        raise LocalProtocolError(f"correlation id {correlation_id} does not fit in 32 bits")
    header_size = len(encoded)
    length = 4 + header_size + body_size
    if length > _LENGTH_MAX:
        return encode_prefix(_JSON, encoded, body_size)  # says what is wrong
    return pack_prefix(length, header_size) + encoded


def _encode_binary_head(
    code: int,
    language: Language | None,
    version: int,
    correlation_id: int,
    flag: int,
    remark: str | None,
    header: Ext,
    body_size: int,
) -> bytes:
    number = Language.OTHER if language is None else language
    encoded = encode_binary_header(code, number, version, correlation_id, flag, remark, header_to_ext(header))
    return encode_prefix(SerializeType.ROCKETMQ, encoded, body_size)
