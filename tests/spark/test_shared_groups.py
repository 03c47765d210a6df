"""Streams whose groups are used by others too."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyromq import PushConsumer
from tests.spark.topics import Topics

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("default_lane")]
PATIENCE_S = 60


def start(spark: Any, topics: Topics, topic: str, checkpoint: Path, **more: object) -> Any:
    options = topics.options(topic, group=topics.group, startingOffsets="earliest", discoveryInterval="500ms", **more)
    rows = spark.readStream.format("pyromq").options(**options).load()
    return rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()


def shared_with(query: Any) -> Any:
    progress = query.lastProgress
    if progress is None or progress.sources[0].latestOffset is None:
        return None
    return json.loads(progress.sources[0].latestOffset).get("sharedWith")


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_stream_beside_a_consumer_says_so_and_an_exclusive_one_ends(
    spark: Any, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make()
    query = start(spark, topics, topic, tmp_path / "a")
    alone = start(spark, topics, topic, tmp_path / "b", exclusive=True)
    with pytest.raises(Exception, match=r"GroupSharedError|is used by 0 consumers and 1 other streams"):
        alone.awaitTermination(PATIENCE_S)
    with PushConsumer(topics.nameserver, group=topics.group, topics=topic, listener=lambda message: None):
        until(lambda: (shared_with(query) or {}).get("consumers") == 1)
    query.stop()


def test_an_exclusive_query_can_be_started_again(spark: Any, topics: Topics, tmp_path: Path) -> None:
    topic = topics.make()
    for number in range(3):
        topics.send(topic, range(number, number + 1))
        query = start(spark, topics, topic, tmp_path / "a", exclusive=True)
        query.processAllAvailable()
        query.stop()
