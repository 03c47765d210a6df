"""``pyromq pipeline …``: commands with a Spark that is there already."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pyromq.cli.main import main
from pyromq.cli.pipeline import commands
from pyromq.cli.pipeline.options import SparkOptions
from pyromq.pipeline.jobs import Selection, archive, read_archive
from tests.spark.conftest import QUICK
from tests.spark.queries import LIFE_S_MAX, until
from tests.spark.test_jobs_sending import bury
from tests.spark.topics import Topics, bodies

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def shared_spark(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def given(options: SparkOptions, settings: Mapping[str, str] | None = None) -> Iterator[Any]:
        yield spark

    monkeypatch.setattr(commands, "started", given)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    """What the command wrote as JSON."""
    assert main(["pipeline", *arguments, "-o", "json"]) == code
    return json.loads(capsys.readouterr().out)


def test_archive_report_and_dedupe_answer_in_json_and_tables(
    topics: Topics, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = topics.make(queues=1)
    topics.send(topic, ["a", "b", "b"], keys="k")
    here = ("-n", topics.nameserver)
    done = answer(capsys, "archive", topic, *here, "--to", str(tmp_path / "a"), "-g", topics.group, "--compact")
    assert done["messages"] == 3 and done["files"] >= 1

    html = tmp_path / "report.html"
    found = answer(capsys, "report", topic, *here, "--html", str(html), "--trace-topic", topics.name("-none"))
    assert found["throughput"][0]["messages"] == 3 and found["duplicates"][0]["key"] == "k"
    assert topic in html.read_text()
    assert main(["pipeline", "report", topic, *here, "--trace-topic", topics.name("-none"), "-o", "table"]) == 0
    shown = capsys.readouterr().out
    assert "Throughput" in shown and "storing" in shown and "Lag" not in shown

    to = str(tmp_path / "once")
    key = ("--key", "string(body)")
    done = answer(capsys, "dedupe", topic, *here, *key, "--to", to, "-g", f"{topics.group}-2")
    assert (done["read"], done["dropped"]) == (3, 1)


def test_ctrl_c_ends_an_archive_that_follows(spark: Any, topics: Topics, tmp_path: Path) -> None:
    """In the middle of a batch, most likely: each commit makes new messages come. What it told of is there; the next
    run has all.
    """
    topic, to, enough = topics.make(), tmp_path / "a", threading.Event()
    command = ["archive", topic, "-n", topics.nameserver, "--to", str(to), "-g", topics.group, "--follow", "0.05"]
    java = f"spark.driver.extraJavaOptions={QUICK['spark.driver.extraJavaOptions']}"

    def commits() -> int:
        return len(list((to / "_pyromq" / "commits").glob("*.json")))

    def keep_sending() -> None:
        while not enough.is_set():
            before = commits()
            topics.send(topic, range(len(topics.sent), len(topics.sent) + 5))
            while commits() == before and not enough.wait(0.02):
                pass

    def has_committed() -> bool:
        assert following.poll() is None, f"the command ended: {following.communicate()}"
        return commits() > 2

    sending = threading.Thread(target=keep_sending)
    with subprocess.Popen(
        [sys.executable, "-m", "pyromq", "pipeline", *command, "--master", "local[2]", "--conf", java, "-o", "json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as following:  # fmt: skip
        sending.start()
        try:
            until(has_committed, "batches are committed", timeout_s=LIFE_S_MAX)
            os.killpg(following.pid, signal.SIGINT)  # as a terminal does: to every process of the command
            out, err = following.communicate(timeout=LIFE_S_MAX)
        finally:
            following.kill()
            enough.set()
            sending.join()
    assert (following.returncode, err) == (0, "")
    done = json.loads(out)
    there = read_archive(spark, str(to))
    assert done["messages"] == there.count() and done["batches"] > 2
    ends = dict(there.groupBy("queue_id").max("queue_offset").collect())
    told = {queue: offset for queue, offset in topics.committed(topic).items() if offset}
    assert told and all(offset <= ends[queue] + 1 for queue, offset in told.items()), "nothing is skipped"
    archive(spark, Selection(topics=(topic,), nameserver=topics.nameserver), str(to), group=topics.group)
    assert bodies(read_archive(spark, str(to)).collect()) == Counter(topics.sent)


def test_replay_asks_before_it_sends(spark: Any, topics: Topics, capsys: pytest.CaptureFixture[str]) -> None:
    topic, target = topics.make(), topics.make("-to")
    topics.send(topic, range(3))
    replay = ("replay", topic, "-n", topics.nameserver, "--to", target)
    assert answer(capsys, *replay, "--dry-run")["is_dry"]
    assert main(["pipeline", *replay]) == 1  # there is no terminal to ask on
    assert answer(capsys, *replay, "--yes", "--rate", "1000", "--begin", "1h ago")["sent"] == 3
    assert Selection(topics=(target,), nameserver=topics.nameserver).frame(spark).count() == 3


def test_redrive_tells_of_every_dead_letter(
    topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = topics.make()
    bury(topics, topic, ["1", "x"])
    (tmp_path / "fixes_of_cli.py").write_text(
        "import msgspec\ndef mend(letter):\n    return msgspec.structs.replace(letter, body=b'%d' % int(letter.body))\n"
    )
    monkeypatch.chdir(tmp_path)
    redrive = ("redrive", topics.group, "-n", topics.nameserver, "--patch", "fixes_of_cli:mend")
    assert [each["status"] for each in answer(capsys, *redrive, "--dry-run", code=5)] == ["would send", "failed"]
    assert [each["status"] for each in answer(capsys, *redrive, "--yes", code=5)] == ["sent", "failed"]
    assert main(["pipeline", "redrive", topics.group, "--patch", "nonsense"]) == 1


def test_run_checks_files_before_spark_is_needed(
    topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, path = topics.make(), tmp_path / "p.toml"
    topics.send(topic, range(2))
    path.write_text(f"""
        name = "cli-run"
        checkpoint = "c"
        [source]
        nameserver = "{topics.nameserver}"
        topic = "{topic}"
        [[sink]]
        kind = "parquet"
        path = "out"
    """)
    assert answer(capsys, "run", str(path))["sinks"][0]["rows"] == 2
    monkeypatch.delattr(commands, "started")
    assert main(["pipeline", "run", str(path), "--check"]) == 0
    path.write_text('name = "x"')
    assert main(["pipeline", "run", str(path)]) == 1
    assert "source: it is missing" in capsys.readouterr().err


def test_store_counts_and_queries_a_folder(
    broker_folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    counts = {row["topic"]: row["messages"] for row in answer(capsys, "store", str(broker_folder))}
    assert counts["stored"] == 4
    rows = answer(capsys, "store", str(broker_folder), "-q", "SELECT string(body) AS b FROM messages WHERE tags = 't'")
    assert sorted(row["b"] for row in rows) == ["ored-0", "ored-1"]
    written = answer(capsys, "store", str(broker_folder), "--topic", "stored", "--to", str(tmp_path / "out"))
    assert (written["path"], written["rows"]) == (str(tmp_path / "out"), 4)
    assert main(["pipeline", "store", str(tmp_path)]) == 2


@pytest.fixture
def broker_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from pyromq.testing import LoopbackBroker

    folder = tmp_path_factory.mktemp("broker")
    with LoopbackBroker(folder=folder) as broker, Topics(broker.nameserver, "stored") as topics:
        topics.send(topics.make(), range(2), tags="t")
        topics.send("stored", range(2, 4))
    return folder
