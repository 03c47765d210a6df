"""Drivers and brokers killed under the JVM lane's source and sink, and lanes changed in between: nothing is lost, and
the idempotent sink has nothing twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from pyromq import Message, Producer
from pyromq.errors import MQError
from pyromq.testing import ServerProcess
from tests.running.seeds import seed_of
from tests.spark.lane_driver import MODES, SOURCE
from tests.spark.queries import until
from tests.spark.test_sink import bodies_of
from tests.spark.topics import Topics
from tests.unit.test_docs import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("lane_jar_or_skip")]
LIVES = ("jvm", "jvm", "python")
"""Of drivers; all but the last are killed."""


@contextmanager
def driver(nameserver: str, folder: Path, lane: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.spark.lane_driver", nameserver, str(folder), lane]
    process = subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert process.stdout is not None
        assert any(line == "begun\n" for line in process.stdout), "the driver ended"
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)


def send_on(nameserver: str, sent: list[str], stop: threading.Event) -> None:
    """What brokers confirm while they live is to be found in the copies."""
    with Producer(nameserver, group="writers") as producer:
        number = 0
        while not stop.is_set():
            number += 1
            stop.wait(0.01)  # so that the last driver has little left to do
            try:
                producer.send(Message(SOURCE, f"row-{number}".encode(), keys=f"k{number}"))
            except MQError:
                continue
            sent.append(f"row-{number}")


@pytest.mark.seeded
def test_drivers_and_brokers_that_are_killed(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    rng, sent, stop, source = Random(seed_of(190)), list[str](), threading.Event(), Counter[str]()
    with ServerProcess("up", data=tmp_path / "data") as server, Topics(server.nameserver, "kills") as topics:
        for topic in (SOURCE, *MODES):
            topics.create(topic, queues=2)
        sending = threading.Thread(target=send_on, args=(server.nameserver, sent, stop))
        sending.start()
        try:
            for life, lane in enumerate(LIVES):
                copied = sum(bodies_of(topics, MODES[1]).values())
                with driver(server.nameserver, tmp_path, lane) as process:
                    until(lambda least=copied: sum(bodies_of(topics, MODES[1]).values()) > least, "rows are copied")
                    time.sleep(rng.uniform(0, 1.5))  # so that the kill hits any part of a batch
                    if life == 1:
                        server.kill()
                        server.start()
                        time.sleep(rng.uniform(0, 3))
                    assert process.poll() is None, "the driver ended by itself"
                    if life == len(LIVES) - 1:
                        stop.set()
                        sending.join(60)
                        source = bodies_of(topics, SOURCE)  # with what was sent twice, or not confirmed
                        for mode in MODES:
                            until(lambda mode=mode, all_=source: not all_ - bodies_of(topics, mode), f"{mode} has all")
                        time.sleep(1)  # what is sent twice has time to come
        finally:
            stop.set()
            sending.join(60)
        found = {mode: bodies_of(topics, mode) for mode in MODES}
    assert not Counter(sent) - source and not source - found[MODES[0]], "nothing confirmed is lost"
    record_property("ledger duplicates", sum((found[MODES[0]] - source).values()))
    assert found[MODES[1]] == source, "each row once"
