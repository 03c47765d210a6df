"""Messages that expired, topics that were deleted, topics that were made anew: told in words, or skipped and told."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from pyromq import Producer
from pyromq.broker.base.settings import BrokerSettings
from pyromq.client.core.client import Client
from pyromq.pipeline import Record, consume
from pyromq.pipeline.core.connections import connect
from pyromq.pipeline.core.errors import DataLossError
from pyromq.pipeline.core.offsets import OffsetRange
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.reading.pulls import read_ranges
from pyromq.settings import ClientSettings
from pyromq.testing import LoopbackBroker
from pyromq.testing.loopback import SMALL_FILES
from pyromq.wire.codes import RequestCode
from tests.spark.queries import WAIT_S_MAX, Collected, run, start, until
from tests.spark.topics import Topics, bodies

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("default_lane")]
NARROW = "topic string, queue_id int, queue_offset bigint, body binary"
KEEPS_LITTLE = BrokerSettings(
    store=replace(SMALL_FILES, segment_bytes=64 << 10, keep_ms=1, delete_hours=(), seal_interval_ms=20, seal_bytes=1)
)


class Expiring(Topics):
    """On a broker whose log files are small, and go as soon as it is asked to look."""

    def __init__(self, broker: LoopbackBroker, test: str) -> None:
        super().__init__(broker.nameserver, test)
        self.address, self.store = broker.address, broker.broker.store

    def large(self, topic: str, numbers: range, size: int = 4_000) -> list[str]:
        """Texts of digits by chance, which cannot be made much smaller."""
        chance = random.Random(5)
        return self.send(topic, [f"{number}:{chance.randbytes(size // 2).hex()}" for number in numbers])

    def expire(self, topic: str, past: int = 0) -> int:
        """The first offset that is left, behind ``past``, when nothing is left to expire.

        Files go when they are sealed, and queues follow; the last file stays.
        """
        (queue,), deadline = self.queues(topic), time.monotonic() + WAIT_S_MAX
        while True:
            is_quiet = len(self.store.log.segments) == 1 and self.store.removal.is_done
            if is_quiet and (first := self.admin.offsets.range(queue).min_offset) > past:
                return first
            assert time.monotonic() < deadline, "the broker does not delete its files"
            asyncio.run(self._delete_expired())
            time.sleep(0.1)

    async def _delete_expired(self) -> None:
        async with Client(ClientSettings(nameservers=self.nameserver)) as client:
            await client.ask(client.brokers.link(self.address), RequestCode.DELETE_EXPIRED_COMMITLOG)


@pytest.fixture
def expiring(request: pytest.FixtureRequest) -> Iterator[Expiring]:
    with LoopbackBroker(KEEPS_LITTLE) as broker, Expiring(broker, request.node.name) as topics:
        yield topics


def skipped(query: Any) -> list[str]:
    """What the progress of the query says about gaps."""
    found: list[str] = []
    for progress in query.recentProgress:
        latest = progress["sources"][0]["latestOffset"]
        found += ((json.loads(latest) if isinstance(latest, str) else latest) or {}).get("skipped", [])
    return found


# --- retention -------------------------------------------------------------------------------------------------------


def test_messages_that_expired_between_two_runs(spark: Any, expiring: Expiring, checkpoint: str) -> None:
    topic = expiring.make(queues=1)
    options = expiring.options(topic, group=expiring.group, startingOffsets="earliest")
    before = expiring.large(topic, range(10))
    sink = run(spark, options, checkpoint, schema=NARROW)
    assert bodies(sink.rows) == Counter(before)
    expiring.large(topic, range(10, 60))
    first = expiring.expire(topic, past=10)
    assert first < 60, "the broker has deleted files, and some are left"
    words = f"queue 0 of topic {topic} on broker broker-a begins at {first}, offsets 10 to {first} are gone"
    with pytest.raises(PySparkException, match=f"{re.escape(words)}.*failOnDataLoss"):
        run(spark, options, checkpoint, sink, schema=NARROW)
    assert expiring.committed(topic) == {0: 10}, "the group has not passed what was not read"
    later = Collected()
    query = start(spark, {**options, "failOnDataLoss": "false"}, checkpoint, later, schema=NARROW)
    assert query.awaitTermination(WAIT_S_MAX)
    assert [row.queue_offset for row in later.rows] == list(range(first, 60))
    assert words in skipped(query)


def test_messages_that_expire_while_a_batch_reads_them(
    spark: Any, expiring: Expiring, checkpoint: str, tmp_path: Path
) -> None:
    """The handler of the first row lets them expire. There are more than all buffers between it and the broker take."""
    topic, there, go = expiring.make(queues=1), str(tmp_path / "there"), str(tmp_path / "go")
    expiring.large(topic, range(300), size=16_000)

    def handle(record: Record) -> None:
        if record.queue_offset == 0:
            Path(there).touch()
            while not Path(go).exists():
                time.sleep(0.02)

    def consuming(**more: Any) -> Any:
        return consume(
            spark, topic, expiring.group, handle, nameserver=expiring.nameserver, start="earliest",
            checkpoint=checkpoint, trigger={"availableNow": True},
            options={"gatherBytes": "32k", "pullBatchSize": 2, **more},
        )  # fmt: skip

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 2)
    try:
        running = consuming()
        until(Path(there).exists, "the first row is handled", running.query)
        first = expiring.expire(topic, past=290)
        Path(go).touch()
        gone = r"begins at \d+ now, offsets \d+ to \d+ are gone"  # some of them, or all
        words = rf"queue 0 of topic {topic} .* {gone}.*failOnDataLoss"
        with pytest.raises(PySparkException, match=words):
            running.wait(WAIT_S_MAX)
        assert expiring.committed(topic) == {0: 0}
        expiring.large(topic, range(300, 303))
        again = consuming(failOnDataLoss=False)
        assert again.wait(WAIT_S_MAX)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert again.counts.rows == 303 - first
    words = f"begins at {first}, offsets 0 to {first} are gone"
    assert any(words in each for each in skipped(again.query)), "the progress of the next batch tells of it"


def test_a_task_says_what_it_skips(expiring: Expiring, caplog: pytest.LogCaptureFixture) -> None:
    topic = expiring.make(queues=1)
    (queue,) = expiring.queues(topic)
    expiring.large(topic, range(60))
    first = expiring.expire(topic, past=3)
    options = SourceOptions(nameserver=expiring.nameserver, topics=(topic,))
    schema, wanted = pa.schema([("queue_offset", pa.int64())]), [OffsetRange(queue, 3, 60)]
    with pytest.raises(DataLossError, match=f"begins at {first} now, offsets 3 to {first} are gone"):
        list(read_ranges(connect(options), options, wanted, schema))
    tolerant = replace(options, fail_on_data_loss=False)
    with caplog.at_level(logging.WARNING):
        batches = list(read_ranges(connect(options), tolerant, wanted, schema))
    assert [row["queue_offset"] for batch in batches for row in batch.to_pylist()] == list(range(first, 60))
    assert f"messages skipped: queue 0 of topic {topic} on broker broker-a begins at {first} now" in caplog.text


# --- topics that go --------------------------------------------------------------------------------------------------


def test_a_topic_that_is_deleted_under_a_query_ends_it(spark: Any, topics: Topics, checkpoint: str) -> None:
    topic = topics.make(queues=1)
    topics.send(topic, range(5))
    options = topics.options(topic, group=topics.group, startingOffsets="earliest", retryTimeout="500ms")
    sink = Collected()
    query = start(spark, options, checkpoint, sink, schema=NARROW, processingTime="0 seconds")
    until(lambda: len(sink.rows) == 5, "all is read", query)
    topics.admin.topics.delete(topic)
    words = rf"queue 0 of topic {topic} on broker broker-a no longer exists \(offset 5 was next\).*failOnDataLoss"
    with pytest.raises(PySparkException, match=words):
        query.awaitTermination(WAIT_S_MAX)
    with pytest.raises(PySparkException, match=words):  # nor does it begin again without it
        run(spark, options, checkpoint, sink, schema=NARROW)
    assert len(sink.rows) == 5


def test_a_query_goes_on_without_a_topic_and_with_the_one_that_takes_its_name(
    spark: Any, topics: Topics, checkpoint: str
) -> None:
    """The new one is longer than the old one was: offsets alone do not tell them apart."""
    one, two = topics.make("-one", queues=1), topics.make("-two", queues=1)
    options = topics.options(
        f"{one},{two}", group=topics.group, startingOffsets="earliest", failOnDataLoss=False, retryTimeout="300ms",
        discoveryInterval="100ms",
    )  # fmt: skip
    topics.send(one, range(5))
    topics.send(two, range(3))
    sink = Collected()
    query = start(spark, options, checkpoint, sink, schema=NARROW, processingTime="0 seconds")
    until(lambda: len(sink.rows) == 8, "all is read", query)
    until(lambda: topics.committed(one) == {0: 5}, "the group is told", query)
    topics.admin.topics.delete(one)
    topics.send(two, range(3, 6))
    until(lambda: len(sink.rows) == 11, "the other topic is read on", query)
    until(lambda: any("no longer exists (offset 5 was next)" in each for each in skipped(query)), "it is told")
    until(lambda: topics.committed(two) == {0: 6}, "progress of the other is told too", query)
    topics.create(one, queues=1)
    with Producer(topics.nameserver, group="makers") as producer:  # one that does not remember the old topic
        topics.producer.close()
        topics.producer = producer
        topics.send(one, range(10, 18))
        until(lambda: len(sink.rows) == 19, "the new topic is read from its beginning", query)
        query.stop()
    assert bodies(sink.rows) == Counter(topics.sent)
    assert any("was created again, 5 was next" in each for each in skipped(query))


def test_a_topic_that_is_deleted_between_two_runs(spark: Any, topics: Topics, checkpoint: str) -> None:
    one, two = topics.make("-one", queues=1), topics.make("-two", queues=1)
    options = topics.options(f"{one},{two}", group=topics.group, startingOffsets="earliest", retryTimeout="300ms")
    topics.send(one, range(3))
    topics.send(two, range(3))
    sink = run(spark, options, checkpoint, schema=NARROW)
    topics.admin.topics.delete(one)
    topics.send(two, range(3, 5))
    with pytest.raises(PySparkException, match=rf"queue 0 of topic {one} .* no longer exists"):
        run(spark, options, checkpoint, sink, schema=NARROW)
    query = start(spark, {**options, "failOnDataLoss": "false"}, checkpoint, sink, schema=NARROW)
    assert query.awaitTermination(WAIT_S_MAX)
    assert bodies(sink.rows) == Counter(topics.sent)
    assert any(f"topic {one} on broker broker-a no longer exists" in each for each in skipped(query))
