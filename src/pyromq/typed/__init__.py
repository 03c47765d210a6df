"""Bodies as Python types: bytes of a message ⇄ values of the application.

    @dataclass
    class Order:
        id: int
        amount: Decimal

    encode(Order(42, Decimal("9.90")))   ──▶ Encoded(b'{"id":42,"amount":"9.90"}', "application/json", "Order")
    decoder_for(Order)(body, properties) ──▶ Order(id=42, amount=Decimal('9.90')), or BodyError

Two properties say what a body is: ``content_type`` its format, ``schema`` the name of its type. The annotation says
which Python type is wanted. A message without these properties, as other clients send it, is decoded by the annotation
alone: ``bytes`` as it is, ``str`` as UTF-8 text, classes with a codec by it, everything else as JSON.

    annotation                                        formats that it reads
      bytes, bytearray, memoryview                      any: the body as it is
      str                                               text; strings in JSON and MessagePack
      dict, list, int, …, dataclass, msgspec.Struct,    JSON, MessagePack
      TypedDict, NamedTuple, unions, pydantic models
      Any                                               all of these
      protobuf message classes                          Protobuf; JSON (protobuf's own mapping)
      types of a registered codec (Avro, yours)         that of the codec; JSON and MessagePack where the type allows

Decoders are made once for an annotation and are meant to be kept. pydantic, fastavro and protobuf are imported only
where an annotation or a codec is one of theirs.
"""

from __future__ import annotations

from pyromq.typed.avro import avro
from pyromq.typed.codecs import Codec, register, unregister
from pyromq.typed.content_types import CONTENT_TYPE, SCHEMA, Format
from pyromq.typed.decoding import Decoder, decoder_for
from pyromq.typed.describing import TypeDescription, describe
from pyromq.typed.encoding import Encoded, encode

__all__ = [
    "CONTENT_TYPE",
    "SCHEMA",
    "Codec",
    "Decoder",
    "Encoded",
    "Format",
    "TypeDescription",
    "avro",
    "decoder_for",
    "describe",
    "encode",
    "register",
    "unregister",
]
