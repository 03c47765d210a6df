"""Replays from executors, with workers, executors and drivers killed in the middle: each message is there once."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq import Message
from pyromq.testing import LoopbackBroker
from tests.spark.spark_server import ROOT, environment, master_process, run_program, worker_process
from tests.spark.test_cluster import bodies_of
from tests.spark.topics import Topics

pytestmark = pytest.mark.spark
COUNT = 6_000
PROGRAM = "tests.spark.killed_replay"
LOCAL = "local[2,4]"  # tasks may fail


@pytest.fixture
def sent(tmp_path: Path) -> Iterator[tuple[str, Counter[str]]]:
    """A name server, and what its topic ``in`` has."""
    with LoopbackBroker() as broker, Topics(broker.nameserver, "kills") as topics:
        topics.create("in", queues=2)
        topics.create("out", queues=2)
        texts = [str(number) for number in range(COUNT)]
        for first in range(0, COUNT, 200):
            topics.producer.send_batch([Message("in", text.encode()) for text in texts[first : first + 200]])
        yield broker.nameserver, Counter(texts)


def test_a_killed_worker_sends_nothing_twice(sent: tuple[str, Counter[str]], tmp_path: Path) -> None:
    nameserver, texts = sent
    told = run_program(PROGRAM, LOCAL, nameserver, str(tmp_path), "worker")
    assert (tmp_path / "killed").exists()
    assert told["replayed"] == [COUNT, COUNT, 0, 0]
    assert bodies_of(nameserver, "out") == texts


def test_a_killed_executor_sends_nothing_twice(sent: tuple[str, Counter[str]], tmp_path: Path) -> None:
    nameserver, texts = sent
    master, address = master_process(tmp_path)
    with master, worker_process(address, tmp_path, cores=2):
        told = run_program(PROGRAM, address, nameserver, str(tmp_path), "jvm")
    assert (tmp_path / "killed").exists()
    assert told["replayed"] == [COUNT, COUNT, 0, 0]
    assert bodies_of(nameserver, "out") == texts


def test_a_replay_whose_driver_was_killed_goes_on_under_its_name(
    sent: tuple[str, Counter[str]], tmp_path: Path
) -> None:
    nameserver, texts = sent
    command = [sys.executable, "-m", PROGRAM, LOCAL, nameserver, str(tmp_path), "jvm"]
    killed = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, timeout=300, check=False)
    assert killed.returncode != 0 and (tmp_path / "killed").exists()
    before = bodies_of(nameserver, "out").total()
    assert 0 < before < COUNT

    told = run_program(PROGRAM, LOCAL, nameserver, str(tmp_path), "jvm")

    found, fresh, known, failed = told["replayed"]
    assert (found, failed) == (COUNT, 0) and known >= before and fresh + known == COUNT
    assert bodies_of(nameserver, "out") == texts
