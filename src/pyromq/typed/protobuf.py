"""Protobuf message classes, as ``protoc`` generates them: their bodies are theirs, their schema is their full name.

Protobuf reads almost any bytes as almost any message, so the schema name of a message has to be that of the class.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pyromq.typed.codecs import Codec
from pyromq.typed.content_types import Format


@lru_cache(256)
def protobuf_codec(kind: type[Any]) -> Codec:
    from google.protobuf.message import DecodeError

    name: str = kind.DESCRIPTOR.full_name

    def decode(body: bytes, schema: str) -> Any:
        if schema and schema != name:
            raise ValueError(f"the message is a {schema}, not a {name}")
        try:
            return kind.FromString(body)
        except DecodeError as error:
            raise ValueError(str(error) or "it is no Protobuf") from error

    return Codec(
        type=kind,
        content_type=Format.PROTOBUF.value,
        encode=kind.SerializeToString,
        decode=decode,
        schema=name,
    )


def from_json(kind: type[Any], body: bytes) -> Any:
    """Protobuf's own mapping to JSON. Raises ValueError."""
    from google.protobuf.json_format import Parse, ParseError

    try:
        return Parse(body, kind())
    except (ParseError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(str(error)) from error


def to_json(value: Any) -> bytes:
    from google.protobuf.json_format import MessageToJson

    text: str = MessageToJson(value, indent=None)
    return text.encode()
