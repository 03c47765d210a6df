"""What an annotation means for messages, as documents have it: content type, schema name, JSON Schema."""

from __future__ import annotations

from typing import Any

import msgspec

from pyromq.typed.codecs import codec_of
from pyromq.typed.content_types import Format
from pyromq.typed.decoding import decoder_for
from pyromq.typed.kinds import RAW, is_protobuf, is_pydantic, parts, schema_name, without_annotated, without_none
from pyromq.typed.protobuf import protobuf_codec


class TypeDescription(msgspec.Struct, frozen=True):
    """``json_schema`` is empty for bodies that JSON Schema has no words for; its ``$defs`` are inside it."""

    content_type: str
    schema: str
    json_schema: dict[str, Any]


def describe(annotation: Any) -> TypeDescription:
    """How values of this type travel. Raises ConfigError for a type that no format is read as."""
    decoder_for(annotation)
    single = without_none(annotation)
    if without_annotated(annotation) in RAW:
        return TypeDescription(Format.BYTES.value, "", {})
    if single is str:
        return TypeDescription(Format.TEXT.value, "", {"type": "string"})
    codec = protobuf_codec(single) if is_protobuf(single) else codec_of(single)
    if codec is not None:
        return TypeDescription(codec.content_type, codec.schema, codec.json_schema or {})
    return TypeDescription(Format.JSON.value, schema_name(single), _json_schema(annotation))


def _json_schema(annotation: Any) -> dict[str, Any]:
    if any(map(is_pydantic, parts(annotation))):
        from pydantic import TypeAdapter

        return dict(TypeAdapter(annotation).json_schema())
    try:
        return msgspec.json.schema(annotation, schema_hook=_hook)
    except TypeError:  # a type that decodes and has no schema, such as a class with a hook of its own
        return {}


def _hook(kind: Any) -> dict[str, Any]:
    if is_pydantic(kind):
        from pydantic import TypeAdapter

        return dict(TypeAdapter(kind).json_schema())
    raise NotImplementedError  # so a hook tells msgspec that it does not know the type
