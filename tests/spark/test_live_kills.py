"""Real-time mode from topic to topic: its driver is killed in the middle of batches, and its broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pyromq import Message
from pyromq.errors import MQError
from pyromq.testing import ServerProcess
from tests.running.seeds import seed_of
from tests.spark.killed_live_copies import MODES, copy
from tests.spark.test_sink import bodies_of
from tests.spark.topics import Topics

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("lane_jar_or_skip")]
ROOT = Path(__file__).parents[2]
LIFE_S_MAX = 300
LIVES = 3
PAUSE_S = 0.02  # between two messages


class Sending:
    """``with Sending(topics)``: messages come all the time, whatever becomes of who copies them."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *exc_info: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _send(self) -> None:
        number = 0
        while not self._is_over.wait(PAUSE_S):
            try:
                self._topics.producer.send(Message("in", b"row-%d" % number))
            except MQError:
                continue  # its broker is away; what it has stored for all that is in the topic, and counts
            number += 1


@contextmanager
def life(nameserver: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tests.spark.killed_live_copies", nameserver, str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    with (folder / "driver.log").open("wb") as log:
        driver = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True)
        try:
            yield driver
        finally:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()


def until(holds: Callable[[], object], what: str, driver: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + LIFE_S_MAX
    while not holds():
        log = (folder / "driver.log").read_text(errors="replace")[-6_000:]
        assert driver.poll() is None, f"the driver ended by itself: {log}"
        assert time.monotonic() < deadline, f"did not happen: {what}; {log}"
        time.sleep(0.05)


@pytest.mark.seeded
def test_no_row_is_lost_or_there_twice_when_drivers_and_brokers_are_killed_in_the_middle_of_batches(
    spark: Any, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    rng = Random(seed_of(27))
    with ServerProcess("up", data=tmp_path / "data") as servers, Topics(servers.nameserver, "live") as topics:
        for name in ("in", *MODES):
            topics.create(name, queues=2)
        with Sending(topics):
            for number in range(LIVES):
                with life(servers.nameserver, tmp_path) as driver:
                    until_more_is_there(topics, rng.randint(20, 120), driver, tmp_path)
                    if number == 1:
                        servers.kill()
                        servers.start()
                        until_more_is_there(topics, 20, driver, tmp_path)
        sent = bodies_of(topics, "in")
        cut_off = {mode: bodies_of(topics, mode) for mode in MODES}
        for mode in MODES:  # a batch that was cut off in the JVM lane is ended by a micro-batch in Python's
            query = copy(spark, mode, servers.nameserver, tmp_path, "python", {"availableNow": True})
            assert query.awaitTermination(LIFE_S_MAX)
        found = {mode: bodies_of(topics, mode) for mode in MODES}
    assert all(cut_off.values()), "rows came before any batch was done in Python"
    repeated = found["at-least-once"] - sent
    record_property("ledger duplicates", repeated.total())
    assert found["at-least-once"] >= sent, "nothing is lost"
    assert found["idempotent"] == sent, "and nothing is there twice"


def until_more_is_there(topics: Topics, count: int, driver: subprocess.Popen[bytes], folder: Path) -> None:
    """Rows of this life have come to both targets."""
    before = {mode: total(topics, mode) for mode in MODES}
    until(lambda: all(total(topics, mode) >= before[mode] + count for mode in MODES), f"{count} more", driver, folder)


def total(topics: Topics, topic: str) -> int:
    return sum(topics.admin.offsets.range(queue).max_offset for queue in topics.queues(topic))
