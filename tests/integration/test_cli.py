"""Commands that talk to a cluster, as a user types them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pyromq.testing import LoopbackBroker

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def nameserver() -> Iterator[str]:
    with LoopbackBroker() as broker:
        yield broker.nameserver


def run(nameserver: str, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYROMQ_NAMESERVER": nameserver}
    command = [sys.executable, "-m", "pyromq", *words]
    return subprocess.run(command, capture_output=True, text=True, input=stdin, env=environment, timeout=60)


def rows(response: subprocess.CompletedProcess[str]) -> list[dict[str, object]]:
    assert response.returncode == 0, response.stderr
    return [json.loads(line) for line in response.stdout.splitlines()]


def test_lines_are_sent_and_consumed_and_leave_no_lag(nameserver: str) -> None:
    sent = rows(run(nameserver, "send", "lines", "--tags", "new", stdin="one\ntwo\nthree\n"))
    assert len({row["message_id"] for row in sent}) == 3
    consumed = rows(run(nameserver, "consume", "lines", "--group", "readers", "--count", "3"))
    assert {(row["body"], row["tags"]) for row in consumed} == {("one", "new"), ("two", "new"), ("three", "new")}
    lag = [row for row in rows(run(nameserver, "group", "lag", "readers")) if row["topic"] == "lines"]
    assert sum(int(str(row["end"])) for row in lag) == 3 and all(row["lag"] == 0 for row in lag)
    assert {"group": "readers"} in rows(run(nameserver, "group", "ls"))


def test_messages_are_consumed_by_an_sql_expression(nameserver: str) -> None:
    for tag in ("old", "new"):
        rows(run(nameserver, "send", "picked", tag, "--tags", tag))
    words = ("consume", "picked", "--group", "pickers", "--count", "1", "--sql")
    assert [row["body"] for row in rows(run(nameserver, *words, "TAGS = 'new'"))] == ["new"]
    wrong = run(nameserver, *words, "TAGS LIKE 'new'")
    assert (wrong.returncode, "'LIKE' at character 6 is not expected" in wrong.stderr) == (3, True)


def test_a_topic_is_created_described_and_deleted(nameserver: str) -> None:
    assert run(nameserver, "topic", "create", "made", "--queues", "3").returncode == 0
    assert {"topic": "made"} in rows(run(nameserver, "topic", "ls"))
    assert [row["queue"] for row in rows(run(nameserver, "topic", "describe", "made"))] == [0, 1, 2]
    table = run(nameserver, "topic", "describe", "made", "-o", "table").stdout
    assert table.splitlines()[0].split() == ["broker", "queue", "first", "end", "messages", "last", "stored"]
    assert run(nameserver, "topic", "delete", "made", "--yes").returncode == 0
    gone = run(nameserver, "topic", "describe", "made")
    assert (gone.returncode, "made" in gone.stderr) == (2, True)


def test_what_cannot_be_reached_or_is_wrong_has_its_exit_code(nameserver: str) -> None:
    unreachable = run("127.0.0.1:1", "topic", "ls")
    assert (unreachable.returncode, "no name server answered" in unreachable.stderr) == (4, True)
    assert run(nameserver, "topic", "create", "../etc").returncode == 1
    assert run(nameserver, "topic", "create").returncode == 1
    assert run(nameserver, "group", "describe", "nobody").returncode in (2, 3)
