"""Typed topics: fields of bodies as columns of Spark."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from pyspark.errors import PySparkException

from pyromq import Message
from tests.spark.queries import Collected, run
from tests.spark.topics import Topics

pytestmark = pytest.mark.spark

SCHEMA = (
    "id bigint NOT NULL, amount decimal(10,2), at timestamp, day date, raw binary, prices map<string,double>, "
    "lines array<struct<sku:string,count:int,at:timestamp>>, address struct<city:string,tags:array<string>>"
)
ORDER = {
    "id": 1,
    "amount": Decimal("9.90"),
    "at": "2026-11-17T09:12:05Z",
    "day": date(2026, 11, 17),
    "raw": b"\x00\xff",
    "prices": {"a": 1.5},
    "lines": [{"sku": "a", "count": 2, "at": "2026-11-17T09:12:05Z"}, {"sku": None}],
    "address": {"city": "Köln", "tags": ["x", None]},
}


def send(topics: Topics, topic: str, *values: Any) -> None:
    for value in values:
        body = value if isinstance(value, bytes) else msgspec.json.encode(value)
        topics.producer.send(Message(topic, body))


def read(spark: Any, topics: Topics, topic: str, columns: str = "", **options: Any) -> Any:
    reader = spark.read.format("pyromq").options(**topics.options(topic, payload="json", **options))
    return (reader.schema(columns) if columns else reader).load()


def test_every_type_is_a_column_and_a_bad_body_a_row(spark: Any, topics: Topics) -> None:
    topic = topics.make(queues=1)
    send(topics, topic, ORDER, {"id": 2}, b"nope")
    frame = read(spark, topics, topic, schema=SCHEMA)
    assert "body" not in frame.columns and frame.columns[-2:] == ["_error", "_corrupt_record"]
    one = frame.where("id = 1").selectExpr(
        "queue_offset", "amount", "unix_timestamp(at) AS at", "day", "raw", "prices", "lines", "address.*"
    )
    (row,) = one.collect()
    assert (row.queue_offset, row.amount, row.at, row.day) == (0, Decimal("9.90"), 1794906725, date(2026, 11, 17))
    assert (bytes(row.raw), row.prices, row.city, row.tags) == (b"\x00\xff", {"a": 1.5}, "Köln", ["x", None])
    assert [(line["sku"], line["count"]) for line in row.lines] == [("a", 2), (None, None)]
    _, few, bad = frame.orderBy("queue_offset").collect()
    assert (few.id, few.amount, few.lines, few._error) == (2, None, None, None)
    assert (bad.id, bytes(bad._corrupt_record)) == (None, b"nope") and "malformed" in bad._error


def test_failfast_ends_with_the_place_and_dropmalformed_goes_on(spark: Any, topics: Topics) -> None:
    topic = topics.make(queues=1)
    send(topics, topic, {"id": 1}, {"id": "x"}, {"id": 3})
    kept = read(spark, topics, topic, "id bigint NOT NULL", schema="id bigint", payloadMode="DROPMALFORMED")
    assert [row.id for row in kept.collect()] == [1, 3]
    with pytest.raises(PySparkException, match=f"offset 1 of {topic}, queue 0 of broker-a, cannot be decoded"):
        read(spark, topics, topic, schema="id bigint", payloadMode="failfast").collect()


def test_mistakes_are_said_in_load(spark: Any, topics: Topics) -> None:
    topic = topics.make(queues=1)
    with pytest.raises(PySparkException, match="option schema: payload needs one"):
        read(spark, topics, topic)
    with pytest.raises(PySparkException, match="field tags has the name of a column"):
        read(spark, topics, topic, schema="tags string")


def test_a_stream_goes_on_over_a_change_of_the_schema(spark: Any, topics: Topics, checkpoint: str) -> None:
    topic = topics.make(queues=1)
    options = topics.options(topic, group=topics.group, startingOffsets="earliest", payload="json")
    first, second = Collected(), Collected()
    send(topics, topic, {"id": 1}, {"id": 2, "name": "early"})
    run(spark, {**options, "schema": "id bigint"}, checkpoint, first)
    send(topics, topic, {"id": 3}, {"id": 4, "name": "Ada"}, {"id": 5, "name": 5})
    run(spark, {**options, "schema": "id bigint, name string"}, checkpoint, second)
    assert [row.id for row in first.rows] == [1, 2]
    assert [(row.id, row.name, row._error) for row in second.rows] == [
        (3, None, None),
        (4, "Ada", None),
        (None, None, "Expected `str | null`, got `int` - at `$.name`"),
    ]


def test_conditions_on_columns_of_both_kinds(spark: Any, topics: Topics) -> None:
    topic = topics.make(queues=2)
    send(topics, topic, *({"id": number} for number in range(10)))
    frame = read(spark, topics, topic, schema="id bigint", pushFilters=True)
    assert frame.where("queue_id = 0 AND id >= 0").count() == 5


def test_the_sink_writes_what_the_source_reads(spark: Any, topics: Topics) -> None:
    topic, copy = topics.make(queues=1), topics.make("-copy", queues=1)
    send(topics, topic, ORDER, {"id": 2})
    rows = read(spark, topics, topic, schema=SCHEMA).drop("_error", "_corrupt_record")
    fields = list(ORDER)
    for payload in ("json", "msgpack"):
        to_copy = topics.options(copy, payload=payload, schema=SCHEMA)
        rows.select(*fields).write.format("pyromq").options(**to_copy).mode("append").save()
    there = spark.read.format("pyromq").options(**topics.options(copy)).load().select("properties", "body")
    assert [row.properties["content_type"] for row in there.collect()] == [
        *["application/json"] * 2,
        *["application/msgpack"] * 2,
    ]
    again = read(spark, topics, copy, schema=SCHEMA).where("_error IS NULL").select(*fields)
    assert sorted(map(str, again.collect())) == sorted(map(str, rows.select(*fields).collect()))


def test_a_row_that_cannot_be_written_is_set_aside(spark: Any, topics: Topics) -> None:
    topic, bad = topics.make(queues=1), topics.make("-bad", queues=1)
    options = topics.options(topic, payload="json", schema="id bigint NOT NULL", badRows=bad)
    spark.range(5).selectExpr("nullif(id, 3) AS id").write.format("pyromq").options(**options).mode("append").save()
    assert read(spark, topics, topic, schema="id bigint").count() == 4
    (aside,) = spark.read.format("pyromq").options(**topics.options(bad)).load().collect()
    assert "it is null, and the schema says NOT NULL" in bytes(aside.body).decode()


def test_the_schema_kept_with_the_topic_is_read_and_written_by(spark: Any, topics: Topics) -> None:
    topic, copy = topics.make(queues=1), topics.make("-copy", queues=1)
    for name, payload in ((topic, "avro"), (copy, "json")):
        topics.admin.schemas.set(name, "id bigint NOT NULL, colour string", payload=payload)
    topics.producer.send(topic, {"id": 1, "colour": "red"})
    topics.producer.send(topic, {"id": 2})
    topics.producer.send(topic, b"\xff\xff")
    frame = spark.read.format("pyromq").options(**topics.options(topic, schema="topic")).load()
    rows = frame.orderBy("queue_offset").select("id", "colour", "_error").collect()
    assert [(row.id, row.colour) for row in rows] == [(1, "red"), (2, None), (None, None)]
    assert rows[2]._error and not rows[0]._error
    good = frame.where("_error IS NULL").select("id", "colour")
    good.write.format("pyromq").options(**topics.options(copy, schema="topic")).mode("append").save()
    bodies = spark.read.format("pyromq").options(**topics.options(copy)).load().select("body").collect()
    assert [bytes(row.body) for row in bodies] == [b'{"id":1,"colour":"red"}', b'{"id":2}']
    with pytest.raises(PySparkException, match="pyromq topic schema set"):
        spark.read.format("pyromq").options(**topics.options(topics.make("-bare"), schema="topic")).load()


def test_bodies_that_cannot_be_decoded_go_to_a_topic(spark: Any, topics: Topics, checkpoint: str) -> None:
    topic, bad = topics.make(queues=1), topics.make("-bad", queues=1)
    send(topics, topic, {"id": 1}, b"nope", {"id": "x"}, {"id": 4})
    options = topics.options(topic, group=topics.group, startingOffsets="earliest", payload="json")
    collected = Collected()
    run(spark, {**options, "schema": "id bigint NOT NULL", "badRows": bad}, checkpoint, collected)
    assert [row.id for row in collected.rows] == [1, 4]
    by_place = {letter.keys: letter for letter in topics.admin.messages.newest(bad, 10)}  # a task may run twice
    letters = [by_place[key] for key in sorted(by_place)]
    assert [letter.body for letter in letters] == [b"nope", b'{"id":"x"}']
    assert "malformed" in (letters[0].get("dead_letter_reason") or "")
    assert letters[1].get("dead_letter_reason") == "Expected `int`, got `str` - at `$.id`"
    place = [letters[1].get(f"dead_letter_{name}") for name in ("topic", "queue", "offset")]
    assert place == [topic, "0", "2"] and letters[1].keys == (f"{topic}/broker-a/0/2",)
