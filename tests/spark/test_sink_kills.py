"""The driver and its JVM are killed between writing and committing; what the next life makes of it is counted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyromq.broker.settings import BrokerSettings
from pyromq.testing import LoopbackBroker
from pyromq.testing.loopback import SMALL_FILES
from tests.spark.killed_sinks import MODES
from tests.spark.test_sink import bodies_of
from tests.spark.topics import Topics

pytestmark = pytest.mark.spark
LIFE_S_MAX = 150
QUICK_CHECKS = BrokerSettings(
    store=SMALL_FILES, transaction_timeout_ms=500, transaction_check_interval_ms=500, transaction_checks_max=10_000
)


@contextmanager
def driver(nameserver: str, folder: Path, place: str) -> Iterator[subprocess.Popen[bytes]]:
    """One life; at its end nothing of it is left."""
    command = [sys.executable, "-m", "tests.spark.killed_sinks", nameserver, str(folder), place]
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "PYSPARK_PYTHON": sys.executable}
    with (folder / f"{place}.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # the JVM is in its group
            process.wait()


def wait_until(holds: Callable[[], bool], what: str, timeout_s: float = LIFE_S_MAX) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, f"did not happen within {timeout_s} s: {what}"
        time.sleep(0.1)


def live_until(nameserver: str, folder: Path, place: str, files: list[str]) -> None:
    with driver(nameserver, folder, place) as process:
        log = folder / f"{place}.log"
        wait_until(
            lambda: process.poll() is not None or all((folder / f"{name}.there").exists() for name in files),
            f"{place}: {log.read_text()[-2000:] if log.exists() else ''}",
        )
        assert process.poll() is None, log.read_text()[-4000:]
    for name in files:
        (folder / f"{name}.there").unlink()


def test_killed_drivers_lose_nothing_and_exactly_once_modes_repeat_nothing(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with LoopbackBroker(QUICK_CHECKS) as broker, Topics(broker.nameserver, "killed") as topics:
        for name in ("in", *MODES):
            topics.admin.create_topic(name, queues=2)
        sent = Counter(topics.send("in", range(200)))

        live_until(broker.nameserver, tmp_path, "written", list(MODES))
        assert bodies_of(topics, "at-least-once") == sent
        assert bodies_of(topics, "idempotent") == sent
        assert not bodies_of(topics, "transactional"), "half messages are seen by nobody"

        live_until(broker.nameserver, tmp_path, "committed", list(MODES))
        assert bodies_of(topics, "idempotent") == sent
        assert bodies_of(topics, "transactional") <= sent, "decided: brokers may have asked, nobody has told them"

        with driver(broker.nameserver, tmp_path, "nowhere"):
            wait_until((tmp_path / "finished.there").exists, (tmp_path / "nowhere.log").read_text()[-2000:])
            wait_until(lambda: bodies_of(topics, "transactional") >= sent, "check-backs are answered", 30)
            wait_until(lambda: not topics.admin.open_transactions(), "the first life's half messages end too", 30)
        doubled = sum((bodies_of(topics, "at-least-once") - sent).values())
        assert bodies_of(topics, "at-least-once") >= sent and doubled == 2 * 200, "each life sent the batch again"
        assert bodies_of(topics, "idempotent") == sent
        assert bodies_of(topics, "transactional") == sent
        record_property("ledger duplicates", doubled)
