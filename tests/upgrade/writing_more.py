"""Writes what stands beside a store, with the PyroMQ on the path: settings, data of the console, a checkpoint of Spark.

``make_corpus.py`` runs it with sources of an earlier state. ``written.json`` says what a reader has to find.
"""

from __future__ import annotations

import importlib
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyromq import Message, Producer
from pyromq.clock import SystemClock

READ, LEFT = 60, 25  # messages that a stream had read, and that came after it
SETTINGS = """\
[broker]
name = "corpus"
cluster = "shop"
auto_create_topics = false
default_topic_queues = 2
nameservers = ["10.0.0.7:9876", "10.0.0.8:9876"]
quotas = ["topic:orders messages=5000 bytes=50m", "address:* connections=20"]

[broker.store]
flush = "async"
keep_ms = 172_800_000

[broker.replication]
role = "sync-master"
"""


def main(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "broker.toml").write_text(SETTINGS, encoding="utf-8")
    settings = {"settings": settings_of(folder / "broker.toml")}
    written = settings | keep_console(folder / "console") | keep_checkpoint(folder)
    (folder / "written.json").write_text(json.dumps(written, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def settings_of(file: Path) -> dict[str, object]:
    """Each setting that the file gives, with its value as ``--print-config`` shows it."""
    command = [sys.executable, "-m", "pyromq", "broker", "--config", str(file), "--print-config"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    shown = [json.loads(line) for line in lines]
    return {row["setting"]: row["value"] for row in shown if row["source"] == "file"}


def keep_console(folder: Path) -> dict[str, object]:
    """Accounts with a password and a token; a job that ended, and one whose console was killed."""
    from pyromq.console.auth.accounts import ADMIN, Accounts
    from pyromq.console.auth.roles import ConsoleRole
    from pyromq.console.settings import ConsoleSettings

    with (
        patch("pyromq.console.auth.accounts.new_password", lambda: "a-password-for-tests"),
        patch("pyromq.console.auth.accounts.secrets.token_urlsafe", lambda size: "a-token-for-tests"),
    ):
        accounts = Accounts(ConsoleSettings(data=folder), SystemClock())
        token = accounts.add_token("robot", ConsoleRole.READER)
    jobs = _jobs()
    for number, state in enumerate(("FINISHED", "RUNNING")):
        spec = jobs["specs"].Redrive(group="billing", run_id=f"{number}-abc")
        record = jobs["record"].JobRecord(
            id=spec.run_id, spec=spec, by=ADMIN, created_ms=number, state=jobs["record"].JobState[state]
        )
        files = jobs["files"].JobFiles(folder / "jobs" / record.id)
        files.create(record)
        files.begin("letter-0")
        files.add(jobs["outcomes"].ItemResult(item="letter-0", outcome=jobs["outcomes"].Outcome.CONFIRMED))
        files.begin("letter-1")  # no result: nobody knows
        files.close()
    return {"password": accounts.generated, "token": token}


def _jobs() -> dict[str, Any]:
    """Modules of jobs, which have moved."""
    try:
        importlib.import_module("pyromq.operate.jobs.files")
        room = "pyromq.operate.jobs"
    except ImportError:
        room = "pyromq.console.jobs"
    return {name: importlib.import_module(f"{room}.{name}") for name in ("files", "record", "specs", "outcomes")}


def keep_checkpoint(folder: Path) -> dict[str, object]:
    """A stream reads a topic to its end and stops; more messages come."""
    from pyromq.pipeline import session

    ports = ["--nameserver-port", "0", "--broker-port", "0", "--no-console", "--no-metrics"]
    up = [sys.executable, "-m", "pyromq", "up", "--data", str(folder / "data"), *ports]
    process = subprocess.Popen(up, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        nameserver = dict(part.split("=", 1) for part in process.stdout.readline().split()[1:])["nameserver"]
        send(nameserver, 0, READ)
        spark = session("local[1]")
        stream = spark.readStream.format("pyromq").option("nameserver", nameserver).option("topic", "orders")
        rows = (
            stream.option("group", "lake")
            .option("startingOffsets", "earliest")
            .load()
            .selectExpr("cast(body as string) body")
        )
        query = rows.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
        query.trigger(availableNow=True).start(str(folder / "rows")).awaitTermination()
        read = spark.read.parquet(str(folder / "rows")).count()
        spark.stop()
        send(nameserver, READ, LEFT)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    shutil.rmtree(folder / "rows")
    return {"read": read, "left": LEFT}


def send(nameserver: str, first: int, count: int) -> None:
    with Producer(nameserver, group="writers") as producer:
        for number in range(first, first + count):
            producer.send(Message("orders", b"order %d" % number))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
