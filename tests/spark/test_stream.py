"""Streaming queries: every message once, through restarts, with the group always told."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pyromq.operate.query_reports import QueryReport, read_reports, reports_folder
from tests.spark.queries import Collected, run, start, until
from tests.spark.topics import Topics, bodies

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("lane")]
NARROW = "topic string, queue_id int, queue_offset bigint, body binary"


def once(texts: list[str]) -> Counter[str]:
    return Counter(texts)


def test_available_now_in_batches_of_a_size(spark: Any, topics: Topics, checkpoint: str) -> None:
    topic = topics.make(queues=2)
    sent = topics.send(topic, range(50))
    options = topics.options(topic, group=topics.group, startingOffsets="earliest", maxOffsetsPerTrigger=20)
    sink = run(spark, options, checkpoint)
    assert bodies(sink.rows) == once(sent)
    assert sink.sizes == [20, 20, 10]
    until(lambda: topics.committed(topic) == {0: 25, 1: 25}, "the group stands at the end")


def test_a_restart_continues_without_loss_or_repetition(spark: Any, topics: Topics, checkpoint: str) -> None:
    topic = topics.make(queues=2)
    options = topics.options(topic, group=topics.group, startingOffsets="earliest")
    topics.send(topic, range(10))
    sink = run(spark, options, checkpoint, schema=NARROW)
    topics.send(topic, range(10, 25))
    run(spark, {**options, "maxOffsetsPerTrigger": "4"}, checkpoint, sink, schema=NARROW)
    assert bodies(sink.rows) == once(topics.sent)
    assert sink.sizes[0] == 10
    until(lambda: sum(offset or 0 for offset in topics.committed(topic).values()) == 25, "the group stands at the end")


def test_an_uncommitted_batch_is_read_again_the_same(spark: Any, topics: Topics, checkpoint: str) -> None:
    topic = topics.make(queues=2)
    options = topics.options(topic, group=topics.group, startingOffsets="earliest")
    topics.send(topic, range(10))
    first = run(spark, options, checkpoint, schema=NARROW)
    for name in ("0", ".0.crc"):
        (Path(checkpoint) / "commits" / name).unlink(missing_ok=True)
    topics.send(topic, range(10, 15))
    again = run(spark, options, checkpoint, schema=NARROW)
    assert sorted(again.batches[0]) == sorted(first.batches[0])
    assert bodies(again.rows) == once(topics.sent)


def test_processing_time_with_latest(spark: Any, topics: Topics, checkpoint: str) -> None:
    """Also: the progress of the query shows the lag, and the group hears of the last batch without another trigger."""
    topic = topics.make(queues=2)
    topics.send(topic, range(5))
    sink = Collected()
    options = topics.options(topic, group=topics.group)
    query = start(spark, options, checkpoint, sink, schema=NARROW, processingTime="0 seconds")
    until(lambda: None not in topics.committed(topic).values(), "the start is stored", query)
    new = topics.send(topic, range(5, 12))
    until(lambda: len(sink.rows) == 7, "all rows arrive", query)
    until(lambda: sum(offset or 0 for offset in topics.committed(topic).values()) == 12, "the group knows", query)
    (source,) = query.lastProgress.sources
    latest = json.loads(source.latestOffset) if isinstance(source.latestOffset, str) else source.latestOffset
    assert latest["lag"] == 0
    assert latest["group"] == topics.group
    query.stop()
    assert bodies(sink.rows) == once(new)


def test_the_group_hears_of_the_only_batch_of_a_query(spark: Any, topics: Topics, checkpoint: str) -> None:
    topic = topics.make(queues=1)
    topics.send(topic, range(5))
    options = topics.options(topic, group=topics.group, startingOffsets="earliest", maxOffsetsPerTrigger=2)
    sink = run(spark, options, checkpoint, once=True)
    assert sink.sizes == [5], "a single batch takes all, whatever the limit"
    until(lambda: topics.committed(topic) == {0: 5}, "the listener tells the group")


def test_new_queues_and_topics_are_picked_up(spark: Any, topics: Topics, checkpoint: str) -> None:
    one = topics.make("-y1", queues=1)
    topics.send(one, range(3))
    options = topics.options(
        "", topicPattern=topics.name("-y."), group=topics.group, startingOffsets="earliest", discoveryInterval="100ms"
    )
    del options["topic"]
    sink = Collected()
    query = start(spark, options, checkpoint, sink, schema=NARROW, processingTime="0 seconds")
    until(lambda: len(sink.rows) == 3, "the first topic is read", query)
    topics.create(one, queues=2)
    topics.send(one, range(3, 6), queue=1)
    until(lambda: len(sink.rows) == 6, "the new queue is read", query)
    two = topics.make("-y2", queues=1)
    topics.send(two, range(6, 9))
    until(lambda: len(sink.rows) == 9, "the new topic is read", query)
    query.stop()
    assert bodies(sink.rows) == once(topics.sent)


def test_filters(spark: Any, topics: Topics, tmp_path: Path) -> None:
    topic = topics.make(queues=2)
    red = topics.send(topic, range(6), tags="red", properties={"size": "1"})
    blue = topics.send(topic, range(6, 12), tags="blue", properties={"size": "2"})
    options = topics.options(topic, group=topics.group, startingOffsets="earliest")
    by_tag = run(spark, {**options, "tags": "red"}, str(tmp_path / "tags"))
    assert bodies(by_tag.rows) == once(red)
    until(lambda: topics.committed(topic) == {0: 6, 1: 6}, "progress counts what was passed over")
    by_sql = run(spark, {**options, "sql": "size = 2"}, str(tmp_path / "sql"))
    assert bodies(by_sql.rows) == once(blue)


def test_retries_are_read_too(spark: Any, topics: Topics, checkpoint: str) -> None:
    topic = topics.make(queues=1)
    topics.send(topic, range(2))
    topics.create(f"%RETRY%{topics.group}", queues=1)
    topics.send(f"%RETRY%{topics.group}", ["again"])
    options = topics.options(topic, group=topics.group, startingOffsets="earliest", includeRetry=True, tags="none")
    sink = run(spark, options, checkpoint)
    assert [(row.topic, row.body) for row in sink.rows] == [(f"%RETRY%{topics.group}", b"again")]


def test_limits_of_bytes_and_of_few_messages(spark: Any, topics: Topics, checkpoint: str) -> None:
    topic = topics.make(queues=1)
    sent = topics.send(topic, ["x" * 1000] * 20)
    options = topics.options(
        topic, group=topics.group, startingOffsets="earliest", maxBytesPerTrigger="6k", minOffsetsPerTrigger=3
    )
    sink = run(spark, options, checkpoint)
    assert bodies(sink.rows) == once(sent)
    assert len(sink.batches) >= 4


def test_a_schema_and_options_that_do_not_fit_end_the_query_with_their_reason(
    spark: Any, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make()
    for number, (options, schema, text) in enumerate(
        [
            ({"group": ""}, NARROW, "option group"),
            ({"endingOffsets": "latest"}, NARROW, "option endingOffsets: it is for batch reads only"),
            ({}, "body string", "column body is binary"),
        ]
    ):
        given = {**topics.options(topic, group=topics.group), **options}
        with pytest.raises(Exception, match=text):
            run(spark, given, str(tmp_path / str(number)), schema=schema)


def test_a_query_reports_for_the_console_until_it_has_ended(spark: Any, topics: Topics, checkpoint: str) -> None:
    topic = topics.make(queues=2)
    topics.send(topic, range(30))
    options = topics.options(topic, group=topics.group, startingOffsets="earliest", maxOffsetsPerTrigger=20)
    query = start(spark, options, checkpoint, Collected())

    def report() -> QueryReport | None:
        return next((each for each in read_reports(reports_folder()) if each.id == str(query.id)), None)

    until(lambda: (found := report()) is not None and found.ended_ms, "the report says that the query has ended")
    found = report()
    assert found is not None and (found.rows, found.error) == (30, "")
    assert [batch.rows for batch in found.batches][:2] == [20, 10]
    assert [(source.group, source.topics, source.lag) for source in found.sources] == [(topics.group, (topic,), 0)]
    assert [(each.queue, each.offset, each.lag) for each in found.sources[0].queues] == [(0, 15, 0), (1, 15, 0)]
