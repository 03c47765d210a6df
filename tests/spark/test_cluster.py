"""On a cluster: a master, a worker with two executors, and a driver, each a process of its own."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from pyromq.pipeline.core.connections import connect
from pyromq.pipeline.core.offsets import OffsetRange
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.reading.cluster import Cluster
from pyromq.pipeline.reading.pulls import read_ranges
from pyromq.pipeline.spark.jvm.jar import lane_jar_if_any
from pyromq.testing import LoopbackBroker
from tests.spark.queries import until
from tests.spark.spark_server import master_process, run_program, worker_process
from tests.spark.topics import Topics, bodies

pytestmark = pytest.mark.spark
COUNT = 20


def test_a_killed_executor_loses_nothing(tmp_path: Path) -> None:
    master, address = master_process(tmp_path)
    with LoopbackBroker() as broker, Topics(broker.nameserver, "cluster") as topics, master:
        topics.create("in", queues=2)
        topics.create("out", queues=1)
        topics.create("out-jvm", queues=1)
        topics.send("in", [str(number) for number in range(COUNT)])
        with worker_process(address, tmp_path, cores=2):
            told = run_program("tests.spark.cluster_driver", address, broker.nameserver, str(tmp_path))
        assert (tmp_path / "killed").exists()
        assert told["copied"]
        assert told["consumed"] == [True, COUNT, COUNT - 2, 1, 1]
        assert told["archived"] == COUNT
        assert told["copied by the JVM"][0] and (tmp_path / "killed-jvm").exists()
        assert lane_jar_if_any() is None or told["copied by the JVM"][1] == "pyromq[lane=jvm]"
        for copied in ("out", "out-jvm"):
            assert bodies_of(broker.nameserver, copied) == Counter(topics.sent), "each row once"
        for group in ("copy", "copy-jvm", "work", "archive"):
            until(lambda group=group: topics.committed("in", group) == {0: 10, 1: 10}, f"progress of {group}")


def bodies_of(nameserver: str, topic: str) -> Counter[str]:
    options = SourceOptions(nameserver=nameserver, topics=(topic,))
    ranges = [OffsetRange(queue, held.first, held.end) for queue, held in Cluster(options).held().items()]
    batches = read_ranges(connect(options), options, ranges, pa.schema([("body", pa.binary())]))
    return bodies([row for batch in batches for row in batch.to_pylist()])
