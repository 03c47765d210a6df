"""Decoders: one for an annotation, made once; the content type of a message chooses among its formats.

body, properties ──▶ content_type? ──none──▶ the annotation's own format ──▶ value
                         │ known: that format           │ does not decode, another format
                         └──────────────────────────────┴──▶ BodyError: field, expected type, how the body begins
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, Protocol, TypeVar, overload

import msgspec

from pyromq.errors import ConfigError
from pyromq.typed.body_errors import body_error, raise_other_format
from pyromq.typed.codecs import DATA_ERRORS, Codec, codec_of, on_change, same_format
from pyromq.typed.content_types import CONTENT_TYPE, SCHEMA, Format, PropertySource, format_of
from pyromq.typed.hooks import dec_hook
from pyromq.typed.kinds import RAW, is_protobuf, is_pydantic, members, name_of, parts, without_annotated, without_none
from pyromq.typed.protobuf import from_json, protobuf_codec

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Decode = Callable[[bytes], Any]

DECODERS_MAX: Final = 1_024  # of different annotations, kept
_WORDS: Final = {
    Format.JSON: "JSON",
    Format.MSGPACK: "MessagePack",
    Format.TEXT: "text",
    Format.BYTES: "bytes",
    Format.AVRO: "Avro",
    Format.PROTOBUF: "Protobuf",
}


class Decoder(Protocol[T_co]):
    """``decoder(body, properties)``: the value, or BodyError. ``properties`` is a dict, or the message itself."""

    def __call__(self, body: bytes, properties: PropertySource, /) -> T_co: ...


@overload
def decoder_for(annotation: type[T]) -> Decoder[T]: ...
@overload
def decoder_for(annotation: Any) -> Decoder[Any]: ...
def decoder_for(annotation: Any) -> Decoder[Any]:
    """Makes values of this type from bodies. Raises ConfigError for a type that no format is read as."""
    try:
        return _kept_decoder(annotation)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
        return _made_decoder(annotation)


def _made_decoder(annotation: Any) -> Decoder[Any]:
    plain = without_annotated(annotation)
    if plain in RAW:
        return _raw_decoder(plain)
    single = without_none(annotation)
    if is_protobuf(single):
        return _codec_decoder(annotation, protobuf_codec(single), {Format.JSON: lambda body: from_json(single, body)})
    if (codec := codec_of(single)) is not None:
        return _codec_decoder(annotation, codec, _structured(annotation, tolerant=True))
    _refuse_inside(annotation)
    formats = _structured(annotation)
    kinds = members(annotation)
    if Any in kinds or str in kinds:
        formats[Format.TEXT] = _text
    if Any in kinds or any(kind in RAW for kind in kinds):
        formats[Format.BYTES] = bytes
    usual = Format.TEXT if single is str else Format.JSON
    return _format_decoder(annotation, formats, formats[usual])


_kept_decoder = lru_cache(DECODERS_MAX)(_made_decoder)
on_change(_kept_decoder.cache_clear)


def _refuse_inside(annotation: Any) -> None:
    for part in parts(annotation):
        if is_protobuf(part):
            raise ConfigError(f"{name_of(annotation)}: a Protobuf message is a body of its own, alone or beside None")


# --- the kinds of decoders -----------------------------------------------------------------------------------------


def _raw_decoder(kind: type[Any]) -> Decoder[Any]:
    def decode_raw(body: bytes, properties: PropertySource, /) -> Any:
        return body if kind is bytes else kind(body)

    return decode_raw


def _format_decoder(annotation: Any, formats: dict[Format, Decode], usual: Decode) -> Decoder[Any]:
    by_name: dict[str | None, Decode] = {format_.value: decode for format_, decode in formats.items()}
    by_name[None] = usual
    words = _in_words(_WORDS[format_] for format_ in formats)

    def decode_by_format(body: bytes, properties: PropertySource, /) -> Any:
        content_type = properties.get(CONTENT_TYPE)
        decode = by_name.get(content_type)
        if decode is None:
            assert content_type is not None
            known = format_of(content_type)
            decode = None if known is None else formats.get(known)
            if decode is None:
                raise_other_format(annotation, body, content_type, words)
        try:
            return decode(body)
        except DATA_ERRORS as error:
            raise body_error(annotation, body, error, content_type) from error

    return decode_by_format


def _codec_decoder(annotation: Any, codec: Codec, formats: dict[Format, Decode]) -> Decoder[Any]:
    others = [_WORDS[format_] for format_ in formats]
    own = format_of(codec.content_type)
    words = _in_words([codec.content_type if own is None else _WORDS[own], *others])

    def decode_by_codec(body: bytes, properties: PropertySource, /) -> Any:
        content_type = properties.get(CONTENT_TYPE)
        try:
            if content_type is None or same_format(codec, content_type):
                return codec.decode(body, properties.get(SCHEMA) or "")
            known = format_of(content_type)
            decode = None if known is None else formats.get(known)
            if decode is not None:
                return decode(body)
        except DATA_ERRORS as error:
            raise body_error(annotation, body, error, content_type) from error
        raise_other_format(annotation, body, content_type, words)

    return decode_by_codec


# --- the formats ---------------------------------------------------------------------------------------------------


def _structured(annotation: Any, *, tolerant: bool = False) -> dict[Format, Decode]:
    """JSON and MessagePack for a type. Raises ConfigError, or has none if ``tolerant``."""
    if any(map(is_pydantic, parts(annotation))):
        return _pydantic(annotation)
    try:
        for part in filter(_is_custom, parts(annotation)):
            raise TypeError(f"{name_of(part)} is neither a type that JSON knows nor a class with fields")
        return {
            Format.JSON: msgspec.json.Decoder(annotation, dec_hook=dec_hook).decode,
            Format.MSGPACK: msgspec.msgpack.Decoder(annotation, dec_hook=dec_hook).decode,
        }
    except (TypeError, NameError, AttributeError) as error:
        if tolerant:
            return {}
        text = f"no body can be read as {name_of(annotation)}: {error}"
        raise ConfigError(f"{text}; pyromq.typed.register(Codec(…)) adds a type") from error


def _is_custom(part: Any) -> bool:
    """Whether msgspec would ask a hook for it, and so find out too late that there is none."""
    return isinstance(part, type) and isinstance(msgspec.inspect.type_info(part), msgspec.inspect.CustomType)


def _pydantic(annotation: Any) -> dict[Format, Decode]:
    from pydantic import TypeAdapter

    adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    validate = adapter.validate_python
    return {
        Format.JSON: adapter.validate_json,
        Format.MSGPACK: lambda body: validate(msgspec.msgpack.decode(body)),
    }


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"it is no UTF-8: {error.reason} at byte {error.start}") from error


def _in_words(words: Any) -> str:
    *others, last = dict.fromkeys(words)
    return f"{', '.join(others)} or {last}" if others else str(last)
