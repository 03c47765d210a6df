"""Columns to bodies: what the sink writes, the source reads."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from pyromq.errors import MessageRefusedError
from pyromq.pipeline.core.errors import SchemaError
from pyromq.pipeline.payload.arrow_types import arrow_type
from pyromq.pipeline.payload.encoding import BodyEncoder, encoded_schema, marks_of
from pyromq.typed.schemas.ddl import parse_ddl
from pyromq.typed.schemas.given import BodySchema, schema_given
from pyromq.typed.schemas.payloads import PayloadFormat
from tests.unit.pipeline.payload.test_typed_rows import ORDER, WHOLE, decode, orders, values


def columns_of(ddl: str) -> list[pa.Field]:
    return [pa.field(each.name, arrow_type(each.type)) for each in parse_ddl(ddl)]


def encode(rows: list[dict[str, Any]], ddl: str = ORDER, payload: str = "json", first: int = 0) -> list[bytes]:
    schema = encoded_schema(schema_given(ddl), columns_of(ddl))
    batch = pa.RecordBatch.from_pylist(rows, schema=pa.schema(columns_of(ddl)))
    made: list[bytes] = BodyEncoder(PayloadFormat(payload), schema).bodies(batch, first).to_pylist()
    return made


@settings(deadline=None, max_examples=60)
@given(rows=some.lists(orders, min_size=1, max_size=5), payload=some.sampled_from(["json", "msgpack", "avro"]))
def test_whatever_the_sink_writes_the_source_reads(rows: list[dict[str, Any]], payload: str) -> None:
    bodies = encode(rows, payload=payload)
    assert [values(row) for row in decode(bodies, payload=payload, schema=ORDER)] == rows


def test_json_as_other_clients_read_it() -> None:
    few = {"id": 2, "lines": [{"sku": "a"}], "address": {}}
    whole, small = map(msgspec.json.decode, encode([WHOLE, few]))
    assert small == few
    assert (whole["amount"], whole["at"], whole["raw"]) == ("9.90", "2026-11-17T09:12:05.123456Z", "AP8=")


def test_maps_and_text() -> None:
    ddl = "prices map<string,array<double>>"
    assert encode([{"prices": [("a", [1.0, None])]}], ddl) == [b'{"prices":{"a":[1.0,null]}}']
    assert encode([{"value": "Köln"}], "value string", "text") == ["Köln".encode()]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"id": None}, "column id, row 8: it is null, and the schema says NOT NULL"),
        ({"id": 1, "weight": float("nan")}, "row 8 is not what the schema says: nan is no number of JSON"),
    ],
)
def test_a_row_that_cannot_be_written_is_named(row: dict[str, Any], words: str) -> None:
    with pytest.raises(MessageRefusedError) as caught:
        encode([{"id": 1}, row], first=7)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("id bigint, price int", "column price is neither one of the sink nor a field of the schema"),
        ("id int", "column id int has another type than the schema: id bigint; cast it"),
        ("customer string", "column id is missing: the schema says NOT NULL"),
    ],
)
def test_columns_that_the_schema_does_not_have(columns: str, words: str) -> None:
    with pytest.raises(SchemaError) as caught:
        encoded_schema(schema_given(ORDER), columns_of(columns))
    assert words in str(caught.value)


def test_columns_are_a_schema() -> None:
    assert encoded_schema(None, columns_of("id bigint")) == BodySchema(parse_ddl("id bigint"))


def test_messages_say_what_they_are() -> None:
    avro = '{"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]}'
    assert marks_of(PayloadFormat.JSON, schema_given("id bigint")) == [("content_type", "application/json")]
    (_, kind), (name, schema) = marks_of(PayloadFormat.AVRO, schema_given(avro))
    assert (kind, name) == ("application/avro", "schema") and schema.startswith("shop.Order#")
