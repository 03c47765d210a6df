"""The JVM lane beside the Python source: the same rows, columns, errors, offsets, whichever reads."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812

from pyromq import Message
from pyromq.errors import MQError
from pyromq.pipeline.arrow.columns import COLUMNS
from pyromq.pipeline.spark.jvm.jar import lane_jar
from tests.running.seeds import seed_of
from tests.spark.queries import Collected, run, until
from tests.spark.scripted_broker import TOPIC, ScriptedBroker
from tests.spark.topics import Topics, bodies
from tests.unit.wire.odd_records import odd_record

pytestmark = pytest.mark.spark
LANES = ("python", "jvm")
TIMES = ("born_time", "store_time")
PLAIN = [f"unix_micros({name}) AS {name}" if name in TIMES else name for name in COLUMNS]
"""All columns; times as numbers, since some of them are no dates of Python's."""


@pytest.fixture(autouse=True)
def _jar() -> None:
    try:
        lane_jar()
    except MQError as error:
        pytest.skip(str(error))


def read(spark: Any, options: dict[str, str], lane: str, **more: str) -> Any:
    return spark.read.format("pyromq").options(**options, lane=lane, **more).load()


def rows_of(frame: Any) -> list[Any]:
    return sorted(frame.selectExpr(*PLAIN).collect(), key=lambda row: (row.queue_id, row.queue_offset))


@pytest.mark.seeded
def test_both_lanes_read_the_same_of_odd_records(spark: Any) -> None:
    rng = Random(seed_of(27))
    records = [odd_record(rng, offset, oddness=rng.choice((0, 0.3, 1))) for offset in range(600)]
    with ScriptedBroker(records, rng) as broker:
        options = {"nameserver": broker.address, "topic": TOPIC}
        for form in ("map", "raw"):
            by_python, by_jvm = (rows_of(read(spark, options, lane, properties=form)) for lane in LANES)
            assert len(by_jvm) == len(records)
            assert [row for row in zip(by_jvm, by_python, strict=True) if row[0] != row[1]] == []
        red = [read(spark, options, lane, tags="red || grün").count() for lane in LANES]
        assert red[0] == red[1] > 0


def test_damaged_and_missing_records_end_both_lanes_with_the_same_words(spark: Any) -> None:
    rng = Random(1)
    records = [odd_record(rng, offset, oddness=0) for offset in range(30)]
    cut = [*records[:20], records[20][:-3], *records[21:]]
    for given, first, words in ((cut, 0, "is damaged"), (records, 9, "begins at 9 now, offsets 0 to 9 are gone")):
        with ScriptedBroker(given, rng, first=first) as broker:
            options = {"nameserver": broker.address, "topic": TOPIC, "retryTimeout": "200ms"}
            for lane in LANES:
                with pytest.raises((PySparkException, Py4JJavaError), match=words):
                    read(spark, options, lane).collect()
            if first:
                for lane in LANES:
                    found = read(spark, options, lane, failOnDataLoss="false").select("queue_offset").collect()
                    assert sorted(row.queue_offset for row in found) == list(range(9, 30))


@pytest.mark.parametrize("lane", LANES)
def test_options_of_another_read_and_of_kafka_are_refused_in_words(spark: Any, topics: Topics, lane: str) -> None:
    """A group makes it possible that a stream is meant: then it is the first action that refuses."""
    topic = topics.make(queues=1)
    options = topics.options(topic, lane=lane)
    mistaken: list[tuple[dict[str, str], str]] = [
        ({"maxOffsetsPerTrigger": "5"}, "a batch has no triggers"),
        ({"subscribe": topic}, "that is Kafka's name; here it is topic"),
        ({"kafka.bootstrap.servers": "a:1"}, "that is Kafka's name; here it is nameserver"),
    ]
    for more, words in mistaken:
        with pytest.raises(PySparkException, match=words):
            spark.read.format("pyromq").options(**options, **more).load()
    frame = spark.read.format("pyromq").options(**options, group="g", maxOffsetsPerTrigger="5").load()
    with pytest.raises((PySparkException, Py4JJavaError), match="a batch has no triggers"):
        frame.collect()
    with pytest.raises(PySparkException, match="that is Kafka's name; here it is topic"):
        spark.readStream.format("pyromq").options(**options, group="g", subscribe=topic).load()


def test_connections_that_break_lose_and_repeat_nothing(spark: Any) -> None:
    rng = Random(2)
    records = [odd_record(rng, offset, oddness=0) for offset in range(300)]
    with ScriptedBroker(records, rng, cuts=7) as broker:
        options = {"nameserver": broker.address, "topic": TOPIC}
        for lane in LANES:
            found = read(spark, options, lane).select("queue_offset").collect()
            assert [row.queue_offset for row in found] == list(range(300)), lane


