"""Content types: names of formats, and the two properties that say what a body is.

The names of the properties are lower case, so they cannot become RocketMQ's own, which are upper case or begin with
two underscores, and they are identifiers, so SQL92 filters can use them (``content_type = 'application/json'``).
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Protocol

from pyromq.model.property_names import CONTENT_TYPE, SCHEMA

__all__ = ["CONTENT_TYPE", "SCHEMA", "Format", "PropertySource", "format_of"]


class PropertySource(Protocol):
    """Properties of a message: a dict, or a ReceivedMessage, which reads one without decoding the others."""

    def get(self, name: str, /) -> str | None: ...


class Format(Enum):
    """How a body is written; the value is the content type that producers give it."""

    JSON = "application/json"
    MSGPACK = "application/msgpack"
    TEXT = "text/plain"
    BYTES = "application/octet-stream"
    AVRO = "application/avro"
    PROTOBUF = "application/protobuf"


_OTHER_NAMES: Final = {
    "text/json": Format.JSON,
    "application/x-msgpack": Format.MSGPACK,
    "application/vnd.msgpack": Format.MSGPACK,
    "binary/octet-stream": Format.BYTES,
    "avro/binary": Format.AVRO,
    "application/x-avro": Format.AVRO,
    "application/vnd.apache.avro": Format.AVRO,
    "application/x-protobuf": Format.PROTOBUF,
    "application/vnd.google.protobuf": Format.PROTOBUF,
}
_FORMATS: Final[dict[str, Format]] = {**{each.value: each for each in Format}, **_OTHER_NAMES}
_SUFFIXES: Final = {
    f"+{each.name.lower()}": each for each in (Format.JSON, Format.MSGPACK, Format.AVRO, Format.PROTOBUF)
}
_CHARSETS: Final = frozenset(("", "utf-8", "utf8", "us-ascii", "ascii"))


def format_of(content_type: str) -> Format | None:
    """The format that a content type names, in whatever spelling; None for one that is not known here.

    ``application/json; charset=UTF-8`` and ``application/vnd.shop.order+json`` are JSON, ``text/…`` is text. A text in
    another character set than UTF-8 is not known.
    """
    name, _, parameters = content_type.strip().lower().partition(";")
    name = name.rstrip()
    if (known := _FORMATS.get(name)) is None:
        known = next((each for suffix, each in _SUFFIXES.items() if name.endswith(suffix)), None)
    if known is None and name.startswith("text/"):
        known = Format.TEXT
    if known in (Format.TEXT, Format.JSON) and parameters and _charset(parameters) not in _CHARSETS:
        return None
    return known


def _charset(parameters: str) -> str:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip() == "charset":
            return value.strip().strip("\"'")
    return ""
