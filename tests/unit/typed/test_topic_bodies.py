"""Values to bodies by the schema of a topic: what fits, what does not and why, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

from pyromq.errors import SchemaMismatchError
from pyromq.typed import encode
from pyromq.typed.schemas.avro_schema import avro_of_fields
from pyromq.typed.schemas.fields import TEXT_FIELDS
from pyromq.typed.schemas.given import BodySchema, schema_given
from pyromq.typed.schemas.payloads import PayloadFormat
from pyromq.typed.schemas.protobuf_schema import class_of
from pyromq.typed.schemas.topic_bodies import TopicBodies
from tests.unit.typed.test_schemas import descriptor_set

DDL = (
    "id bigint NOT NULL, amount decimal(10,2), at timestamp, day date, code binary, small tinyint, "
    "lines array<struct<sku:string NOT NULL,count:int>>, prices map<string,double>"
)
AT = datetime(2026, 11, 17, 9, 12, 5, tzinfo=UTC)
WHOLE = {
    "id": 1, "amount": Decimal("9.90"), "at": AT, "day": date(2026, 11, 17), "code": b"\x00\xff", "small": -128,
    "lines": [{"sku": "a", "count": 2}], "prices": {"EUR": 1.5},
}  # fmt: skip
STRUCTURED = (PayloadFormat.JSON, PayloadFormat.MSGPACK, PayloadFormat.AVRO)


def bodies(payload: PayloadFormat, text: str = DDL, version: int = 3) -> TopicBodies:
    return TopicBodies("orders", version, payload, schema_given(text))


@pytest.mark.parametrize("payload", STRUCTURED)
def test_a_value_that_fits_comes_back(payload: PayloadFormat) -> None:
    codec = bodies(payload)
    encoded = codec.encode(WHOLE)
    assert codec.is_of(encoded.content_type)
    assert codec.decode(encoded.body, encoded.schema) == WHOLE


@dataclass
class Order:
    id: int
    amount: Decimal


class Struct(msgspec.Struct):
    id: int
    amount: Decimal


class Model(BaseModel):
    id: int
    amount: Decimal


@pytest.mark.parametrize("kind", [Order, Struct, Model])
@pytest.mark.parametrize("payload", STRUCTURED)
def test_classes_are_written_by_the_schema(payload: PayloadFormat, kind: Any) -> None:
    codec = bodies(payload)
    encoded = codec.encode(kind(id=7, amount=Decimal("1.50")))
    found = codec.decode(encoded.body, encoded.schema)
    assert (found["id"], found["amount"]) == (7, Decimal("1.50"))


def test_json_is_what_is_sent_without_a_schema() -> None:
    value = {"id": 1, "colour": "red"}
    assert bodies(PayloadFormat.JSON).encode(value).body == encode(value).body, "fields it does not name stay"


@pytest.mark.parametrize("payload", STRUCTURED)
@pytest.mark.parametrize(
    ("value", "field", "reason"),
    [
        ({"id": "x"}, "id", "Expected `int`, got `str`"),
        ({"amount": "1"}, "id", "it is required, and missing"),
        ({"id": 1, "amount": "1.234"}, "amount", "1.234 has more digits than decimal(10,2)"),
        ({"id": 1, "amount": "123456789"}, "amount", "123456789 has more digits than decimal(10,2)"),
        ({"id": 1, "small": 128}, "small", "Expected `int` <= 127"),
        ({"id": 1, "at": "yesterday"}, "at", "Invalid RFC3339 encoded datetime"),
        ({"id": 1, "lines": [{"sku": "a"}, {"count": 1}]}, "lines[1].sku", "it is required, and missing"),
        ({"id": 1, "lines": [{"sku": "a", "count": "b"}]}, "lines[0].count", "Expected `int | null`, got `str`"),
    ],
)
def test_a_value_that_does_not_fit_names_field_and_version(
    payload: PayloadFormat, value: Any, field: str, reason: str
) -> None:
    with pytest.raises(SchemaMismatchError) as caught:
        bodies(payload).encode(value)
    error = caught.value
    assert (error.topic, error.version, error.field, error.reason) == ("orders", 3, field, reason)
    assert str(error) == f"the value does not fit the schema of topic orders, version 3: field {field}: {reason}"


@pytest.mark.parametrize("payload", STRUCTURED)
def test_what_is_no_record_is_refused(payload: PayloadFormat) -> None:
    for value in (5, [1], None):
        with pytest.raises(SchemaMismatchError):
            bodies(payload).encode(value)


def test_avro_has_no_place_for_fields_that_the_schema_does_not_name() -> None:
    for value, field in (
        ({"id": 1, "colour": "red"}, "colour"),
        ({"id": 1, "lines": [{"sku": "a", "x": 1}]}, "lines.x"),
    ):
        with pytest.raises(SchemaMismatchError) as caught:
            bodies(PayloadFormat.AVRO).encode(value)
        assert caught.value.field == field


def test_avro_of_an_earlier_version_is_read() -> None:
    old, new = schema_given("id bigint NOT NULL"), schema_given("id bigint NOT NULL, colour string")
    written = TopicBodies("orders", 1, PayloadFormat.AVRO, old).encode({"id": 5})
    older = [msgspec.json.encode(avro_of_fields(old.fields)).decode()]
    now = TopicBodies("orders", 2, PayloadFormat.AVRO, new, older=older)
    assert now.decode(written.body, written.schema) == {"id": 5, "colour": None}
    alone = TopicBodies("orders", 2, PayloadFormat.AVRO, new)
    with pytest.raises(ValueError):
        alone.decode(written.body, written.schema)


def test_text_is_text() -> None:
    codec = TopicBodies("notes", 1, PayloadFormat.TEXT, BodySchema(TEXT_FIELDS))
    encoded = codec.encode("grün")
    assert (encoded.body, codec.decode(encoded.body)) == ("grün".encode(), "grün")
    with pytest.raises(SchemaMismatchError, match="the topic has text, not dict"):
        codec.encode({"a": 1})
    with pytest.raises(ValueError):
        codec.decode(b"\xff")


def test_protobuf_by_dict_and_by_class(tmp_path: Path) -> None:
    (tmp_path / "shop.desc").write_bytes(descriptor_set())
    schema = schema_given(f"{tmp_path}/shop.desc#shop.Order")
    codec = TopicBodies("orders", 1, PayloadFormat.PROTOBUF, schema)
    by_dict = codec.encode({"id": 7, "colour": "BLUE", "at": "2026-11-17T09:12:05Z", "lines": [{"sku": "a"}]})
    assert schema.protobuf is not None and by_dict.schema == "shop.Order"
    message = class_of(schema.protobuf).FromString(by_dict.body)
    assert codec.encode(message).body == by_dict.body
    found = codec.decode(by_dict.body)
    assert (found["id"], found["colour"], found["at"], found["lines"]) == (7, "BLUE", AT, [{"sku": "a"}])
    for value, field in (({"id": "x"}, "id"), ({"nothing": 1}, "nothing")):
        with pytest.raises(SchemaMismatchError) as caught:
            codec.encode(value)
        assert caught.value.field == field
    with pytest.raises(SchemaMismatchError, match=r"the topic has shop.Order, not google.protobuf.Timestamp"):
        codec.encode(message.at)


def test_a_body_that_does_not_fit_says_why() -> None:
    with pytest.raises(ValueError, match=r"^field id: Expected `int`, got `str`$"):
        bodies(PayloadFormat.JSON).decode(b'{"id": "x"}')