def test_compressed_bodies_and_columns_one_by_one(spark: Any, topics: Topics) -> None:
    topic = topics.make(queues=1)
    topics.send(topic, ["a" * 100_000, "b", "d", "c" * 50_000], tags="red")
    topics.producer.send(Message(topic, b"plain", keys=("k",), properties={"größe": "9"}))
    options = topics.options(topic)
    by_python, by_jvm = (rows_of(read(spark, options, lane)) for lane in LANES)
    assert by_jvm == by_python and len(by_jvm) == 5
    for first in range(4):
        some = COLUMNS[first::4]
        found = read(spark, options, "jvm").selectExpr(*[PLAIN[COLUMNS.index(name)] for name in some]).collect()
        assert found == [tuple(row[name] for name in some) for row in by_python], some
    assert read(spark, options, "jvm").count() == 5
    assert len(read(spark, options, "jvm", pullBatchSize="1").limit(2).collect()) == 2


def test_the_plan_names_the_lane_and_the_columns_that_are_read(spark: Any, topics: Topics) -> None:
    topic = topics.make(queues=1)
    topics.send(topic, range(3))
    frames = [read(spark, topics.options(topic), lane) for lane in ("auto", "jvm", "python")]
    frames.append(spark.read.format("pyromq").options(**topics.options(topic)).load())
    plans = [frame.select("tags")._jdf.queryExecution().toString() for frame in frames]
    assert all("pyromq lane=jvm columns=[tags]" in plans[number] for number in (0, 1, 3))
    assert "lane=jvm" not in plans[2] and "(Python)" in plans[2]


@pytest.mark.parametrize("by_columns", ["true", "false"])
def test_pandas_and_arrow_functions_take_the_rows_of_both_lanes(spark: Any, topics: Topics, by_columns: str) -> None:
    """Since 4.3 Spark hands batches of columns to functions of columns; ours are no vectors of Arrow."""

    @F.pandas_udf("string")  # type: ignore[call-overload,untyped-decorator]
    def shouted(bodies: pd.Series, tags: pd.Series) -> pd.Series:
        return bodies.str.decode("utf-8").str.upper() + tags.fillna("-")

    def counted(batches: Any) -> Any:
        for batch in batches:
            yield batch.select(["queue_offset", "properties"])

    topic = topics.make(queues=1)
    topics.send(topic, ["a", "bc"], tags="red")
    topics.send(topic, ["d"])
    setting = "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled"  # of 4.3, and unknown to 4.2
    spark.conf.set(setting, by_columns)
    try:
        for lane in LANES:
            frame = read(spark, topics.options(topic), lane)
            said = frame.select("queue_offset", shouted("body", "tags").alias("said")).collect()
            assert [row.said for row in sorted(said)] == ["Ared", "BCred", "D-"], lane
            mapped = frame.mapInArrow(counted, "queue_offset bigint, properties map<string, string>").collect()
            assert [row.properties.get("TAGS") for row in sorted(mapped, key=lambda row: row[0])] == [
                "red",
                "red",
                None,
            ]
    finally:
        spark.conf.unset(setting)


def test_functions_that_get_batches_as_they_are_get_several_responses_at_once(spark: Any, topics: Topics) -> None:
    """Sessions of others have that setting on, since Spark 4.3; a function is called for each batch."""

    @F.pandas_udf("long")  # type: ignore[call-overload,untyped-decorator]
    def together(offsets: pd.Series) -> pd.Series:
        return offsets * 0 + len(offsets)

    topic = topics.make(queues=1)
    topics.send(topic, range(300))
    setting = "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled"
    spark.conf.set(setting, "true")
    try:
        frame = read(spark, topics.options(topic), "jvm", pullBatchSize="20")
        sizes = [row.size for row in frame.select(together("queue_offset").alias("size")).collect()]
        assert len(sizes) == 300 and min(sizes) > 20
        assert sorted(row.queue_offset for row in frame.select("queue_offset").collect()) == list(range(300))
    finally:
        spark.conf.unset(setting)


def test_what_the_lane_cannot_do_is_left_to_python_or_refused(spark: Any, topics: Topics, tmp_path: Path) -> None:
    topic = topics.make(queues=1)
    topics.send(topic, ['{"price": 3}'])
    options = topics.options(topic, payload="json", schema="price int")
    frame = read(spark, options, "auto")
    assert "lane=jvm" not in frame._jdf.queryExecution().toString()
    assert [row.price for row in frame.collect()] == [3]
    with pytest.raises(PySparkException, match="payload and storePath need python"):
        read(spark, options, "jvm")
    with pytest.raises(PySparkException, match="option lane: 'fast' is not one of auto, python, jvm"):
        read(spark, topics.options(topic), "fast")


