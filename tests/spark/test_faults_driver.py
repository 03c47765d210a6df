"""A driver with every kind of pipeline, killed in every phase of a micro-batch; then its workers, then its brokers.

The first batch goes through most of it: each life runs it again and is killed one place further. What is counted at
the end is where every acknowledged message is: in the topics of the sinks, in the archive, with the handler, or among
the dead.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pyromq.model.names import dead_letter_topic, retry_topic
from pyromq.pipeline.jobs import read_archive
from pyromq.pipeline.spark.jvm.jar import lane_jar_if_any
from pyromq.testing import ServerProcess
from tests.integration.ledger import Ledger, report
from tests.spark.killed_pipelines import COPIES, PIPELINES, WRITTEN_BY_PYTHON, archiving, consuming, copy
from tests.spark.places import FOLDER, KILLING, LIFE, NOWHERE, PLACES, STARTED, checkpoint_of, go_to
from tests.spark.test_sink import bodies_of, stored
from tests.spark.topics import Topics, bodies

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[2]
LIFE_S_MAX = 300
ROWS = 200
QUICK = f"""
[broker]
transaction_timeout_ms = 500
transaction_check_interval_ms = 500
transaction_checks_max = 10000
[broker.store]
delay_ladder_ms = {[500] * 18}
"""


class Rig:
    """Servers, their topics, and a folder with all that lives of the driver leave behind."""

    def __init__(self, servers: ServerProcess, topics: Topics, folder: Path) -> None:
        self.servers, self.topics, self.folder = servers, topics, folder
        self.ledger = Ledger(servers.nameserver, "in", "consume")
        self.undecided = set[str]()  # prepared messages of the life that was killed before its decision
        self.free = ("jvm-at-least-once",) if lane_jar_if_any() is not None else ()
        self._life, self._at = 0, ""

    def send(self, count: int) -> None:
        queues, first = self.topics.queues("in"), len(self.topics.sent)
        for number in range(first, first + count):
            text = f"row-{number}"
            receipt = self.topics.producer.send(message(text), queue=queues[number % len(queues)])
            self.topics.sent.append(text)
            self.ledger.acknowledged.add(receipt.message_id)

    @property
    def sent(self) -> Counter[str]:
        return Counter(self.topics.sent)

    def found(self, topic: str) -> Counter[str]:
        return bodies_of(self.topics, topic)

    def log(self, pipeline: str, part: str) -> set[int]:
        """Batches that Spark has written down."""
        folder = checkpoint_of(self.folder, pipeline) / part
        return {int(path.name) for path in folder.glob("*") if path.name.isdigit()}

    def progress(self, pipeline: str) -> int:
        return sum(offset or 0 for offset in self.topics.committed("in", pipeline).values())

    @property
    def held(self) -> list[str]:
        """Pipelines that stop at every place: an at-least-once sink of the JVM commits nothing."""
        runs_free = self.free if self._life > WRITTEN_BY_PYTHON and self._at in PLACES else ()
        return [name for name in PIPELINES if name not in runs_free]

    # --- lives ---

    @contextmanager
    def life(self, place: str) -> Iterator[subprocess.Popen[bytes]]:
        """One driver; at its end it is killed, and nothing of it is left."""
        self._life += 1
        self.go_to(place)
        (self.folder / "site").mkdir(exist_ok=True)
        (self.folder / "site" / "sitecustomize.py").write_text("from tests.spark.places import install\n\ninstall()\n")
        command = [sys.executable, "-m", "tests.spark.killed_pipelines", self.servers.nameserver, str(self.folder)]
        environment = {
            **os.environ,
            FOLDER: str(self.folder),
            LIFE: str(self._life),
            "PYTHONPATH": f"{self.folder / 'site'}:{ROOT}",
            "PYSPARK_PYTHON": sys.executable,
        }
        with (self.folder / "driver.log").open("wb") as log:
            driver = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
            )
            try:
                yield driver
            finally:
                os.killpg(driver.pid, signal.SIGKILL)  # Spark's own process is in its group
                driver.wait()

    def go_to(self, place: str) -> None:
        self._at = place
        go_to(self.folder, self._life, place)

    def until(self, holds: Callable[[], object], what: str, driver: subprocess.Popen[bytes] | None = None) -> None:
        deadline = time.monotonic() + LIFE_S_MAX
        while not holds():
            log = (self.folder / "driver.log").read_text(errors="replace")[-6_000:]
            assert driver is None or driver.poll() is None, f"the driver ended by itself: {log}"
            assert time.monotonic() < deadline, f"did not happen: {what}; {log}"
            time.sleep(0.05)

    def until_all_are_there(self, driver: subprocess.Popen[bytes], place: str) -> None:
        def missing() -> list[str]:
            return [name for name in self.held if not (self.folder / f"{name}.there").exists()]

        self.until(lambda: not missing(), f"all stop at {place}", driver)

    @property
    def all_is_read(self) -> bool:
        """Every group stands at the end."""
        return all(self.progress(name) == len(self.topics.sent) for name in PIPELINES)

    def until_idle(self, driver: subprocess.Popen[bytes]) -> None:
        self.until(lambda: self.all_is_read, "all has been read", driver)


def message(text: str) -> Any:
    from pyromq import Message

    return Message("in", text.encode(), keys=text)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    (tmp_path / "quick.toml").write_text(QUICK)
    flags = "--config", str(tmp_path / "quick.toml")
    with ServerProcess("up", *flags, data=tmp_path / "data") as servers, Topics(servers.nameserver, "killed") as topics:
        for name in ("in", *COPIES):
            topics.create(name, queues=2)
        folder = tmp_path / "lives"
        folder.mkdir()
        yield Rig(servers, topics, folder)


def test_nothing_is_lost_whatever_is_killed_when(
    spark: Any, rig: Rig, record_property: Callable[[str, object], None]
) -> None:
    for place in PLACES:
        with rig.life(place if rig.sent else STARTED) as driver:
            if not rig.sent:
                send_behind_the_start(rig, driver, place)
            rig.until_all_are_there(driver, place)
            CHECKS[place](rig)
    with rig.life(KILLING) as driver:
        check_that_workers_are_replaced(rig, driver)
        check_that_brokers_are_waited_for(rig, driver)
        check_reading(rig, driver)
    rig.send(20)
    spark.conf.set("spark.pyromq.lane", "auto")
    finish(spark, rig)
    spark.conf.unset("spark.pyromq.lane")
    check_the_books(spark, rig, record_property)


def send_behind_the_start(rig: Rig, driver: subprocess.Popen[bytes], place: str) -> None:
    """Most begin at "latest". Spark does not remember what that was until the first batch is done, groups do."""
    rig.until_all_are_there(driver, STARTED)
    assert all(set(rig.topics.committed("in", name).values()) == {0} for name in PIPELINES)
    rig.send(ROWS)
    rig.go_to(place)


# --- the driver is there ---------------------------------------------------------------------------------------------


def check_planned(rig: Rig) -> None:
    for name in PIPELINES:
        assert rig.log(name, "offsets") == {0} and not rig.log(name, "commits"), name
        assert not rig.progress(name), name
    assert not any(rig.found(name) for name in COPIES)


def check_writing(rig: Rig) -> None:
    for mode in ("at-least-once", "idempotent", "jvm-at-least-once", "jvm-idempotent"):
        rig.until(lambda: rig.found(mode), f"{mode}: something is sent")  # noqa: B023
        assert rig.found(mode).total() < ROWS, f"{mode}: but not all"
    assert not rig.found("transactional"), "no consumer sees prepared messages"
    assert rig.topics.admin.transactions.list("transactional")
    assert (rig.folder / "done").exists() and rig.found(dead_letter_topic("consume"))
    assert list((rig.folder / "archive" / "_pyromq" / "staged").glob("*.parquet.staged"))
    assert not any(rig.log(name, "commits") for name in PIPELINES)


def check_staged(rig: Rig) -> None:
    """Every row has its prepared message; brokers ask about them, and are told to wait for the decision."""
    prepared = rig.topics.admin.transactions.list("transactional")
    assert Counter(key for each in prepared for key in each.keys) > rig.sent, "those of the life before wait too"
    rig.undecided = {each.message_id for each in prepared}

    rig.until(lambda: rig.undecided <= {key for key, _ in answers(rig)}, "brokers have asked about all of them")
    assert {answer for key, answer in answers(rig) if key in rig.undecided} == {"UNKNOWN"}
    assert not rig.found("transactional") and not decisions(rig)
    assert rig.found("idempotent") == rig.sent and rig.found("at-least-once") >= rig.sent
    assert rig.found("jvm-idempotent") == rig.sent and rig.found("jvm-at-least-once") >= rig.sent
    own = rig.folder / "archive" / "_pyromq"
    assert list((own / "staged").glob("*.parquet.staged")) and not list((own / "pending").iterdir())
    assert not any(rig.log(name, "commits") for name in PIPELINES)


def answers(rig: Rig) -> list[list[str]]:
    """Keys of prepared messages that brokers asked about, and what they were told."""
    asked = rig.folder / "asked"
    return [line.split() for line in asked.read_text().splitlines()] if asked.exists() else []


def decisions(rig: Rig) -> list[str]:
    folder = checkpoint_of(rig.folder, "transactional") / "pyromq" / "decisions"
    return [path.name for path in folder.glob("*")]


def check_committing(rig: Rig) -> None:
    assert rig.found("at-least-once") >= rig.sent
    assert rig.found("idempotent") == rig.found("jvm-idempotent") == rig.sent
    assert rig.found("transactional") <= rig.sent, "decided: brokers may have asked, and were not told"
    assert decisions(rig) == ["0"]
    assert list((rig.folder / "archive" / "_pyromq" / "pending").glob("*.json"))
    assert not any(rig.log(name, "commits") for name in rig.held)


def check_committed(rig: Rig) -> None:
    for name in ("idempotent", "jvm-idempotent"):
        marker = checkpoint_of(rig.folder, name) / "pyromq" / "sent" / "marker"
        assert json.loads(marker.read_text())["batch"] == 0
    assert list((rig.folder / "archive" / "_pyromq" / "commits").glob("*.json"))
    assert not any(rig.log(name, "commits") for name in rig.held)
    assert not any(rig.progress(name) for name in rig.held)


def check_noted(rig: Rig) -> None:
    assert all(rig.log(name, "commits") == {0} for name in PIPELINES)
    assert not any(rig.progress(name) for name in rig.held), "no group has heard of it"


CHECKS = dict(
    zip(
        PLACES,
        (check_planned, check_writing, check_staged, check_committing, check_committed, check_noted),
        strict=True,
    )
)


def check_that_workers_are_replaced(rig: Rig, driver: subprocess.Popen[bytes]) -> None:
    """Each pipeline loses the worker of a task that reads, and then of one that writes; Spark runs them again."""
    rig.send(60)
    rig.until_idle(driver)
    killed = {path.name.removesuffix(".killed") for path in rig.folder.glob("*.killed")}
    assert killed == {f"{name}.{place}" for name in PIPELINES for place in ("reading", "writing")}


def check_that_brokers_are_waited_for(rig: Rig, driver: subprocess.Popen[bytes]) -> None:
    """They are killed and come back in the middle of a batch: once while it is read, once while it is written."""
    rig.go_to("reading")
    rig.send(100)
    rig.until_all_are_there(driver, "reading")
    rig.servers.kill()
    rig.servers.start()
    rig.go_to("writing")
    rig.until_all_are_there(driver, "writing")
    rig.servers.kill()
    rig.servers.start()
    rig.go_to(NOWHERE)
    rig.until_idle(driver)


def check_reading(rig: Rig, driver: subprocess.Popen[bytes]) -> None:
    """The driver is killed there in a later batch, which does not begin where the query began."""
    rig.go_to("reading")
    rig.send(20)
    rig.until_all_are_there(driver, "reading")
    for name in PIPELINES:
        assert max(rig.log(name, "offsets")) == max(rig.log(name, "commits")) + 1 > 1, name


# --- the last life, and what it all comes to -------------------------------------------------------------------------


def finish(spark: Any, rig: Rig) -> None:
    now, server = {"availableNow": True}, rig.servers.nameserver
    for name in COPIES:
        assert copy(spark, name, server, rig.folder, now).awaitTermination(LIFE_S_MAX)
    archiving(spark, server, rig.folder)
    while True:  # each run reads the retries that have come by then
        assert consuming(spark, server, rig.folder, now).awaitTermination(LIFE_S_MAX)
        waiting = [each for each in rig.topics.admin.delays.list() if each.group == "consume"]
        held = rig.topics.admin.topics.stats(retry_topic("consume"))
        ends = {queue: each.max_offset for queue, each in held.items()}
        if not waiting and all(
            (rig.topics.admin.offsets.committed("consume", queue) or 0) >= ends[queue] for queue in ends
        ):
            return


def check_the_books(spark: Any, rig: Rig, record_property: Callable[[str, object], None]) -> None:
    rig.until(lambda: rig.found("transactional") >= rig.sent, "brokers have asked about every prepared message")
    rig.until(lambda: not rig.topics.admin.transactions.list(), "also about those of the first lives")
    assert rig.found("transactional") == rig.sent
    assert not rig.undecided & {message.message_id for message in stored(rig.topics, "transactional")}
    assert rig.found("idempotent") == rig.found("jvm-idempotent") == rig.sent
    assert rig.found("jvm-at-least-once") >= rig.sent
    repeated = rig.found("at-least-once") - rig.sent
    assert rig.found("at-least-once") >= rig.sent and repeated.total() >= 3 * ROWS, "three lives sent all of it in vain"
    record_property("ledger duplicates", repeated.total())
    assert bodies(read_archive(spark, str(rig.folder / "archive")).collect()) == rig.sent
    dead = {text for text in rig.sent if text[-1] == "3"}
    letters = stored(rig.topics, dead_letter_topic("consume"))
    assert {letter.body.decode() for letter in letters} == dead
    for letter in letters:
        assert letter.get("DLQ_ERROR") == "a three" and letter.get("DLQ_STAGE") == "handler"
        assert letter.get("DLQ_SOURCE").startswith("in/broker-a/") and "/" in letter.get("DLQ_BATCH")
    rig.until(lambda: rig.all_is_read, "every group stands at the end")
    rig.ledger.read([rig.folder / "done"])
    account = asyncio.run(rig.ledger.account())
    report(account, record_property)
    assert account.counts["dead"] == len(dead)
    assert account.is_settled
