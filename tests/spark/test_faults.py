"""Killed brokers, topics that go: nothing is lost, nothing comes twice, nothing is silent."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from pyromq import Producer
from pyromq.pipeline.core.connections import connect
from pyromq.pipeline.core.errors import SourceUnreachableError
from pyromq.pipeline.core.offsets import OffsetRange
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.reading.cluster import Cluster
from pyromq.pipeline.reading.pulls import read_ranges
from pyromq.testing import ServerProcess
from tests.spark.queries import Collected, run, start, until
from tests.spark.topics import Topics, bodies

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("default_lane")]
NARROW = "topic string, queue_id int, queue_offset bigint, body binary"


def test_a_broker_killed_under_a_query_is_waited_for(spark: Any, tmp_path: Path, checkpoint: str) -> None:
    with ServerProcess("up", data=tmp_path / "data") as servers:
        with Topics(servers.nameserver, "restart") as topics:
            topic = topics.make(queues=2)
            options = topics.options(topic, group=topics.group, startingOffsets="earliest", requestTimeout="10s")
            sink = Collected()
            query = start(spark, options, checkpoint, sink, schema=NARROW, processingTime="0 seconds")
            topics.send(topic, range(10))
            until(lambda: len(sink.rows) == 10, "the first messages arrive", query)
            servers.kill()
        servers.start()
        with Topics(servers.nameserver, "restart") as again:
            again.create(topic, queues=2)
            again.send(topic, range(10, 20))
            until(lambda: len(sink.rows) == 20, "the query goes on", query)
            query.stop()
        assert bodies(sink.rows) == Counter([*topics.sent, *again.sent])


def test_a_range_is_read_on_after_the_broker_came_back(tmp_path: Path) -> None:
    with ServerProcess("up", data=tmp_path / "data") as servers:
        with Topics(servers.nameserver, "read-on") as topics:
            topic = topics.make(queues=1)
            (queue,) = topics.queues(topic)
            sent = topics.send(topic, ["x" * 4000 + str(number) for number in range(200)])
        options = SourceOptions(
            nameserver=servers.nameserver, topics=(topic,), gather_bytes=100_000, request_ms=10_000, retry_ms=120_000
        )
        schema = pa.schema([("queue_offset", pa.int64()), ("body", pa.binary())])
        batches = read_ranges(connect(options), options, [OffsetRange(queue, 0, 200)], schema)
        rows = next(batches).to_pylist()
        servers.kill()
        back = threading.Timer(0.5, servers.start)
        back.start()
        rows += [row for batch in batches for row in batch.to_pylist()]
        back.join()
        assert [row["queue_offset"] for row in rows] == list(range(200))
        assert [row["body"].decode() for row in rows] == sent


def test_brokers_that_stay_away_end_a_read_in_words(tmp_path: Path) -> None:
    with ServerProcess("up", data=tmp_path / "data") as servers, Topics(servers.nameserver, "away") as topics:
        topic = topics.make(queues=1)
        (queue,) = topics.queues(topic)
        options = SourceOptions(nameserver=servers.nameserver, topics=(topic,), request_ms=30_000, retry_ms=600)
        cluster, connected = Cluster(options), connect(options)
        assert queue in cluster.held()
        servers.kill()
        with pytest.raises(SourceUnreachableError, match=r"asking brokers for their queues failed for .* retryTimeout"):
            cluster.held()
        with pytest.raises(SourceUnreachableError, match="reading queue 0 of topic away"):
            list(read_ranges(connected, options, [OffsetRange(queue, 0, 5)], pa.schema([("body", pa.binary())])))


def test_a_topic_that_was_deleted_and_made_anew(spark: Any, topics: Topics, checkpoint: str) -> None:
    topic = topics.make(queues=1)
    topics.send(topic, range(10))
    options = topics.options(topic, group=topics.group, startingOffsets="earliest")
    sink = run(spark, options, checkpoint, schema=NARROW)
    topics.admin.topics.delete(topic)
    topics.make(queues=1)
    with Producer(topics.nameserver, group="makers") as producer:  # one that does not remember the old topic
        topics.producer.close()
        topics.producer = producer
        new = topics.send(topic, range(10, 13))
        with pytest.raises(PySparkException, match=r"ends at 3, before 10, which was next.*failOnDataLoss"):
            run(spark, options, checkpoint, sink, schema=NARROW)
        later = run(spark, {**options, "failOnDataLoss": "false"}, checkpoint, schema=NARROW)
    assert bodies(later.rows) == Counter(new)


def test_offsets_that_are_gone_end_a_read_unless_told_otherwise(spark: Any, topics: Topics) -> None:
    topic = topics.make(queues=1)
    sent = topics.send(topic, range(3))
    beyond = json.dumps({topic: {"broker-a": {"0": 9}}})
    for options in ({"startingOffsets": beyond}, {"endingOffsets": beyond}):
        frame = spark.read.format("pyromq").options(**topics.options(topic, **options)).load()
        with pytest.raises(PySparkException, match="failOnDataLoss"):
            frame.collect()
    options = topics.options(topic, endingOffsets=beyond, failOnDataLoss=False)
    assert [row.body.decode() for row in spark.read.format("pyromq").options(**options).load().collect()] == sent