def test_conditions_leave_the_next_query_of_a_frame_alone(spark: Any, topics: Topics) -> None:
    topic = topics.make(queues=2)
    topics.send(topic, range(20), tags="red")
    topics.send(topic, range(20, 30), tags="blue")
    frame = read(spark, topics.options(topic), "jvm", pushFilters="true")
    red = frame.where("tags = 'red' AND queue_id = 1")
    assert "PushedFilters: [" in red._jdf.queryExecution().toString()
    assert red.count() == 10
    assert frame.count() == 30


def test_a_stream_changes_lanes_between_two_runs(spark: Any, topics: Topics, checkpoint: str) -> None:
    topic = topics.make(queues=3)
    options = topics.options(topic, group=topics.group, startingOffsets="earliest", maxOffsetsPerTrigger=9)
    sink, told = Collected(), []
    for number, lane in enumerate(("", "python", "jvm", "python")):  # at first the one that it has by itself
        topics.send(topic, range(20 * number, 20 * number + 20))
        query = _started(spark, {**options, **({"lane": lane} if lane else {})}, checkpoint, sink)
        assert query.awaitTermination(300)
        told.append(
            {(each["sources"][0]["description"], len(each["sources"][0]["metrics"])) for each in query.recentProgress}
        )
        assert bodies(sink.rows) == Counter(topics.sent)
    assert told[0] == told[2] == {("pyromq[lane=jvm]", 1)}
    assert all("lane=jvm" not in description for description, _ in told[1] | told[3])
    assert max(sink.sizes) == 9
    until(lambda: sum(at or 0 for at in topics.committed(topic).values()) == 80, "the group stands at the end")


def test_real_time_mode_reads_what_comes_and_goes_on_where_it_stopped(
    spark: Any, topics: Topics, checkpoint: str
) -> None:
    topic = topics.make(queues=1)
    options = topics.options(topic, group=topics.group, startingOffsets="group", lane="jvm")
    names = ("allowlistCheck", "minBatchDuration")
    for name, value in zip(names, ("false", "1000"), strict=True):  # for the memory sink, and to end soon
        spark.conf.set(f"spark.sql.streaming.realTimeMode.{name}", value)
    seen = []
    try:
        for number in (1, 2):
            topics.send(topic, range(20 * number, 20 * number + 10))
            frame = spark.readStream.format("pyromq").options(**options).load().select("queue_offset", "body")
            writing = frame.writeStream.format("memory").queryName(f"live_{number}").outputMode("update")
            place = f"{checkpoint}-{number}"  # the memory sink goes on from none; the group knows where it was
            query = writing.option("checkpointLocation", place).trigger(realTime="2 seconds").start()
            _until_at(query, 20 * number - 10)
            topics.send(topic, range(20 * number + 10, 20 * number + 20))
            _until_at(query, 20 * number)
            query.stop()
            seen += spark.table(f"live_{number}").collect()
    finally:
        for name in names:
            spark.conf.unset(f"spark.sql.streaming.realTimeMode.{name}")
    assert bodies(seen) == Counter(topics.sent)
    until(lambda: topics.committed(topic) == {0: 40}, "the group stands at the end")


def _until_at(query: Any, offset: int) -> None:
    """A batch is done that ends there, in the only queue."""

    def end() -> int:
        last = query.lastProgress
        tree = json.loads(last.sources[0].endOffset) if last is not None else {}
        return sum(at for brokers in tree.values() for queues in brokers.values() for at in queues.values())

    until(lambda: end() == offset, f"a batch ends at {offset}", query)


def _started(spark: Any, options: dict[str, str], checkpoint: str, sink: Collected) -> Any:
    frame = spark.readStream.format("pyromq").options(**options).load().select("queue_id", "queue_offset", "body")
    return (
        frame.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    )


def test_an_uncommitted_batch_is_read_again_by_the_other_lane(spark: Any, topics: Topics, checkpoint: str) -> None:
    topic = topics.make(queues=2)
    options = topics.options(topic, group=topics.group, startingOffsets="earliest")
    topics.send(topic, range(10))
    first = run(spark, {**options, "lane": "jvm"}, checkpoint)
    for name in ("0", ".0.crc"):
        (Path(checkpoint) / "commits" / name).unlink(missing_ok=True)
    topics.send(topic, range(10, 15))
    again = run(spark, {**options, "lane": "python"}, checkpoint)
    key = lambda row: (row.queue_id, row.queue_offset)  # noqa: E731
    assert sorted(again.batches[0], key=key) == sorted(first.batches[0], key=key)
    assert bodies(again.rows) == Counter(topics.sent)
