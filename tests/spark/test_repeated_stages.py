"""Spark begins the stage of a write anew, with attempts from 0, when it has lost a part of the shuffle before it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from pyromq.testing import LoopbackBroker
from tests.spark.repeated_stages import ROWS
from tests.spark.spark_server import master_process, run_program, worker_process
from tests.spark.test_cluster import bodies_of
from tests.spark.topics import Topics

pytestmark = pytest.mark.spark


@pytest.mark.usefixtures("lane_jar_or_skip")
def test_a_stage_that_is_begun_anew_writes_each_row_once(tmp_path: Path) -> None:
    master, address = master_process(tmp_path)
    with LoopbackBroker() as broker, Topics(broker.nameserver, "stages") as topics, master:
        topics.create("out", queues=2)
        with worker_process(address, tmp_path, cores=3):
            told = run_program("tests.spark.repeated_stages", address, broker.nameserver, str(tmp_path), "jvm")
        assert told["written"] and (tmp_path / "killed").exists()
        begun = Counter(path.name.split("-")[1] for path in tmp_path.glob("begun-*-0-*"))
        assert max(begun.values()) > 1, "no stage was repeated"
        found = Counter({body.strip(): count for body, count in bodies_of(broker.nameserver, "out").items()})
        wanted = {f"{part}:{number}" for part, count in ROWS.items() for number in range(count)}
        assert wanted - found.keys() == set(), "lost"
        assert {body: count for body, count in found.items() if count > 1} == {}, "twice"
