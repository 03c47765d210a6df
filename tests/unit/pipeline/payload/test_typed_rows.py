"""Bodies to typed columns: what is written is read, and a bad body is a bad row and nothing more."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from pyromq.pipeline.core.errors import CorruptRowError, OptionError, SchemaError
from pyromq.pipeline.core.options import SourceOptions, Use, parse_options
from pyromq.pipeline.payload.arrow_types import arrow_type
from pyromq.pipeline.payload.typed_rows import CORRUPT_RECORD, ERROR, payload_schema, rows_of, typed_schema
from pyromq.typed.avro import AvroRecords
from pyromq.typed.schemas.avro_schema import avro_of_fields
from pyromq.typed.schemas.ddl import parse_ddl

ORDER = (
    "id bigint NOT NULL, customer string, amount decimal(10,2), paid boolean, at timestamp, day date, raw binary, "
    "weight double, lines array<struct<sku:string,count:int,at:timestamp>>, address struct<city:string,zip:int>"
)
WHOLE = {
    "id": 1,
    "customer": "Ada",
    "amount": Decimal("9.90"),
    "paid": True,
    "at": datetime(2026, 11, 17, 9, 12, 5, 123456, tzinfo=UTC),
    "day": date(2026, 11, 17),
    "raw": b"\x00\xff",
    "weight": 1.5,
    "lines": [{"sku": "a", "count": 2, "at": datetime(2026, 1, 1, tzinfo=UTC)}, None],
    "address": {"city": "Köln", "zip": None},
}


def options_of(**given: str) -> SourceOptions:
    return parse_options({"topic": "orders", **given}, Use.BATCH)


def decode(bodies: Sequence[bytes | None], **given: str) -> list[dict[str, Any]]:
    """The rows of bodies at offsets from 0 on, as a task makes them."""
    options = options_of(**{"payload": "json", **given})
    schema = payload_schema(options.payload, options.schema)
    assert schema is not None
    names = [(each.name, arrow_type(each.type)) for each in schema.fields]
    asked = pa.schema([("queue_offset", pa.int64()), *names, (ERROR, pa.string()), (CORRUPT_RECORD, pa.binary())])
    typed = rows_of(options, asked)
    assert typed is not None
    columns = {
        "topic": ["orders"] * len(bodies),
        "broker": ["broker-a"] * len(bodies),
        "queue_id": [3] * len(bodies),
        "queue_offset": list(range(len(bodies))),
        "body": list(bodies),
    }
    stored = [pa.array(columns[each.name], each.type) for each in typed.stored]
    batch = pa.RecordBatch.from_arrays(stored, schema=typed.stored)
    (made,) = pickle.loads(pickle.dumps(typed)).rows([batch])
    assert made.schema == asked
    return list(made.to_pylist())


def values(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("queue_offset", ERROR, CORRUPT_RECORD)}


def as_body(format_: str, row: dict[str, Any]) -> bytes:
    if format_ == "json":
        return msgspec.json.encode(row)
    return (
        msgspec.msgpack.encode(row)
        if format_ == "msgpack"
        else AvroRecords(avro_of_fields(parse_ddl(ORDER))).encode(row)
    )


@pytest.mark.parametrize("format_", ["json", "msgpack", "avro"])
def test_every_type_comes_back_as_it_was_written(format_: str) -> None:
    few = {name: 2 if name == "id" else None for name in WHOLE}
    rows = decode([as_body(format_, WHOLE), as_body(format_, few)], payload=format_, schema=ORDER)
    assert [values(row) for row in rows] == [WHOLE, few]
    assert [(row[ERROR], row[CORRUPT_RECORD]) for row in rows] == [(None, None)] * 2


texts = some.text(max_size=8)
times = some.integers(-8_000_000_000, 7_000_000_000).map(lambda second: datetime.fromtimestamp(second, UTC))
orders = some.fixed_dictionaries(
    {
        "id": some.integers(-(2**63), 2**63 - 1),
        "customer": some.none() | texts,
        "amount": some.none() | some.decimals(-99_999_999, 99_999_999, places=2),
        "paid": some.none() | some.booleans(),
        "at": some.none() | times,
        "day": some.none() | some.dates(date(1, 1, 1)),
        "raw": some.none() | some.binary(max_size=9),
        "weight": some.none() | some.floats(allow_nan=False, allow_infinity=False),
        "lines": some.none()
        | some.lists(
            some.none()
            | some.fixed_dictionaries(
                {
                    "sku": some.none() | texts,
                    "count": some.none() | some.integers(-(2**31), 2**31 - 1),
                    "at": some.none() | times,
                }
            ),
            max_size=3,
        ),
        "address": some.none() | some.fixed_dictionaries({"city": texts, "zip": some.none() | some.integers(0, 9)}),
    }
)


@settings(deadline=None, max_examples=60)
@given(rows=some.lists(orders, min_size=1, max_size=5), format_=some.sampled_from(["json", "msgpack", "avro"]))
def test_whatever_is_encoded_is_decoded(rows: list[dict[str, Any]], format_: str) -> None:
    bodies = [as_body(format_, row) for row in rows]
    assert [values(row) for row in decode(bodies, payload=format_, schema=ORDER)] == rows


BAD = [
    b"", b"nope", b"[]", b"null", b'{"id":"x"}', b'{"amount":1}', b'{"id":null}', b'{"id":1,"weight":NaN}',
    b'{"id":1,"amount":1.234}', b'{"id":1}{"id":2}', b'{"id":1},{"id":2}', b'{"id":1', b'{"id":1,"lines":[', b"}",
    b'{"id":1,"customer":"\xff"}', b'{"id":1,"raw":"*"}', b'{"id":1,"at":"noon"}', b'{"id":1,"day":"2026-13-01"}',
    b'{"id":9223372036854775808}', b'{"id":1,"lines":[{"count":2147483648}]}', b'{"id":1,"weight":1e999}',
]  # fmt: skip
GOOD = [
    b'{"id":1}', b' {"id":2,\n"amount":"9.900"}\n', b'{"id":3,"new":[{"x":[1]}],"amount":1e2}', b'{"id":4,"weight":5}',
    b'{"id":5,"at":"2026-11-17T09:12:05.123456789Z"}', b'{"id":6,"at":"2026-11-17T11:12:05+02:00"}',
    b'{"id":7,"at":"2026-11-17 09:12:05"}', b'{"id":8,"customer":"\\ud83d\\ude00 }\\n{"}',
]  # fmt: skip


@settings(deadline=None, max_examples=40)
@given(bodies=some.lists(some.sampled_from(BAD + GOOD), min_size=1, max_size=12))
def test_a_body_is_decoded_alike_whatever_is_beside_it(bodies: list[bytes]) -> None:
    together = decode(bodies, schema=ORDER)
    alone = [decode([body], schema=ORDER)[0] for body in bodies]
    assert [{**row, "queue_offset": 0} for row in together] == alone
    assert [row[CORRUPT_RECORD] is None for row in together] == [body in GOOD for body in bodies]


@pytest.mark.parametrize("body", BAD)
def test_a_bad_body_is_a_row_of_nulls_with_its_reason_and_itself(body: bytes) -> None:
    good, bad = decode([b'{"id":1}', body], schema=ORDER)
    assert good["id"] == 1 and good[ERROR] is None
    assert set(values(bad).values()) == {None}
    assert bad[ERROR] and bad[CORRUPT_RECORD] == body


def test_reasons_name_the_field() -> None:
    wrong = [b'{"id":"x"}', b'{"amount":1}', b'{"id":1,"at":"noon"}', None]
    assert [row[ERROR] for row in decode(wrong, schema=ORDER)] == [
        "Expected `int`, got `str` - at `$.id`",
        "Object missing required field `id`",
        "'noonZ' is no time as in 2026-11-17T09:12:05Z",
        "its body cannot be decompressed",
    ]


def test_times_without_zone_are_utc_and_digits_below_microseconds_are_cut() -> None:
    rows = decode([GOOD[4], GOOD[5], GOOD[6]], schema=ORDER)
    base = datetime(2026, 11, 17, 9, 12, 5, tzinfo=UTC)
    assert [row["at"] for row in rows] == [base.replace(microsecond=123456), base, base]


def test_failfast_names_the_message() -> None:
    with pytest.raises(CorruptRowError, match="offset 1 of orders, queue 3 of broker-a, cannot be decoded: Expected"):
        decode([b'{"id":1}', b'{"id":"x"}'], schema=ORDER, payloadMode="FAILFAST")


def test_dropmalformed_leaves_bad_rows_out() -> None:
    rows = decode([b'{"id":1}', b"nope", b'{"id":3}'], schema=ORDER, payloadMode="DROPMALFORMED")
    assert [(row["queue_offset"], row["id"]) for row in rows] == [(0, 1), (2, 3)]


def test_maps_and_values_of_any_shape() -> None:
    schema = json.dumps(
        {
            "type": "object",
            "properties": {
                "prices": {"type": "object", "additionalProperties": {"type": "number"}},
                "since": {"type": "object", "additionalProperties": {"type": "string", "format": "date-time"}},
                "anything": {},
            },
        }
    )
    body = b'{"prices":{"a":1,"b":null},"since":{"x":"2026-11-17T09:12:05Z"},"anything":{"deep":[1,"2"]}}'
    row, empty = decode([body, b"{}"], schema=schema)
    assert row["prices"] == [("a", 1.0), ("b", None)]
    assert row["since"] == [("x", datetime(2026, 11, 17, 9, 12, 5, tzinfo=UTC))]
    assert row["anything"] == '{"deep":[1,"2"]}'
    assert (values(empty), empty[ERROR]) == (dict.fromkeys(("prices", "since", "anything")), None)


def test_text() -> None:
    rows = decode(["Köln".encode(), b"\xff"], payload="text")
    assert [row["value"] for row in rows] == ["Köln", None]
    assert "utf-8" in rows[1][ERROR]


def test_no_rows() -> None:
    assert decode([], schema=ORDER) == []


def test_only_the_columns_that_are_asked_for_are_decoded() -> None:
    options = options_of(payload="json", schema=ORDER)
    typed = rows_of(options, pa.schema([("customer", pa.string()), ("id", pa.int64())]))
    assert typed is not None and typed.stored.names == ["body"]
    (made,) = typed.rows([pa.RecordBatch.from_arrays([pa.array([b'{"id":1,"at":"noon"}'])], ["body"])])
    assert made.to_pylist() == [{"customer": None, "id": 1}]


def test_columns_of_a_query_are_a_schema() -> None:
    typed = rows_of(options_of(payload="json"), pa.schema([("price", pa.int64())]))
    assert typed is not None
    (made,) = typed.rows([pa.RecordBatch.from_arrays([pa.array([b'{"price":7}'])], ["body"])])
    assert made.to_pylist() == [{"price": 7}]


def test_the_columns_of_a_typed_read() -> None:
    names = typed_schema(options_of(payload="json", schema="id bigint NOT NULL"))
    assert names.endswith("properties map<string,string>, id bigint, _error string, _corrupt_record binary")


@pytest.mark.parametrize(
    ("given_options", "words"),
    [
        ({"payload": "json"}, "option schema: payload needs one: DDL, a file or a class"),
        ({"payload": "xml"}, "option payload: 'xml' is not one of json, text, avro, msgpack, protobuf"),
        ({"schema": "id bigint"}, "option schema: it needs payload"),
        ({"payloadMode": "failfast"}, "option payloadMode: it needs payload"),
        ({"payload": "text", "schema": "a int"}, "text has no schema: its column is value"),
        ({"payload": "json", "schema": "tags string"}, "field tags has the name of a column of the source"),
        ({"payload": "json", "schema": "id bigger"}, "the schema needs a type after 'id', and has bigger"),
        ({"payload": "protobuf", "schema": "id bigint"}, "Protobuf needs a message type"),
    ],
)
def test_mistakes_in_options(given_options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError) as caught:
        typed_schema(options_of(**given_options))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pa.field("price", pa.int64()), "there is no column price; the schema has id, customer"),
        (pa.field("id", pa.string()), "column id bigint of the schema is asked for as id string"),
        (pa.field("id", pa.int64(), nullable=False), "column id is NOT NULL"),
        (pa.field("_error", pa.int64()), "column _error is string, not int64"),
    ],
)
def test_mistakes_in_columns(column: pa.Field, words: str) -> None:
    with pytest.raises(SchemaError) as caught:
        rows_of(options_of(payload="json", schema=ORDER), pa.schema([column]))
    assert words in str(caught.value)
