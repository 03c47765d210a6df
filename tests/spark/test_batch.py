"""Batch reads."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from pyspark.errors import PySparkException

from pyromq import Message
from pyromq.pipeline.arrow.columns import COLUMNS
from tests.spark.topics import Topics, bodies

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("lane")]


def read(spark: Any, options: dict[str, str], schema: str = "") -> Any:
    reader = spark.read.format("pyromq").options(**options)
    return (reader.schema(schema) if schema else reader).load()


def test_a_topic_from_its_beginning_to_its_end(spark: Any, topics: Topics) -> None:
    topic = topics.make(queues=3)
    receipt = topics.producer.send(
        Message(topic, b"first", tags="red", keys=("a", "b"), properties={"colour": "blue"}),
        queue=topics.queues(topic)[1],
    )
    sent = topics.send(topic, range(50))
    frame = read(spark, topics.options(topic))
    rows = frame.collect()
    assert frame.columns == list(COLUMNS)
    assert bodies(rows) == bodies([{"body": each.encode()} for each in [*sent, "first"]])
    assert len({(row.queue_id, row.queue_offset) for row in rows}) == 51
    (first,) = [row for row in rows if row.body == b"first"]
    assert (first.topic, first.broker, first.queue_id, first.queue_offset) == (topic, "broker-a", 1, 0)
    assert (first.tags, first.keys, first.message_id) == ("red", "a b", receipt.message_id)
    assert first.properties["colour"] == "blue"
    assert abs(first.store_time.timestamp() - time.time()) < 3600 * 15


def test_large_compressed_bodies(spark: Any, topics: Topics) -> None:
    topic = topics.make(queues=1)
    large = [f"{number}" * 200_000 for number in range(5)]
    topics.send(topic, large)
    assert [row.body.decode() for row in read(spark, topics.options(topic)).collect()] == large


def test_only_the_columns_asked_for(spark: Any, topics: Topics) -> None:
    topic = topics.make(queues=1)
    topics.send(topic, range(3), tags="red")
    frame = read(spark, topics.options(topic), "queue_offset bigint, properties string, tags string")
    assert frame.columns == ["queue_offset", "properties", "tags"]
    rows = frame.collect()
    assert [(row.queue_offset, row.tags) for row in rows] == [(0, "red"), (1, "red"), (2, "red")]
    assert "TAGS\x01red\x02" in rows[0].properties


def test_ranges(spark: Any, topics: Topics) -> None:
    topic = topics.make(queues=2)
    sent = topics.send(topic, range(20), queue=0)
    where = json.dumps({topic: {"broker-a": {"0": 5, "1": 0}}})
    until = json.dumps({topic: {"broker-a": {"0": 9}}})
    rows = read(spark, topics.options(topic, startingOffsets=where, endingOffsets=until)).collect()
    assert [row.body.decode() for row in rows] == sent[5:9]
    time.sleep(0.01)
    between_ms = int(time.time() * 1000)
    time.sleep(0.01)
    late = topics.send(topic, ["late"], queue=0)
    rows = read(spark, topics.options(topic, startingTimestamp=between_ms)).collect()
    assert [row.body.decode() for row in rows] == late
    rows = read(spark, topics.options(topic, endingTimestamp=between_ms)).collect()
    assert [row.body.decode() for row in rows] == sent
    topics.admin.groups.create(topics.group)
    rows = read(spark, topics.options(topic, startingOffsets="group", group=topics.group)).collect()
    assert len(rows) == 21


def test_partitions_are_split_and_grouped(spark: Any, topics: Topics) -> None:
    topic = topics.make(queues=4)
    sent = topics.send(topic, range(40))
    for options, count in (({"minPartitions": 8}, 8), ({"maxPartitions": 2}, 2), ({"maxRecordsPerPartition": 5}, 8)):
        frame = read(spark, topics.options(topic, **options))
        assert frame.rdd.getNumPartitions() == count, options
        assert bodies(frame.collect()) == bodies([{"body": each.encode()} for each in sent])


def test_messages_are_filtered_by_brokers(spark: Any, topics: Topics) -> None:
    topic = topics.make(queues=2)
    red = topics.send(topic, range(10), tags="red")
    topics.send(topic, range(10, 30), tags="blue", properties={"size": "5"})
    large = topics.send(topic, range(30, 40), tags="green", properties={"size": "9"})
    rows = read(spark, topics.options(topic, tags="red || none")).collect()
    assert bodies(rows) == bodies([{"body": each.encode()} for each in red])
    rows = read(spark, topics.options(topic, sql="size > 6")).collect()
    assert bodies(rows) == bodies([{"body": each.encode()} for each in large])
    middle = json.dumps({topic: {"broker-a": {"0": 2, "1": 1}}})
    rows = read(spark, topics.options(topic, tags="red", endingOffsets=middle)).collect()
    assert len(rows) == 3


def test_small_responses_are_gathered(spark: Any, topics: Topics) -> None:
    """Pulls that bring little, of bodies whose sizes differ: guesses go wrong, rows do not."""
    topic = topics.make(queues=1)
    sent = topics.send(topic, [str(number) * (1 + number * 37 % 3000) for number in range(150)])
    for options in ({"pullBatchSize": 3}, {"pullBatchSize": 1, "gatherBytes": "1k"}, {"batchRows": 7}):
        rows = read(spark, topics.options(topic, **options)).collect()
        assert [row.body.decode() for row in rows] == sent, options


def test_several_topics_and_patterns(spark: Any, topics: Topics) -> None:
    one, two = topics.make("-x1"), topics.make("-x2")
    topics.send(one, range(3))
    topics.send(two, range(3, 7))
    assert len(read(spark, topics.options(f"{one}, {two}")).collect()) == 7
    options = topics.options("", topicPattern=topics.name("-x."))
    del options["topic"]
    assert {row.topic for row in read(spark, options).collect()} == {one, two}


def test_an_empty_topic_has_no_rows(spark: Any, topics: Topics) -> None:
    assert read(spark, topics.options(topics.make())).collect() == []


@pytest.mark.parametrize(
    ("options", "schema", "text"),
    [
        ({"maxOffsetsPerTriger": "5"}, "", "did you mean maxOffsetsPerTrigger"),
        ({"startingOffsets": "newest"}, "", "option startingOffsets: 'newest' is not earliest"),
        ({"topic": "no-such-topic-anywhere"}, "", "no-such-topic-anywhere"),
        ({"sql": "size >"}, "", "size >|SQL|expression"),
        ({}, "colour string", "there is no column colour"),
        ({"nameserver": "127.0.0.1:1", "retryTimeout": "200ms"}, "", "retryTimeout"),
    ],
)
def test_mistakes_are_told(spark: Any, topics: Topics, options: dict[str, str], schema: str, text: str) -> None:
    topic = topics.make()
    topics.send(topic, range(2))
    with pytest.raises(PySparkException, match=text):
        read(spark, {**topics.options(topic), **options}, schema).collect()


def test_load_tells_every_mistake(spark: Any) -> None:
    options = {"topik": "orders", "minPartitions": "few"}
    words = "option topik: .*did you mean topic.*; also option minPartitions: 'few' is not"
    with pytest.raises(PySparkException, match=words):
        spark.read.format("pyromq").options(**options).load()
    with pytest.raises(PySparkException, match=words):
        spark.readStream.format("pyromq").options(**options).load()


def test_a_start_beyond_its_end_is_refused(spark: Any, topics: Topics) -> None:
    topic = topics.make(queues=1)
    topics.send(topic, range(9))
    ends = json.dumps({topic: {"broker-a": {"0": 3}}})
    late = topics.options(topic, startingTimestamp=4_000_000_000_000, endingOffsets=ends)
    with pytest.raises(PySparkException, match=r"starts at 9 \(startingTimestamp .* ends at 3 \(endingOffsets\)"):
        read(spark, late).count()


def test_a_second_read_sees_what_arrived_and_a_frame_does_not(spark: Any, topics: Topics) -> None:
    """Spark plans a Python source once for each frame; docs/how-to/spark.md tells what to do."""
    topic = topics.make(queues=1)
    options = topics.options(topic)
    topics.send(topic, range(3))
    frame = read(spark, options)
    frame.createOrReplaceTempView("kept")
    assert frame.count() == 3
    topics.send(topic, range(2))
    assert read(spark, options).count() == 5
    assert frame.count() == 3 and spark.table("kept").count() == 3


def test_a_table_is_planned_anew_for_every_query(spark: Any, topics: Topics) -> None:
    topic, table = topics.make(queues=1), "planned_anew"
    given = ", ".join(f"{name} '{value}'" for name, value in topics.options(topic).items())
    spark.sql(f"CREATE TABLE {table} USING pyromq OPTIONS ({given})")
    try:
        topics.send(topic, range(3))
        counted = f"SELECT count(*) AS n FROM {table}"
        asked = f"{counted} WITH ({given.replace(' ', ' = ').replace(', = ', ', ')})"
        assert spark.sql(asked).first().n == 3
        topics.admin.topics.create(topic, queues=2)
        topics.create(topic, 2)
        topics.send(topic, range(2), queue=1)
        assert spark.sql(asked).first().n == 5, "a new queue, too"
        with pytest.raises(PySparkException, match="Spark keeps no options of CREATE TABLE"):
            spark.sql(counted).first()
        assert spark.read.options(**topics.options(topic)).table(table).count() == 5
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW always_new AS {asked.replace('count(*) AS n', '*')}")
        assert spark.table("always_new").count() == 5
        topics.send(topic, range(1))
        assert spark.table("always_new").count() == 6
    finally:
        spark.sql(f"DROP TABLE {table}")


def test_sql_writes_to_a_table_with_the_columns_of_the_sink(spark: Any, topics: Topics) -> None:
    topic, table = topics.make(queues=1), "written_to"
    given = ", ".join(f"{name} = '{value}'" for name, value in topics.options(topic).items())
    spark.sql(f"CREATE TABLE {table} (body binary, tags string) USING pyromq")
    try:
        spark.sql(f"INSERT INTO {table} WITH ({given}) VALUES (binary('one'), 'a'), (binary('two'), 'b')")
    finally:
        spark.sql(f"DROP TABLE {table}")
    assert bodies(read(spark, topics.options(topic)).collect()) == {"one": 1, "two": 1}


def test_a_save_needs_a_mode(spark: Any, topics: Topics) -> None:
    with pytest.raises(PySparkException, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
        spark.range(1).selectExpr("'a' AS body").write.format("pyromq").options(**topics.options("orders")).save()


def test_a_view_of_sql_has_options(spark: Any, topics: Topics) -> None:
    topic = topics.make(queues=1)
    topics.send(topic, range(3))
    given = ", ".join(f"{name} '{value}'" for name, value in topics.options(topic).items())
    for sent in (0, 2):
        topics.send(topic, range(sent))
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW of_sql USING pyromq OPTIONS ({given})")
        assert spark.table("of_sql").count() == 3 + sent
