"""How bodies are written that a schema describes."""

from __future__ import annotations

from enum import Enum
from typing import Final

from pyromq.typed.content_types import Format


class PayloadFormat(Enum):
    """How bodies are written that a schema describes."""

    JSON = "json"
    TEXT = "text"
    AVRO = "avro"
    MSGPACK = "msgpack"
    PROTOBUF = "protobuf"


FORMATS: Final = {
    PayloadFormat.JSON: Format.JSON,
    PayloadFormat.TEXT: Format.TEXT,
    PayloadFormat.MSGPACK: Format.MSGPACK,
    PayloadFormat.AVRO: Format.AVRO,
    PayloadFormat.PROTOBUF: Format.PROTOBUF,
}
"""What messages say of themselves in ``content_type``."""
