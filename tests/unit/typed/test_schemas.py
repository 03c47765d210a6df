"""Schemas in all their forms come to the same fields."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2
from hypothesis import given
from hypothesis import strategies as some
from pydantic import BaseModel

from pyromq.errors import ConfigError
from pyromq.typed.schemas.avro_schema import avro_of_fields, fields_of_avro
from pyromq.typed.schemas.ddl import parse_ddl
from pyromq.typed.schemas.fields import SIMPLE, FieldType, SchemaField, ddl_of, optional
from pyromq.typed.schemas.given import schema_given, schema_of_class
from pyromq.typed.schemas.protobuf_schema import class_of, fill, row_of


class Line(msgspec.Struct):
    sku: str
    count: int = 1


class Order(msgspec.Struct):
    id: int
    amount: Decimal
    at: datetime
    day: date | None
    raw: bytes
    lines: list[Line]
    prices: dict[str, float] = {}
    anything: Any = None
    either: int | str = 0


class Model(BaseModel):
    id: int
    amount: Decimal
    at: datetime
    line: str | None = None


@dataclass
class Plain:
    name: str
    inner: Line


FIELDS = (
    "id bigint NOT NULL, amount decimal(38,18) NOT NULL, at timestamp NOT NULL, day date, raw binary NOT NULL, "
    "lines array<struct<sku:string NOT NULL,count:bigint>> NOT NULL, prices map<string,double>, anything string, "
    "either string"
)


@pytest.mark.parametrize(
    ("kind", "ddl"),
    [
        (Order, FIELDS),
        (Model, "id bigint NOT NULL, amount decimal(38,18) NOT NULL, at timestamp NOT NULL, line string"),
        (Plain, "name string NOT NULL, inner struct<sku:string NOT NULL,count:bigint> NOT NULL"),
    ],
)
def test_classes(kind: type[Any], ddl: str) -> None:
    assert ddl_of(schema_of_class(kind).fields) == ddl


@pytest.mark.parametrize("path", [f"{__name__}.Order", f"{__name__}:Order"])
def test_a_class_by_its_path(path: str) -> None:
    assert ddl_of(schema_given(path).fields) == FIELDS


simple = some.sampled_from(sorted(SIMPLE)).map(FieldType) | some.integers(1, 38).map(
    lambda precision: FieldType("decimal", precision, precision // 2)
)
names = some.sampled_from(["id", "Größe", "a b", "from", "x`y", "_1"])


def members(kinds: Any) -> Any:
    fields = some.lists(some.builds(SchemaField, names, kinds, some.booleans()), min_size=1, max_size=4)
    return fields.map(lambda each: tuple({field.name: field for field in each}.values()))


types = some.recursive(
    simple,
    lambda inner: some.one_of(
        inner.map(lambda kind: FieldType("array", items=(kind,))),
        inner.map(lambda kind: FieldType("map", items=(FieldType("string"), kind))),
        members(inner).map(lambda fields: FieldType("struct", fields=fields)),
    ),
    max_leaves=6,
)


@given(members(types))
def test_ddl_is_read_as_it_was_written(fields: Any) -> None:
    assert parse_ddl(ddl_of(fields)) == fields


def test_ddl_as_people_write_it() -> None:
    text = "ID LONG not null COMMENT 'it''s', a INTEGER,\n b Dec(5), c: varchar(10), d STRUCT<x: INT, y ARRAY<text>>"
    expected = "ID bigint NOT NULL, a int, b decimal(5,0), c string, d struct<x:int,y:array<string>>"
    assert ddl_of(parse_ddl(text.replace("it''s", "its"))) == expected
    assert parse_ddl("struct<a:int,b:string>") == parse_ddl("a int, b string")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "needs a name, and has its end"),
        ("id", "needs a type after 'id', and has its end"),
        ("id bigint amount int", "needs a comma or the end after 'id bigint', and has amount"),
        ("id array<int", "needs > after"),
        ("id map<int,int>", "keys of a map are string, not int"),
        ("id decimal(39,2)", "decimal(39,2): the first is 1 to 38"),
        ("id int, id int", "names field id twice"),
        ("a " + "array<" * 100, "nested too deeply"),
        ("id 'x", "cannot be read from"),
        ("{nope", "begins as JSON and is none"),
        ('{"type":"string"}', "is that of an object with properties, not of string"),
        ('{"type":"object","properties":{"a":{"$ref":"#/$defs/B"}}}', "$ref #/$defs/B leads nowhere"),
        ('{"type":"record","name":"A","fields":[{"name":"a","type":["int","string"]}]}', "union of several types"),
        ('{"type":"record","name":"A","fields":[{"name":"a","type":"A"}]}', "is unknown, or contains itself"),
        ("/nowhere/order.avsc", "the schema file /nowhere/order.avsc cannot be read"),
        ("nowhere.models.Order", "is taken for a class, and it cannot be imported"),
    ],
)
def test_what_is_no_schema(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        schema_given(text)
    assert words in str(caught.value)


def test_json_schema_with_references_and_recursion() -> None:
    document = {
        "$defs": {
            "Node": {"type": "object", "properties": {"value": {"type": "integer"}, "next": {"$ref": "#/$defs/Node"}}},
            "Colour": {"enum": ["red", "blue"]},
        },
        "type": "object",
        "properties": {
            "node": {"$ref": "#/$defs/Node"},
            "colour": {"allOf": [{"$ref": "#/$defs/Colour"}]},
            "size": {"type": ["integer", "null"]},
            "pair": {"type": "array", "prefixItems": [{"type": "string"}]},
        },
        "required": ["colour", "size"],
    }
    expected = "node struct<value:bigint,next:string>, colour string NOT NULL, size bigint, pair string"
    assert ddl_of(schema_given(json.dumps(document)).fields) == expected


def test_avro_with_logical_types_and_names_used_twice() -> None:
    document = {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
            {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
            {"name": "home", "type": {"type": "record", "name": "Place", "fields": [{"name": "x", "type": "int"}]}},
            {"name": "work", "type": ["null", "Place"]},
            {"name": "by", "type": {"type": "map", "values": "shop.Place"}},
        ],
    }
    found = schema_given(json.dumps(document))
    assert ddl_of(found.fields) == (
        "id bigint NOT NULL, price decimal(9,2) NOT NULL, key string NOT NULL, at timestamp, "
        "home struct<x:int NOT NULL> NOT NULL, work struct<x:int NOT NULL>, "
        "by map<string,struct<x:int NOT NULL>> NOT NULL"
    )
    assert "uuid" not in found.avro


def test_fields_become_avro_and_come_back() -> None:
    fields = parse_ddl("id bigint NOT NULL, a decimal(9,2), t timestamp, l array<struct<x:int>>, m map<string,date>")
    assert optional(fields_of_avro(avro_of_fields(fields))) == optional(fields)


@pytest.mark.parametrize("name", ["order.json", "order.avsc", "order.ddl"])
def test_files(tmp_path: Path, name: str) -> None:
    texts = {
        "order.json": '{"type": "object", "properties": {"id": {"type": "integer"}}}',
        "order.avsc": '{"type": "record", "name": "O", "fields": [{"name": "id", "type": ["null", "long"]}]}',
        "order.ddl": "id bigint\n",
    }
    (tmp_path / name).write_text(texts[name])
    assert schema_given(str(tmp_path / name)).fields == parse_ddl("id bigint")


def descriptor_set() -> bytes:
    file = descriptor_pb2.FileDescriptorProto(
        name="shop.proto", package="shop", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    order = file.message_type.add(name="Order")
    kinds = descriptor_pb2.FieldDescriptorProto
    line = order.nested_type.add(name="Line")
    line.field.add(name="sku", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    entry = order.nested_type.add(name="PricesEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=kinds.TYPE_DOUBLE, label=kinds.LABEL_OPTIONAL)
    colour = order.enum_type.add(name="Colour")
    colour.value.add(name="RED", number=0)
    colour.value.add(name="BLUE", number=1)
    single, several = kinds.LABEL_OPTIONAL, kinds.LABEL_REPEATED
    for number, (name, kind, label, type_name) in enumerate(
        (
            ("id", kinds.TYPE_INT64, single, ""),
            ("big", kinds.TYPE_UINT64, single, ""),
            ("colour", kinds.TYPE_ENUM, single, ".shop.Order.Colour"),
            ("at", kinds.TYPE_MESSAGE, single, ".google.protobuf.Timestamp"),
            ("lines", kinds.TYPE_MESSAGE, several, ".shop.Order.Line"),
            ("prices", kinds.TYPE_MESSAGE, several, ".shop.Order.PricesEntry"),
            ("codes", kinds.TYPE_BYTES, several, ""),
        ),
        1,
    ):
        order.field.add(name=name, number=number, type=kind, label=label, type_name=type_name or None)
    time = descriptor_pb2.FileDescriptorProto.FromString(timestamp_pb2.DESCRIPTOR.serialized_pb)
    return descriptor_pb2.FileDescriptorSet(file=[time, file]).SerializeToString()


@pytest.mark.parametrize("name", ["", "#shop.Order"])
def test_protobuf_by_descriptor_set_and_by_class(tmp_path: Path, name: str) -> None:
    (tmp_path / "shop.desc").write_bytes(descriptor_set())
    found = schema_given(f"{tmp_path}/shop.desc{name}")
    expected = (
        "id bigint, big decimal(20,0), colour string, at timestamp, lines array<struct<sku:string>>, "
        "prices map<string,double>, codes array<binary>"
    )
    assert ddl_of(found.fields) == expected
    assert found.protobuf is not None
    assert schema_of_class(class_of(found.protobuf)).fields == found.fields


def test_protobuf_messages_are_rows_and_rows_messages(tmp_path: Path) -> None:
    (tmp_path / "shop.desc").write_bytes(descriptor_set())
    kind = schema_given(f"{tmp_path}/shop.desc").protobuf
    assert kind is not None
    row = {
        "id": 7,
        "big": 2**64 - 1,
        "colour": "BLUE",
        "at": datetime.fromisoformat("2026-11-17T09:12:05.5+00:00"),
        "lines": [{"sku": "a"}, {"sku": ""}],
        "prices": {"x": 1.5},
        "codes": [b"1", b""],
    }
    message = class_of(kind)()
    fill(message, row)
    assert row_of(class_of(kind).FromString(message.SerializeToString())) == row
    assert row_of(class_of(kind)())["at"] is None
    with pytest.raises(ValueError, match="'GREEN' is no value"):
        fill(class_of(kind)(), {"colour": "GREEN"})


def test_a_descriptor_set_without_that_message(tmp_path: Path) -> None:
    (tmp_path / "shop.desc").write_bytes(descriptor_set())
    with pytest.raises(ConfigError, match="have no message type"):
        schema_given(f"{tmp_path}/shop.desc#shop.Nothing")
