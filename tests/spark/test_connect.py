"""Through Spark Connect: a client, a server, and a broker, each a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from pyromq.testing import LoopbackBroker
from tests.spark.queries import until
from tests.spark.spark_server import connect_server, environment, run_program
from tests.spark.test_sink import bodies_of
from tests.spark.topics import Topics

pytestmark = pytest.mark.spark
COUNT = 20
PIPELINE = """
name = "piped"
checkpoint = "checkpoints"
[source]
nameserver = "{}"
topic = "in"
[[step]]
name = "first"
sql = "SELECT string(body) || '-a' AS body FROM input"
[[step]]
python = "steps_of_connect:second"
[[step]]
sql = "SELECT body || '-c' AS body FROM input"
[[sink]]
kind = "topic"
topic = "piped"
[[sink]]
name = "files"
kind = "json"
from = "first"
path = "piped"
"""
STEPS = """
def second(frame):
    return frame.selectExpr("body || '-b' AS body")
"""


def test_everything_works_through_spark_connect(tmp_path: Path) -> None:
    server, address = connect_server(tmp_path)
    with LoopbackBroker() as broker, Topics(broker.nameserver, "connect") as topics, server:
        topics.create("in", queues=2)
        topics.create("out", queues=2)
        topics.create("piped", queues=1)
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
        assert told["deduped"] == [COUNT, 5, COUNT - 5, 5]
        assert {"archive", "work"} <= set(told["unreached"]), "the source has told them"
        assert told["no store"]
        assert told["warnings"] == []
        assert "missing" in told["failed"]
        assert run_the_file(tmp_path, address, broker.nameserver) == [COUNT, COUNT]
        assert bodies_of(topics, "piped") == Counter(f"{number}-a-b-c" for number in range(COUNT))
        lines = [line for path in (tmp_path / "piped").glob("*.json") for line in path.read_text().splitlines()]
        first = Counter(json.loads(line)["body"] for line in lines)
        assert first == Counter(f"{number}-a" for number in range(COUNT)), "as it was after that step"
        for group in ("copy", "work", "archive", "once", "piped-sink0", "piped-files"):
            until(lambda group=group: topics.committed("in", group) == {0: 10, 1: 10}, f"progress of {group}")


def run_the_file(folder: Path, address: str, nameserver: str) -> list[int]:
    """By the command; rows of each sink."""
    (folder / "pipeline.toml").write_text(PIPELINE.format(nameserver))
    (folder / "steps_of_connect.py").write_text(STEPS)
    command = ["pipeline", "run", str(folder / "pipeline.toml"), "--master", address, "-o", "json"]
    done = subprocess.run(
        [sys.executable, "-m", "pyromq", *command],
        env=environment(), capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return [sink["rows"] for sink in json.loads(done.stdout)["sinks"]]
