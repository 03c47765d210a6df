"""Bodies of messages as Python values: the one place where an app meets ``pyromq.typed``.

SHIM: a small part of ``pyromq.typed`` with the same names, until that package is there. Then this module becomes:

    from pyromq.errors import BodyError
    from pyromq.typed import MessageOptions, TypeDescription, decoder_for, describe, encode, message
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypedDict, Unpack

import msgspec

from pyromq.errors import ConfigError, MessageRefusedError, MQError
from pyromq.model.message import Message

Decode = Callable[[bytes, Any], Any]


class BodyError(MQError):
    """A body is not what the annotation of a listener says."""


class Encoded(NamedTuple):
    body: bytes
    content_type: str
    schema: str = ""


class TypeDescription(NamedTuple):
    content_type: str
    schema: str
    json_schema: dict[str, Any]


class MessageOptions(TypedDict, total=False):
    """What ``Message`` takes besides topic and body."""

    tags: str
    keys: Iterable[str]
    properties: Mapping[str, str]
    sharding_key: str
    delay_level: int
    delay_ms: int
    deliver_at_ms: int


def decoder_for(annotation: Any) -> Decode:
    """Raises ConfigError for an annotation that no body decodes to."""
    if annotation is bytes:
        return lambda body, _: body
    if annotation is str:
        return _text
    try:
        decode = msgspec.json.Decoder(annotation).decode
    except TypeError as error:
        raise ConfigError(f"no body decodes to {annotation!r}: {error}") from error

    def decoded(body: bytes, _: Any) -> Any:
        try:
            return decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BodyError(str(error)) from error

    return decoded


def encode(value: Any) -> Encoded:
    """Raises MessageRefusedError for what no codec takes."""
    if isinstance(value, bytes | bytearray | memoryview):
        return Encoded(bytes(value), "application/octet-stream")
    if isinstance(value, str):
        return Encoded(value.encode(), "text/plain")
    try:
        return Encoded(msgspec.json.encode(value), "application/json", type(value).__name__)
    except TypeError as error:
        raise MessageRefusedError(str(error)) from error


def message(topic: str, value: object, /, **options: Unpack[MessageOptions]) -> Message:
    encoded = encode(value)
    marks = {} if isinstance(value, bytes) else {"content_type": encoded.content_type, "schema": encoded.schema}
    given: dict[str, Any] = {**options}
    marks = {name: text for name, text in marks.items() if text}
    given["properties"] = {**marks, **given.get("properties", {})}
    return Message(topic, encoded.body, **given)


def describe(annotation: Any) -> TypeDescription:
    if annotation is bytes:
        return TypeDescription("application/octet-stream", "", {})
    if annotation is str:
        return TypeDescription("text/plain", "", {"type": "string"})
    return TypeDescription("application/json", getattr(annotation, "__name__", ""), msgspec.json.schema(annotation))


def _text(body: bytes, _: Any) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise BodyError(str(error)) from error
