"""The sink with Spark: rows become messages, batches that are run again, and what is refused."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from pyromq.pipeline.core.options import OPTIONS
from pyromq.pipeline.sink.columns import SINK_COLUMNS
from pyromq.pipeline.sink.options import SINK_OPTIONS
from tests.spark.topics import Topics
from tests.unit.test_docs import ROOT, table_rows

pytestmark = pytest.mark.spark
TIMEOUT_S = 300


def stored(topics: Topics, topic: str) -> list[Any]:
    """Every message of a topic, queue by queue."""
    found = []
    for queue in topics.queues(topic):
        held = topics.admin.offsets.range(queue)
        at = held.min_offset
        while at < held.max_offset:
            stretch = topics.admin.messages.read(queue, at)
            found += stretch.messages
            at = stretch.next_offset
    return found


def bodies_of(topics: Topics, topic: str) -> Counter[str]:
    return Counter(message.body.decode() for message in stored(topics, topic))


def rows(spark: Any, count: int, extra: str = "", partitions: int = 2) -> Any:
    columns = ["concat('row-', id) as body", *([extra] if extra else [])]
    return spark.range(0, count, 1, partitions).selectExpr(*columns)


def run_again(checkpoint: str, batch: int) -> None:
    """As if the driver had died before Spark noted that the batch is done."""
    folder = Path(checkpoint) / "commits"
    (folder / str(batch)).unlink()
    (folder / f".{batch}.crc").unlink(missing_ok=True)


def copy(spark: Any, topics: Topics, source: str, target: str, checkpoint: str, **options: object) -> Any:
    """One query over what there is, topic to topic."""
    read = spark.readStream.format("pyromq").options(
        **topics.options(source, group=topics.group, startingOffsets="earliest", properties="raw")
    )
    messages = read.schema("body binary, tags string, keys string, properties string").load()
    writing = messages.writeStream.format("pyromq").options(**topics.options(target, **options))
    query = writing.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    assert query.awaitTermination(TIMEOUT_S)
    return query


# --- batch writes ----------------------------------------------------------------------------------------------------


def test_rows_become_messages_with_all_that_their_columns_say(spark: Any, topics: Topics, lane: str) -> None:
    target = topics.make()
    frame = rows(spark, 50).selectExpr(
        "cast(body as binary) as body", "'new' as tags", "array('a', body) as keys",
        "map('shop', 'north', 'UNIQ_KEY', 'mine') as properties", "'k1' as sharding_key", "7 as flag",
    )  # fmt: skip
    frame.write.format("pyromq").options(**topics.options(target)).mode("append").save()
    messages = stored(topics, target)
    assert Counter(message.body.decode() for message in messages) == Counter(f"row-{n}" for n in range(50))
    first = messages[0]
    assert (first.tags, first.get("shop"), first.flag) == ("new", "north", 7)
    assert first.body.decode() in first.keys and "a" in first.keys
    assert first.get("UNIQ_KEY") != "mine" and len({message.message_id for message in messages}) == 50
    assert len({message.queue for message in messages}) == 1, "one sharding key, one queue"


def test_rows_go_to_the_topic_and_queue_that_their_columns_name(spark: Any, topics: Topics, lane: str) -> None:
    one, two = topics.make("-1"), topics.make("-2")
    frame = rows(spark, 20).selectExpr("body", f"if(body < 'row-15', '{one}', '{two}') as topic", "1 as queue_id")
    options = topics.options(one)
    del options["topic"]
    frame.write.format("pyromq").options(**options).mode("append").save()
    assert sum(bodies_of(topics, one).values()) + sum(bodies_of(topics, two).values()) == 20
    assert {message.queue.number for message in [*stored(topics, one), *stored(topics, two)]} == {1}


def test_delayed_rows_come_when_their_time_has_come(spark: Any, topics: Topics, lane: str) -> None:
    target = topics.make()
    rows(spark, 4, "cast(id % 2 as int) as delay_level").write.format("pyromq").options(**topics.options(target)).mode(
        "append"
    ).save()
    seen = bodies_of(topics, target)
    assert {"row-0", "row-2"} <= set(seen), "rows without a level are there at once"
    waiting = {message.get("REAL_TOPIC") for message in stored(topics, "SCHEDULE_TOPIC_XXXX")}
    assert target in waiting or len(seen) == 4


def test_a_named_batch_write_can_be_repeated(spark: Any, topics: Topics, lane: str) -> None:
    target = topics.make()
    topics.send(target, ["of another producer"])
    options = topics.options(target, mode="idempotent", sinkId=topics.name("-load"))
    for _ in range(2):
        rows(spark, 300).write.format("pyromq").options(**options).mode("append").save()
    assert bodies_of(topics, target) == Counter([*(f"row-{n}" for n in range(300)), "of another producer"])


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        (["id"], {}, "column id is unknown to the sink"),
        (["id as body"], {}, "column body must be binary or string, not bigint"),
        (["'t' as tags"], {}, "column body is missing"),
        (["'b' as body", "1 as tags"], {}, "column tags must be string, not int"),
        (["'b' as body"], {"mode": "exactly"}, "option mode: 'exactly' is not one of at-least-once"),
        (["'b' as body"], {"mode": "idempotent"}, "option sinkId: a batch write can only be repeated if it has a name"),
        (["'b' as body"], {"mode": "transactional", "sinkId": "x"}, "option mode: a batch write is not transactional"),
        (["'b' as body", "1 as delay_level"], {"mode": "idempotent", "sinkId": "x"}, "column delay_level does not go"),
        (["'b' as body"], {"batchByte": "1k"}, "did you mean batchBytes?"),
        (["'' as body"], {}, "column body, row 0: it is empty"),
        (["'b' as body", "9 as queue_id"], {}, "has no queue 9 on any broker"),
    ],
)
def test_mistakes_are_named(
    spark: Any, topics: Topics, lane: str, columns: list[str], options: dict[str, str], words: str
) -> None:
    target = topics.make()
    frame = spark.range(1).selectExpr(*columns)
    with pytest.raises((PySparkException, Py4JJavaError), match=re.escape(words)):
        frame.write.format("pyromq").options(**topics.options(target, **options)).mode("append").save()


def test_an_idempotent_sink_needs_its_topic_to_be_there(spark: Any, topics: Topics, lane: str) -> None:
    options = topics.options("not-there", mode="idempotent", sinkId=topics.name())
    with pytest.raises((PySparkException, Py4JJavaError), match="there is no topic not-there"):
        rows(spark, 1).write.format("pyromq").options(**options).mode("append").save()


def test_a_topic_is_not_overwritten(spark: Any, topics: Topics, lane: str) -> None:
    with pytest.raises(Exception, match="a topic cannot be overwritten"):
        rows(spark, 1).write.format("pyromq").options(**topics.options(topics.make())).mode("overwrite").save()


def test_an_unreachable_broker_ends_the_write_with_a_clear_error(spark: Any, lane: str) -> None:
    options = {"nameserver": "127.0.0.1:1", "topic": "nowhere", "retryTimeout": "300ms", "requestTimeout": "200ms"}
    with pytest.raises(Exception, match="option retryTimeout"):
        rows(spark, 1, partitions=1).write.format("pyromq").options(**options).mode("append").save()


# --- streams ---------------------------------------------------------------------------------------------------------


def test_a_batch_that_is_run_again_is_sent_again_unless_a_mode_forbids_it(
    spark: Any, topics: Topics, tmp_path: Path, lane: str
) -> None:
    """At least once: counted. Idempotent and transactional: not one row twice."""
    source = topics.make("-in")
    sent = Counter(topics.send(source, range(40), tags="red", keys="k"))
    for mode, copies in (("at-least-once", 2), ("idempotent", 1), ("transactional", 1)):
        target, checkpoint = topics.make(f"-{mode}", queues=3), str(tmp_path / mode)
        copy(spark, topics, source, target, checkpoint, mode=mode)
        assert bodies_of(topics, target) == sent, mode
        topics.send(target, ["of another producer"])
        run_again(checkpoint, 0)
        copy(spark, topics, source, target, checkpoint, mode=mode)
        expected = Counter({body: count * copies for body, count in sent.items()})
        assert bodies_of(topics, target) - Counter(["of another producer"]) == expected, mode
        assert {message.tags for message in stored(topics, target)} == {"red", ""}


def test_rows_behind_a_shuffle_are_recognised_by_their_own_keys(
    spark: Any, topics: Topics, checkpoint: str, lane: str
) -> None:
    source, target = topics.make("-in"), topics.make("-out")
    topics.send(source, [f"word-{n % 5}" for n in range(30)])
    for run in range(2):
        read = spark.readStream.format("pyromq").options(
            **topics.options(source, group=topics.group, startingOffsets="earliest")
        )
        words = read.schema("body binary").load().dropDuplicates(["body"])
        out = words.selectExpr("body", "cast(body as string) as unique_key")
        writing = out.writeStream.format("pyromq").trigger(availableNow=True)
        options = topics.options(target, mode="idempotent", checkpointLocation=checkpoint)
        assert writing.options(**options).start().awaitTermination(TIMEOUT_S)
        if run == 0:
            run_again(checkpoint, 0)
    assert bodies_of(topics, target) == Counter(f"word-{n}" for n in range(5))


def test_mistakes_of_a_stream_end_it_with_their_names(spark: Any, topics: Topics, checkpoint: str, lane: str) -> None:
    source = topics.make()
    topics.send(source, ["one"])
    read = spark.readStream.format("pyromq").options(
        **topics.options(source, group=topics.group, startingOffsets="earliest")
    )
    writing = read.schema("body binary, born_time timestamp").load().writeStream.format("pyromq")
    query = writing.options(**topics.options(source, checkpointLocation=checkpoint)).trigger(availableNow=True).start()
    with pytest.raises(Exception, match="column born_time is unknown to the sink"):
        query.awaitTermination(TIMEOUT_S)


# --- the page --------------------------------------------------------------------------------------------------------


def test_every_option_and_column_is_documented() -> None:
    page = ROOT / "docs/how-to/spark-sink.md"
    own = [option for option in SINK_OPTIONS if option not in OPTIONS]
    shown = [row[:3] for row in table_rows(page, first="option")]
    assert shown == [[f"`{option.name}`", option.use.value, option.default] for option in own]
    assert all(f"`{option.name}`" in page.read_text(encoding="utf-8") for option in SINK_OPTIONS)
    assert [row[0].strip("`") for row in table_rows(page, first="column")] == list(SINK_COLUMNS)


def test_rows_that_cannot_be_sent_go_to_a_topic_and_the_others_where_they_belong(
    spark: Any, topics: Topics, lane: str
) -> None:
    topic, aside = topics.make(), topics.make("-bad")
    rows = [(f"row {number}" if number % 10 else "", "a|b" if number == 5 else "x") for number in range(40)]
    frame = spark.createDataFrame(rows, "body string, tags string").repartition(2)
    frame.write.format("pyromq").options(**topics.options(topic, badRows=aside)).mode("append").save()
    sent = spark.read.format("pyromq").options(**topics.options(topic)).load().selectExpr("string(body)").collect()
    assert sorted(row[0] for row in sent) == sorted(body for body, tag in rows if body and tag == "x")
    kept = spark.read.format("pyromq").options(**topics.options(aside)).load().collect()
    assert {row.tags for row in kept} == {"bad-row"}
    reasons = [json.loads(row.body)["reason"] for row in kept]
    assert sorted(reason.split(",")[0] for reason in reasons) == [*["column body"] * 4, "column tags"]
