"""The sink of the JVM lane beside the Python sink: the same messages, keys, errors; and what brokers do to it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from pyromq.testing import LoopbackBroker
from pyromq.wire.codes import ResponseCode
from tests.spark.queries import until
from tests.spark.test_lanes import LANES
from tests.spark.test_sink import bodies_of, copy, rows, run_again, stored
from tests.spark.topics import Topics

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("lane_jar_or_skip")]


def write(frame: Any, topics: Topics, topic: str, lane: str, **options: object) -> None:
    given = topics.options(topic, lane=lane, **options)
    frame.write.format("pyromq").options(**given).mode("append").save()


ODD_COLUMNS = [
    "cast(concat('grün-', id) AS binary) AS body",
    "CASE id % 3 WHEN 0 THEN 'red' WHEN 1 THEN '' END AS tags",
    "CASE id % 4 WHEN 0 THEN array('a', NULL, '', concat('schlüssel-', id)) WHEN 1 THEN array() END AS keys",
    "CASE id % 5 WHEN 0 THEN map('größe', string(id), 'KEYS', 'no', 'leer', '', 'nichts', NULL) WHEN 1 THEN map() END"
    " AS properties",
    "CASE id % 2 WHEN 0 THEN concat('kunde-', id % 7) END AS sharding_key",
    "cast(id % 3 - 1 AS tinyint) AS flag",
    "CASE id % 6 WHEN 0 THEN concat('eigen-', id) WHEN 1 THEN repeat('lang', 100 + id) END AS unique_key",
]


def seen(topics: Topics, topic: str) -> Counter[tuple[Any, ...]]:
    """Messages without what differs from write to write: all but times and places, queues of rows that choose none."""
    own = {"CLUSTER", "TRACE_ON", "MSG_REGION"}
    return Counter(
        (
            message.body,
            message.flag,
            message.queue.number if message.get("__SHARDINGKEY") else None,
            tuple(sorted((name, value) for name, value in message.properties.items() if name not in own)),
            message.keys,
            message.tags,
            message.message_id,
        )
        for message in stored(topics, topic)
    )


@pytest.mark.parametrize("properties", ["map", "raw"])
def test_both_lanes_write_the_same_messages_under_the_same_ids(spark: Any, topics: Topics, properties: str) -> None:
    columns = list(ODD_COLUMNS)
    if properties == "raw":
        text = r"größe\u00019\u0002KEYS\u0001no\u0002ende\u0001x"
        columns[3] = f"CASE id % 3 WHEN 0 THEN '{text}' WHEN 1 THEN '' END AS properties"
    found = []
    for lane in LANES:
        topic = topics.make(f"-{lane}", queues=3)
        frame = spark.range(0, 500, 1, 2).selectExpr(*columns)
        write(frame, topics, topic, lane, sinkId="same", batchBytes="4k", mode="idempotent")
        found.append(seen(topics, topic))
    assert sum(found[1].values()) == 500
    assert found[0] == found[1]


@pytest.mark.parametrize("columns", [[], ["concat('id-', id) AS unique_key"]], ids=["by row", "by key"])
def test_what_one_lane_has_sent_the_other_recognises(spark: Any, topics: Topics, columns: list[str]) -> None:
    for first, second in (LANES, LANES[::-1]):
        topic = topics.make(f"-{first}", queues=3)
        for count, lane in ((100, first), (150, second), (150, first)):
            frame = spark.range(0, count, 1, 1).selectExpr("concat('row-', id) AS body", *columns)
            write(frame, topics, topic, lane, mode="idempotent", sinkId=topic)
        assert bodies_of(topics, topic) == Counter(f"row-{number}" for number in range(150))


def test_other_rows_under_the_same_names_end_an_idempotent_write(spark: Any, topics: Topics, lane: str) -> None:
    topic = topics.make()
    options = {"mode": "idempotent", "sinkId": topic}
    write(rows(spark, 20), topics, topic, lane, **options)
    with pytest.raises((PySparkException, Py4JJavaError), match="has other rows than the first time"):
        write(spark.range(0, 20, 1, 2).selectExpr("concat('new-', id) AS body"), topics, topic, lane, **options)
    assert sum(bodies_of(topics, topic).values()) == 20


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        (["'b' AS body", "'a|b' AS tags"], {}, "column tags, row 0: a tag must not contain |"),
        (["'b' AS body", r"'a\u0001b' AS keys"], {}, r"column keys, row 0: it contains \x01 or \x02"),
        (["'b' AS body", r"map('a', 'b\u0002') AS properties"], {}, "column properties, row 0: a name or value holds"),
        (["'b' AS body", "'no mark' AS properties"], {}, "column properties, row 0: it is not name"),
        (["repeat('b', 4194300) AS body"], {}, "row 0: a row with its properties has 4194"),
        (["'b' AS body", "map('a', repeat('b', 33000)) AS properties"], {}, "properties of a row has 330"),
        (["'b' AS body", "-1 AS delay_level"], {}, "column delay_level, row 0: levels are numbers from 1 on, not -1"),
        (["'b' AS body", "'no name' AS topic"], {"topic": ""}, "column topic, row 0: topic name 'no name' is not"),
        (["'b' AS body", "'other' AS topic"], {"topic": "one,two"}, "other is not among those in the option topic"),
        (["'b' AS body", "0 AS queue_id", "'b9' AS broker"], {}, "has no queue 0 on broker b9"),
    ],
)
def test_rows_that_no_broker_takes_are_named(
    spark: Any, topics: Topics, lane: str, columns: list[str], options: dict[str, str], words: str
) -> None:
    given = {**topics.options(topics.make()), "lane": lane, **options}
    given = {name: value for name, value in given.items() if value}
    writing = spark.range(0, 1, 1, 1).selectExpr(*columns).write.format("pyromq").options(**given).mode("append")
    with pytest.raises((PySparkException, Py4JJavaError), match=re.escape(words)):
        writing.save()


MIXED_COLUMNS = [
    "CASE id % 10 WHEN 3 THEN cast('' AS binary) WHEN 5 THEN NULL ELSE cast(concat('grün-', id) AS binary) END AS body",
    "CASE WHEN id % 10 IN (3, 7) THEN 'a|b' WHEN id % 10 = 8 THEN 'red' END AS tags",
    r"CASE id % 10 WHEN 4 THEN array('a', 'b\u0001') WHEN 6 THEN array('x', NULL) END AS keys",
    r"CASE id % 10 WHEN 1 THEN map('größe', 'b\u0002', 'leer', NULL) WHEN 2 THEN map('a', repeat('b', 33000)) END"
    " AS properties",
    "CASE id WHEN 8 THEN 9 WHEN 9 THEN 1 WHEN 7 THEN 9 END AS queue_id",
    "timestamp_micros(1700000000000000 + id % 2) AS deliver_time",
    "cast(id % 3 - 1 AS tinyint) AS flag",
]
"""Rows with every kind of mistake, some with two of them."""


@pytest.mark.parametrize("place", ["topic", "folder"])
def test_both_lanes_set_the_same_rows_aside_for_the_same_reasons(
    spark: Any, topics: Topics, tmp_path: Path, place: str
) -> None:
    aside, sent = [], []
    for lane in LANES:
        topic, folder = topics.make(f"-{lane}", queues=2), tmp_path / lane
        bad = topics.make(f"-{lane}-bad") if place == "topic" else str(folder)
        frame = spark.range(0, 60, 1, 2).selectExpr(*MIXED_COLUMNS)
        write(frame, topics, topic, lane, badRows=bad, batchBytes="2k", sinkId="aside")
        if place == "topic":
            letters = stored(topics, bad)
            assert {letter.tags for letter in letters} == {"bad-row"}
            assert len({letter.message_id for letter in letters}) == len(letters)
            texts = [letter.body.decode() for letter in letters]
        else:
            texts = [line for path in folder.glob("bad-rows-*.jsonl") for line in path.read_text().splitlines()]
        found = (json.loads(text.replace(topic, "topic")) for text in texts)
        aside.append(sorted(found, key=json.dumps))
        sent.append(bodies_of(topics, topic))
    reasons = {re.sub(r"row \d+", "row", row["reason"]).split(":")[0] for row in aside[0]}
    assert len(reasons) == 6 and sum(sent[0].values()) + len(aside[0]) == 60
    assert aside[0] == aside[1]
    assert sent[0] == sent[1]


def test_rows_that_are_set_aside_leave_the_keys_of_others_as_the_other_lane_has_them(
    spark: Any, topics: Topics, tmp_path: Path
) -> None:
    for first, second in (LANES, LANES[::-1]):
        topic = topics.make(f"-{first}", queues=3)
        for count, lane in ((60, first), (90, second)):
            body = "if(id % 7 = 3, '', concat('row-', id)) AS body"
            frame = spark.range(0, count, 1, 1).selectExpr(body)
            write(frame, topics, topic, lane, mode="idempotent", sinkId=topic, badRows=str(tmp_path / topic))
        assert bodies_of(topics, topic) == Counter(f"row-{number}" for number in range(90) if number % 7 != 3)


# --- brokers that fail -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["at-least-once", "idempotent"])
@pytest.mark.parametrize("fault", ["lost", "cut", "done and cut", "busy", "failed"])
def test_requests_that_fail_are_sent_again(
    spark: Any, topics: Topics, broker: LoopbackBroker, mode: str, fault: str
) -> None:
    """What a broker stored without saying so comes twice, unless the mode looks first."""
    topic = topics.make(queues=3)
    match fault:
        case "lost":
            broker.faults.lose_response(topic, skip=2, times=2)
        case "cut":
            broker.faults.cut_connection(topic, skip=3, times=2)
        case "done and cut":
            broker.faults.cut_connection(topic, done=True, skip=3, times=2)
        case "busy":
            broker.faults.refuse(topic, skip=2, times=3)
        case "failed":
            broker.faults.refuse(topic, ResponseCode.SYSTEM_ERROR, skip=2, times=3)
    options = {"mode": mode, "sinkId": topic, "batchBytes": "2k", "requestTimeout": "2s", "settleTime": "50ms"}
    write(rows(spark, 1_000), topics, topic, "jvm", **options)
    assert broker.faults.waiting == 0, "it happened"
    found, expected = bodies_of(topics, topic), Counter(f"row-{number}" for number in range(1_000))
    assert not expected - found, "nothing confirmed is lost"
    if mode == "idempotent" or fault in ("busy", "failed"):
        assert found == expected


def test_requests_that_no_retry_helps_end_the_write(spark: Any, topics: Topics, broker: LoopbackBroker) -> None:
    topic = topics.make()
    broker.faults.refuse(topic, ResponseCode.MESSAGE_ILLEGAL, remark="not this one")
    with pytest.raises((PySparkException, Py4JJavaError), match="code 13: not this one"):
        write(rows(spark, 3, partitions=1), topics, topic, "jvm")
    broker.faults.refuse(topic, times=None)
    try:
        with pytest.raises((PySparkException, Py4JJavaError), match=r"sending 1 rows to topic .* failed for 0\.\d s"):
            write(rows(spark, 1, partitions=1), topics, topic, "jvm", retryTimeout="300ms")
    finally:
        broker.faults.clear()


# --- queries ---------------------------------------------------------------------------------------------------------


def test_a_batch_that_one_lane_has_written_is_left_out_by_the_other(spark: Any, topics: Topics, tmp_path: Path) -> None:
    source = topics.make("-in")
    sent = Counter(topics.send(source, range(40), tags="red", keys="k"))
    for number, (first, second) in enumerate((LANES, LANES[::-1])):
        target, checkpoint = topics.make(f"-out-{number}", queues=3), str(tmp_path / str(number))
        for lane in (first, second):
            query = copy(spark, topics, source, target, checkpoint, mode="idempotent", lane=lane)
            assert query.lastProgress.sink.description == f"pyromq[lane={lane}]"
            run_again(checkpoint, 0)
        query = copy(spark, topics, source, target, checkpoint, mode="idempotent")
        assert query.lastProgress.sink.description == "pyromq[lane=jvm]", "the one that it has by itself"
        assert bodies_of(topics, target) == sent


def test_rows_of_output_mode_update_are_sent_as_they_come(spark: Any, topics: Topics, checkpoint: str) -> None:
    source, target = topics.make("-in"), topics.make("-out")
    topics.send(source, [f"word-{number % 5}" for number in range(30)])
    reading = spark.readStream.format("pyromq").options(
        **topics.options(source, group=topics.group, startingOffsets="earliest", lane="jvm")
    )
    counts = reading.load().groupBy("body").count().selectExpr("concat(string(body), '=', count) AS body")
    writing = counts.writeStream.format("pyromq").options(**topics.options(target, lane="jvm")).outputMode("update")
    query = writing.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    assert bodies_of(topics, target) == Counter(f"word-{number}=6" for number in range(5))


def test_real_time_mode_from_topic_to_topic_loses_and_repeats_nothing(
    spark: Any, topics: Topics, checkpoint: str
) -> None:
    """Rows arrive while their batch runs; a batch that is read again is recognised by the idempotent sink."""
    source, target = topics.make("-in", queues=2), topics.make("-out", queues=2)
    conf = "spark.sql.streaming.realTimeMode."
    spark.conf.set(f"{conf}allowlistCheck", "false")
    spark.conf.set(f"{conf}minBatchDuration", "1000")
    read = topics.options(source, group=topics.group, startingOffsets="earliest", lane="jvm")
    written = topics.options(target, lane="jvm", mode="idempotent", checkpointLocation=checkpoint)
    try:
        for number in range(2):
            frame = spark.readStream.format("pyromq").options(**read).schema("body binary, keys string").load()
            writing = frame.writeStream.format("pyromq").options(**written, asyncProgressTrackingEnabled="false")
            query = writing.outputMode("update").trigger(realTime="30 seconds").start()
            topics.send(source, range(20 * number, 20 * number + 20))
            until(lambda: bodies_of(topics, target) == Counter(topics.sent), "rows come inside of a batch", query)
            query.stop()  # in the middle of a batch: its offsets are not written
        assert bodies_of(topics, target) == Counter(topics.sent)
    finally:
        spark.conf.unset(f"{conf}allowlistCheck")
        spark.conf.unset(f"{conf}minBatchDuration")


def live(spark: Any, topics: Topics, source: str, target: str, checkpoint: str, batch: str) -> Any:
    read = topics.options(source, group=topics.group, startingOffsets="earliest", lane="jvm")
    frame = spark.readStream.format("pyromq").options(**read).schema("body binary, keys string").load()
    written = topics.options(target, lane="jvm", mode="idempotent", checkpointLocation=checkpoint, settleTime="50ms")
    writing = frame.writeStream.format("pyromq").options(**written, asyncProgressTrackingEnabled="false")
    return writing.outputMode("update").trigger(realTime=batch).start()


@pytest.fixture
def short_batches(spark: Any) -> Iterator[None]:
    settings = {"allowlistCheck": "false", "minBatchDuration": "1"}
    for name, value in settings.items():
        spark.conf.set(f"spark.sql.streaming.realTimeMode.{name}", value)
    yield
    for name in settings:
        spark.conf.unset(f"spark.sql.streaming.realTimeMode.{name}")


def test_a_live_batch_that_ends_earlier_when_it_is_run_again_repeats_nothing_later(
    spark: Any, topics: Topics, checkpoint: str, short_batches: None
) -> None:
    """The first run sends all of it and is cut off; the second has no time for any row, and the third brings them."""
    source, target = topics.make("-in", queues=2), topics.make("-out", queues=2)
    topics.send(source, range(200))
    query = live(spark, topics, source, target, checkpoint, "60 seconds")
    until(lambda: bodies_of(topics, target) == Counter(topics.sent), "all rows are there", query)
    query.stop()
    assert not list((Path(checkpoint) / "commits").glob("[0-9]*")), "Spark knows nothing of it"
    query = live(spark, topics, source, target, checkpoint, "1 milliseconds")
    until(lambda: len(list((Path(checkpoint) / "commits").glob("[0-9]*"))) >= 2, "two batches are done", query)
    query.stop()
    topics.send(source, range(200, 220))
    query = live(spark, topics, source, target, checkpoint, "2 seconds")
    until(lambda: not Counter(topics.sent) - bodies_of(topics, target), "and the new rows", query)
    query.stop()
    assert bodies_of(topics, target) == Counter(topics.sent)


def test_a_live_batch_that_only_the_sink_has_committed_brings_what_is_new(
    spark: Any, topics: Topics, checkpoint: str, short_batches: None
) -> None:
    """The driver dies between both commits; its batch is run again under its number, and has more rows then."""
    source, target = topics.make("-in", queues=2), topics.make("-out", queues=2)
    topics.send(source, range(50))
    query = live(spark, topics, source, target, checkpoint, "2 seconds")
    marker = Path(checkpoint) / "pyromq" / "sent" / "marker"

    def committed() -> int:
        return int(json.loads(marker.read_text())["batch"]) if marker.exists() else -1

    until(lambda: bodies_of(topics, target) == Counter(topics.sent) and committed() >= 1, "batches are done", query)
    query.stop()
    last = committed()
    for path in (
        Path(checkpoint) / part / name for part in ("offsets", "commits") for name in (f"{last}", f".{last}.crc")
    ):
        path.unlink(missing_ok=True)
    topics.send(source, range(50, 80))
    query = live(spark, topics, source, target, checkpoint, "2 seconds")
    until(lambda: not Counter(topics.sent) - bodies_of(topics, target), "the new rows are there", query)
    query.stop()
    assert bodies_of(topics, target) == Counter(topics.sent)


def test_what_the_lane_cannot_write_is_left_to_python_or_refused(spark: Any, topics: Topics, tmp_path: Path) -> None:
    topic, frame, aside = topics.make(), rows(spark, 10), f"file://{tmp_path}/aside"
    write(frame, topics, topic, "auto", badRows=aside)
    assert sum(bodies_of(topics, topic).values()) == 10
    with pytest.raises(PySparkException, match="it has no mode transactional, no payload"):
        write(frame, topics, topic, "jvm", badRows=aside)
