"""Archives that are tables of Delta, written by the Spark that Delta has a package for. Iceberg has none yet for Spark
4.2 and newer, which our source needs: its newest, 1.12.0, is for Spark 4.1 and does not load there.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from interop.tables import ROOT, TableSpark, prepare_table_spark
from pyromq import Message, Producer
from pyromq.pipeline.spark.java import java_home
from pyromq.testing import LoopbackBroker

_RUN_S = 900


@pytest.fixture(scope="module")
def table_spark() -> TableSpark:
    return prepare_table_spark()


def test_an_archive_in_delta_has_every_message_once(table_spark: TableSpark, tmp_path: Path) -> None:
    with LoopbackBroker() as broker, Producer(broker.nameserver, group="makers") as producer:
        first = _send(producer, range(20))
        done = _archived(table_spark, broker.nameserver, tmp_path)
        assert (done["messages"], done["bodies"]) == (20, sorted(first))
        assert {part.split("/")[0] for part in done["parts"]} == {"orders"}
        more = _send(producer, range(20, 25))
        again = _archived(table_spark, broker.nameserver, tmp_path)
        assert (again["messages"], again["bodies"]) == (5, sorted(first + more))


def _send(producer: Producer, numbers: range) -> list[str]:
    for number in numbers:
        producer.send(Message("orders", str(number).encode()))
    return [str(number) for number in numbers]


def _archived(spark: TableSpark, nameserver: str, folder: Path) -> dict[str, Any]:
    command = [str(spark.python), "-m", "interop.table_driver", nameserver, str(folder), *map(str, spark.jars)]
    environment = {**os.environ, "JAVA_HOME": str(java_home()), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=_RUN_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told
