"""Writes a data folder with the PyroMQ on the path; ``make_corpus.py`` runs it with sources of an earlier state.

Uses what every state had: ``pyromq up``, plain sends, delays, a consumer that took a part. ``written.json`` says what a
reader has to find.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from pyromq import Message, Producer, PushConsumer
from pyromq.idempotent import Marks, once
from pyromq.outbox import Outbox, OutboxProducer

PLAIN, DELAYED, TAKEN = 120, 5, 40
DELAY_LEVEL = 18  # two hours: they are still waiting when a test opens the folder


def main(folder: Path, is_killed: bool) -> None:
    folder.mkdir(parents=True)
    broker, address = start(folder / "data")
    try:
        written = send(address) | {"taken": consume(address, folder), "killed": is_killed}
        keep_outbox(address, folder)
    finally:
        broker.send_signal(signal.SIGKILL if is_killed else signal.SIGTERM)
        broker.wait(60)
    (folder / "written.json").write_text(json.dumps(written, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def start(data: Path) -> tuple[subprocess.Popen[str], str]:
    """A broker on free ports; parts that a state may not have are switched off where it knows them."""
    up = [sys.executable, "-m", "pyromq", "up"]
    known = subprocess.run([*up, "--help"], capture_output=True, text=True, check=True).stdout
    off = [each for each in ("--no-console", "--no-metrics") if each in known]
    ports = ["--nameserver-port", "0", "--broker-port", "0"]
    process = subprocess.Popen([*up, "--data", str(data), *ports, *off], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    parts = dict(part.split("=", 1) for part in process.stdout.readline().split()[1:])
    return process, parts["nameserver"]


def send(address: str) -> dict[str, object]:
    """Plain messages with tags and keys, and delayed ones."""
    with Producer(address, group="writers") as producer:
        for number in range(PLAIN):
            producer.send(Message("orders", b"order %d" % number, tags=f"t{number % 3}", keys=f"key-{number}"))
        for number in range(DELAYED):
            producer.send(Message("later", b"later %d" % number, delay_level=DELAY_LEVEL))
    return {"plain": PLAIN, "delayed": DELAYED}


def consume(address: str, folder: Path) -> int:
    """A group takes some, leaves a mark for each, and commits that."""
    seen: set[str] = set()
    enough = threading.Event()

    def listen(message: Any) -> None:
        seen.add(message.keys if isinstance(message.keys, str) else " ".join(message.keys))
        if len(seen) >= TAKEN:
            enough.set()

    listener = once(listen, Marks(str(folder / "marks.db"), scope="billing"))
    with PushConsumer(address, group="billing", topics="orders", listener=listener, start="earliest"):
        assert enough.wait(60)
    return len(seen)


def keep_outbox(address: str, folder: Path) -> None:
    """A message and a row of a database, committed together."""
    outbox = Outbox(str(folder / "outbox.db"))
    with (
        OutboxProducer(address, group="outbox", topics="payments", outbox=outbox) as producer,
        producer.transaction(Message("payments", b"paid")) as connection,
    ):
        connection.execute("CREATE TABLE IF NOT EXISTS payments (id INTEGER)")
        connection.execute("INSERT INTO payments VALUES (42)")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] == ["killed"])
