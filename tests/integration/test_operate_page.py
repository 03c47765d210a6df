"""Every command of the pages about the command line runs, as a reader types it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq import Admin, Message, Producer, PushConsumer
from pyromq.offsets import EARLIEST
from pyromq.testing import LoopbackBroker
from tests.unit.test_docs import blocks_of

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
PAGES = ("operate", "command-line", "mqadmin")
END_S = 120
ASKING = ("group park", "group reset", "delay cancel", "context rm")  # which a reader answers
CODES = {"message consume-directly": 5, "doctor": 5}  # the listener of the page fails, and somebody must look


def commands(page: str) -> list[str]:
    """Lines behind a prompt, and of operate.md those in its sentences, too."""
    text = (ROOT / f"docs/how-to/{page}.md").read_text(encoding="utf-8")
    typed = [line[2:] for block in blocks_of(text) for line in block.code.splitlines() if line.startswith("$ pyromq")]
    if page != "operate":
        return typed
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    named = [" ".join(found.split()) for found in re.findall(r"`(pyromq [^`]+)`", prose)]
    complete = [words for words in named if not re.search(r"…|NOUN|completion|mqadmin$|pyromq top$|pyromq acl$", words)]
    return [*typed, *complete]


def table_commands() -> set[str]:
    """Of the table of operate.md: a noun and its verbs, or words that stand alone."""
    found = set()
    for row in re.findall(
        r"^\| (`.*?) \|", (ROOT / "docs/how-to/operate.md").read_text(encoding="utf-8"), re.MULTILINE
    ):
        noun = ""
        for words in re.findall(r"`([^`]+)`", row):
            if " " in words:
                noun = words.split()[0]
                found.add(words)
            else:
                found.add(f"{noun} {words}" if noun else words)
    return found


@pytest.fixture
def broker() -> Iterator[LoopbackBroker]:
    with LoopbackBroker() as broker:
        with Producer(broker.nameserver, group="shop") as producer, Admin(broker.nameserver) as admin:
            for topic in ("orders", "events", "copy"):
                admin.topics.create(topic, queues=2)
            for group in ("billing", "mail", "copier"):
                admin.groups.create(group)
            producer.send_batch([Message("orders", b"%d" % number) for number in range(20)])
        yield broker


class Reader:
    """A shell with ``pyromq`` in its path, in a folder with the files that pages name."""

    def __init__(self, broker: LoopbackBroker, folder: Path) -> None:
        self.broker = broker
        self.folder = folder
        tool = folder / "bin/pyromq"
        tool.parent.mkdir()
        tool.write_text(f'#!/bin/sh\nexec {sys.executable} -m pyromq "$@"\n')
        tool.chmod(0o755)
        (folder / "orders.jsonl").write_text('{"order": 1}\n\n{"order": 2}\n')
        for name in ("ca.pem", "ann.key"):
            (folder / name).write_text("secret\n")

    def types(self, command: str) -> subprocess.CompletedProcess[str]:
        with Admin(self.broker.nameserver) as admin, Producer(self.broker.nameserver, group="shop") as producer:
            delayed = producer.send(Message("orders", b"late", delay_ms=3_600_000))
            stored = producer.send(Message("orders", b"1"))
            admin.offsets.carry_out("billing", admin.offsets.plan_reset("billing", "orders", to_ms=EARLIEST))
        replaced = command.replace("127.0.0.1:9876", self.broker.nameserver).replace("7F0000010B…", stored.message_id)
        replaced = re.sub(r"\bID\b", delayed.message_id, replaced)
        replaced += " --yes" if any(words in command for words in ASKING) else ""
        environment = {
            **os.environ,
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "PYROMQ_NAMESERVER": self.broker.nameserver,
            "XDG_CONFIG_HOME": str(self.folder / "config"),
        }
        return subprocess.run(
            ["bash", "-c", replaced],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=END_S,
        )


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_runs(page: str, broker: LoopbackBroker, tmp_path: Path) -> None:
    reader, found = Reader(broker, tmp_path), commands(page)
    assert len(found) >= 3
    for command in found:
        if "consume-directly" in command:
            with _failing_member(broker):
                done = reader.types(command)
        else:
            done = reader.types(command)
        expected = next((code for words, code in CODES.items() if words in command), 0)
        assert done.returncode == expected, f"{command}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr


def _failing_member(broker: LoopbackBroker) -> PushConsumer:
    def listener(_: object) -> None:
        raise KeyError("price")

    consumer = PushConsumer(broker.nameserver, group="billing", listener=listener)
    consumer.subscribe("orders")
    return consumer


def test_the_table_names_commands_that_there_are(broker: LoopbackBroker, tmp_path: Path) -> None:
    """``test_exit_codes`` runs each of them with a cluster and without one."""
    from tests.integration.test_exit_codes import CALLS

    assert table_commands() - {"store check"} <= set(CALLS), table_commands() - set(CALLS)
