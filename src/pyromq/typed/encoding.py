"""Values as bodies: the type of a value chooses its format, unless the sender names one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from pyromq.errors import MessageRefusedError, quoted
from pyromq.typed.body_errors import one_line
from pyromq.typed.codecs import Codec, codec_of, same_format
from pyromq.typed.content_types import Format, format_of
from pyromq.typed.hooks import enc_hook
from pyromq.typed.kinds import RAW, is_protobuf, is_pydantic, name_of, schema_name
from pyromq.typed.protobuf import protobuf_codec, to_json

_json: Final = msgspec.json.Encoder(enc_hook=enc_hook).encode
_msgpack: Final = msgspec.msgpack.Encoder(enc_hook=enc_hook).encode
_ENCODE_ERRORS: Final = (TypeError, ValueError, LookupError, ArithmeticError, RecursionError, AttributeError)
_PLAIN: Final = frozenset((dict, list, tuple, int, float, bool, type(None)))
_JSON: Final = Format.JSON.value


class Encoded(NamedTuple):
    """A body, its content type, and the name of its schema; empty if it has none."""

    body: bytes
    content_type: str
    schema: str = ""


def encode(value: Any, *, content_type: str | None = None) -> Encoded:
    """The body of a value: bytes as they are, text as UTF-8, types with a codec by it, everything else as JSON.

    ``content_type="application/msgpack"`` writes what would be JSON as MessagePack; with bytes it says what they are.
    Raises MessageRefusedError for a value that cannot be written so.
    """
    kind = type(value)
    try:
        if content_type is not None:
            return _encode_as(value, kind, content_type)
        if kind in _PLAIN:
            return Encoded(_json(value), _JSON)
        if kind in RAW:
            return Encoded(bytes(value), Format.BYTES.value)
        if isinstance(value, str):
            return Encoded(value.encode(), Format.TEXT.value)
        if (codec := _codec(kind)) is not None:
            return Encoded(codec.encode(value), codec.content_type, codec.schema)
        return Encoded(_json_of(value, kind), _JSON, schema_name(kind))
    except _ENCODE_ERRORS as error:
        raise _refused(kind, error, content_type or _JSON) from error


def _encode_as(value: Any, kind: type[Any], content_type: str) -> Encoded:
    if not isinstance(content_type, str) or "/" not in content_type or not content_type.isprintable():
        raise MessageRefusedError(f"content_type={content_type!r}: write kind/name, as application/msgpack")
    if kind in RAW:
        return Encoded(bytes(value), content_type)
    codec = _codec(kind)
    if codec is not None and same_format(codec, content_type):
        return Encoded(codec.encode(value), content_type, codec.schema)
    format_ = format_of(content_type)
    write = _WRITERS.get(format_) if format_ is not None else None
    if write is None or (format_ is Format.TEXT and not isinstance(value, str)):
        text = f"{name_of(kind)} is not written as {quoted(content_type)}"
        raise MessageRefusedError(f"{text}: JSON and MessagePack are for all values, text for str, others for bytes")
    return Encoded(write(value, kind), content_type, schema_name(kind))


def _codec(kind: Any) -> Codec | None:
    return protobuf_codec(kind) if is_protobuf(kind) else codec_of(kind)


def _json_of(value: Any, kind: type[Any]) -> bytes:
    if is_pydantic(kind) and hasattr(value, "model_dump_json"):
        text: str = value.model_dump_json()
        return text.encode()
    return to_json(value) if is_protobuf(kind) else _json(value)


def _msgpack_of(value: Any, kind: type[Any]) -> bytes:
    return _msgpack(value)


def _text_of(value: Any, kind: type[Any]) -> bytes:
    return bytes(value.encode())


_WRITERS: Final[dict[Format, Callable[[Any, type[Any]], bytes]]] = {
    Format.JSON: _json_of,
    Format.MSGPACK: _msgpack_of,
    Format.TEXT: _text_of,
}


def _refused(kind: type[Any], error: Exception, content_type: str) -> MessageRefusedError:
    reason = "it is nested too deeply" if isinstance(error, RecursionError) else one_line(str(error), 300)
    text = f"a value of type {name_of(kind)} cannot be sent as {content_type}: {reason}"
    return MessageRefusedError(f"{text}; give it fields (dataclass, msgspec.Struct), or pyromq.typed.register a codec")
