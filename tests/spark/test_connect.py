"""Through Spark Connect: a client, a server, and a broker, each a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.testing import LoopbackBroker
from tests.spark.queries import until
from tests.spark.spark_server import connect_server, run_program
from tests.spark.topics import Topics

pytestmark = pytest.mark.spark
COUNT = 20


def test_everything_works_through_spark_connect(tmp_path: Path) -> None:
    server, address = connect_server(tmp_path)
    with LoopbackBroker() as broker, Topics(broker.nameserver, "connect") as topics, server:
        topics.create("in", queues=2)
        topics.create("out", queues=2)
        topics.send("in", [str(number) for number in range(COUNT)])
        told = run_program("tests.spark.connect_client", address, broker.nameserver, str(tmp_path))
        assert told["session"] == "pyspark.sql.connect.session"
        assert told["batch"] == list(range(COUNT))
        assert told["copied"]
        assert told["consumed"] == [True, COUNT, COUNT - 2, 1, 1]
        assert told["archived"] == [COUNT, True, 0, COUNT]
        assert told["replayed"] == COUNT
        assert told["written"] == 2 * COUNT
        assert told["redriven"] == 1
        assert told["reported"] == COUNT
        assert told["no store"]
        assert told["warnings"] == []
        assert "missing" in told["failed"]
        for group in ("copy", "work", "archive"):
            until(lambda group=group: topics.committed("in", group) == {0: 10, 1: 10}, f"progress of {group}")
