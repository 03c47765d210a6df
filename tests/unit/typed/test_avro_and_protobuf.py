"""Avro and Protobuf with their real packages."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from pydantic import BaseModel

from pyromq.errors import BodyError, ConfigError, MessageRefusedError
from pyromq.typed import CONTENT_TYPE, SCHEMA, Codec, avro, decoder_for, describe, encode, register, unregister

V1 = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
V2 = {**V1, "fields": [*V1["fields"], {"name": "note", "type": "string", "default": "none"}]}  # type: ignore[misc]
AT = datetime(2026, 5, 1, 12, 30, tzinfo=UTC)


@dataclass
class Order:
    id: int
    at: datetime
    note: str = ""


class Model(BaseModel):
    id: int
    at: datetime
    note: str = ""


def travelled(value: Any) -> tuple[bytes, dict[str, str]]:
    encoded = encode(value)
    return encoded.body, {CONTENT_TYPE: encoded.content_type, SCHEMA: encoded.schema}


@pytest.fixture(params=[Order, Model])
def avro_codec(request: pytest.FixtureRequest) -> Iterator[Codec]:
    yield register(avro(request.param, V2, older=[V1]))
    unregister(request.param)


def test_avro_comes_back(avro_codec: Codec) -> None:
    value = avro_codec.type(id=1, at=AT, note="x")
    body, properties = travelled(value)
    assert properties[CONTENT_TYPE] == "application/avro"
    assert properties[SCHEMA].startswith("shop.Order#")
    assert len(body) < 20
    assert decoder_for(avro_codec.type)(body, properties) == value
    assert decoder_for(avro_codec.type)(body, {}) == value
    assert "shop.Order" in str(describe(avro_codec.type).json_schema)


def test_avro_of_an_older_schema_is_resolved_to_the_present_one(avro_codec: Codec) -> None:
    old = io.BytesIO()
    fastavro.schemaless_writer(old, fastavro.parse_schema(V1), {"id": 1, "at": AT})
    body, properties = old.getvalue(), {CONTENT_TYPE: "avro/binary", SCHEMA: avro(avro_codec.type, V1).schema}
    assert decoder_for(avro_codec.type)(body, properties) == avro_codec.type(id=1, at=AT, note="none")


def test_avro_of_an_unknown_schema_says_what_is_missing(avro_codec: Codec) -> None:
    body, properties = travelled(avro_codec.type(id=1, at=AT, note="x"))
    with pytest.raises(BodyError, match=r"written with schema shop\.Order#0123, .* give that schema to avro"):
        decoder_for(avro_codec.type)(body, {**properties, SCHEMA: "shop.Order#0123"})


@pytest.mark.parametrize("body", [b"", b"\x02", b"\xff" * 40, b"\x02\x02\x02a" + b"left over"])
def test_bytes_that_are_no_avro_are_a_body_error(avro_codec: Codec, body: bytes) -> None:
    with pytest.raises(BodyError):
        decoder_for(avro_codec.type)(body, {CONTENT_TYPE: "application/avro"})


def test_a_value_that_does_not_fit_its_avro_schema_is_refused() -> None:
    register(avro(Order, V2))
    try:
        with pytest.raises(MessageRefusedError, match="cannot be sent"):
            encode(Order("not a number", AT))  # type: ignore[arg-type]
    finally:
        unregister(Order)


def test_json_of_another_service_is_read_as_the_avro_type(avro_codec: Codec) -> None:
    body = b'{"id": 1, "at": "2026-05-01T12:30:00Z"}'
    assert decoder_for(avro_codec.type)(body, {CONTENT_TYPE: "application/json"}) == avro_codec.type(id=1, at=AT)


@pytest.mark.parametrize("schema", ["{", '"string"', {"type": "record"}, {"type": "nonsense", "name": "x"}, {}, "[]"])
def test_what_is_no_avro_record_is_refused(schema: Any) -> None:
    with pytest.raises(ConfigError, match="Avro"):
        avro(Order, schema)


def test_without_fastavro_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(ConfigError, match=r"pip install 'pyromq\[avro\]'"):
        avro(Order, V1)


def message_classes() -> tuple[Any, Any]:
    """As protoc would generate them."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    for name, kind in (("Order", 3), ("Price", 9)):
        file.message_type.add(name=name).field.add(name="id", number=1, type=kind, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    made = [message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}")) for name in ("Order", "Price")]
    return made[0], made[1]


ProtoOrder, ProtoPrice = message_classes()


def test_protobuf_comes_back_without_registration() -> None:
    body, properties = travelled(ProtoOrder(id=42))
    assert properties == {CONTENT_TYPE: "application/protobuf", SCHEMA: "shop.Order"}
    assert decoder_for(ProtoOrder)(body, properties) == ProtoOrder(id=42)
    assert decoder_for(ProtoOrder | None)(body, {}) == ProtoOrder(id=42)
    assert decoder_for(ProtoOrder)(b'{"id": "42"}', {CONTENT_TYPE: "application/json"}) == ProtoOrder(id=42)
    assert encode(ProtoOrder(id=42), content_type="application/json").body == b'{"id": "42"}'
    assert describe(ProtoOrder).schema == "shop.Order"


def test_a_protobuf_message_of_another_type_is_not_misread() -> None:
    body, properties = travelled(ProtoPrice(id="x"))
    with pytest.raises(BodyError, match=r"the message is a shop\.Price, not a shop\.Order"):
        decoder_for(ProtoOrder)(body, properties)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"\xff\xff", "application/protobuf"),
        (b"{", "application/json"),
        (b"\xff", "application/json"),
        (b"x", "text/plain"),
    ],
)
def test_bytes_that_are_no_protobuf_are_a_body_error(body: bytes, content_type: str) -> None:
    with pytest.raises(BodyError, match="body is no Order"):
        decoder_for(ProtoOrder)(body, {CONTENT_TYPE: content_type})


def test_protobuf_inside_of_json_is_refused() -> None:
    with pytest.raises(ConfigError, match="a body of its own"):
        decoder_for(list[ProtoOrder])
