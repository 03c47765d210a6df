"""Commands that talk to a cluster, as a user types them."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq import Admin, Producer
from pyromq.testing import AsyncServerProcess, LoopbackBroker

pytestmark = pytest.mark.integration


@pytest.fixture
def nameserver() -> Iterator[str]:
    with LoopbackBroker() as broker:
        yield broker.nameserver


def run(nameserver: str, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYROMQ_NAMESERVER": nameserver}
    command = [sys.executable, "-m", "pyromq", *words]
    return subprocess.run(command, capture_output=True, text=True, input=stdin, env=environment, timeout=240)


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
    (group,) = rows(run(nameserver, "group", "ls", "readers"))
    assert (group["topics"], group["members"], group["lag"], group["dead_letters"]) == (["lines"], 0, 0, 0)


def test_messages_are_consumed_by_an_sql_expression(nameserver: str) -> None:
    for tag in ("old", "new"):
        rows(run(nameserver, "send", "picked", tag, "--tags", tag))
    words = ("consume", "picked", "--group", "pickers", "--count", "1", "--sql")
    assert [row["body"] for row in rows(run(nameserver, *words, "TAGS = 'new'"))] == ["new"]
    wrong = run(nameserver, *words, "TAGS LIKE 'new'")
    assert (wrong.returncode, "'LIKE' at character 6 is not expected" in wrong.stderr) == (3, True)


def test_a_topic_is_created_described_and_deleted(nameserver: str) -> None:
    assert run(nameserver, "topic", "create", "made", "--queues", "3").returncode == 0
    (topic,) = rows(run(nameserver, "topic", "ls", "mad*"))
    assert (topic["topic"], topic["queues"], topic["groups"], topic["lag"]) == ("made", 3, [], None)
    assert [row["queue"] for row in rows(run(nameserver, "topic", "describe", "made"))] == [0, 1, 2]
    table = run(nameserver, "topic", "describe", "made", "-o", "table").stdout
    assert table.splitlines()[0].split() == ["broker", "queue", "first", "end", "messages", "last", "stored"]
    assert run(nameserver, "topic", "delete", "made", "--yes").returncode == 0
    gone = run(nameserver, "topic", "describe", "made")
    assert (gone.returncode, "made" in gone.stderr) == (2, True)


def test_a_topic_shows_what_its_newest_messages_say_they_are(nameserver: str) -> None:
    assert run(nameserver, "topic", "create", "typed", "--queues", "1").returncode == 0
    with Producer(nameserver, group="typists") as producer:
        for _ in range(15):
            producer.send("typed", {"old": True}, schema="Forgotten")
        for number in range(9):
            producer.send("typed", {"id": number}, schema="Order")
        producer.send("typed", "text", schema="Note\x1b[31m")
    (row,) = rows(run(nameserver, "topic", "describe", "typed", "-o", "jsonl"))
    assert row["content_types"] == "application/json, text/plain"
    assert row["schemas"] == "Order, Note\\x1b[31m"
    table = run(nameserver, "topic", "describe", "typed", "-o", "table").stdout
    assert "content types" in table
    assert "application/json, text/plain" in table


def test_what_cannot_be_reached_or_is_wrong_has_its_exit_code(nameserver: str) -> None:
    unreachable = run("127.0.0.1:1", "topic", "ls")
    assert (unreachable.returncode, "no name server answered" in unreachable.stderr) == (4, True)
    assert run(nameserver, "topic", "create", "../etc").returncode == 1
    assert run(nameserver, "topic", "create").returncode == 1
    assert run(nameserver, "group", "describe", "nobody").returncode in (2, 3)


def test_many_lines_are_sent_at_once_and_told_in_their_order(nameserver: str) -> None:
    lines = [f"line {number}" for number in range(3_000)]
    sent = rows(run(nameserver, "send", "many", stdin="\n".join(lines) + "\n"))
    assert len(sent) == len({row["message_id"] for row in sent}) == 3_000
    by_place = {(row["queue"], row["offset"]): line for row, line in zip(sent, lines, strict=True)}
    with Admin(nameserver) as admin:
        found = {(m.queue.number, m.offset): m.body.decode() for m in admin.messages.newest("many", 3_000)}
    assert found == by_place


def test_a_line_that_fails_is_named_with_the_way_to_go_on(nameserver: str) -> None:
    failed = run(nameserver, "send", "resumed", stdin="one\ntwo\n\nthree\n")
    assert (failed.returncode, len(failed.stdout.splitlines())) == (1, 2)
    assert "line 3: " in failed.stderr and "2 lines sent; go on with --from-line 3" in failed.stderr
    again = rows(run(nameserver, "send", "resumed", "--from-line", "3", "--skip-blank", stdin="one\ntwo\n\nthree\n"))
    assert len(again) == 1
    with Admin(nameserver) as admin:
        assert sorted(message.body for message in admin.messages.newest("resumed")) == [b"one", b"three", b"two"]


def test_a_broker_that_goes_while_lines_are_sent_is_4(tmp_path: Path) -> None:
    async def send() -> tuple[int | None, str, int]:
        async with AsyncServerProcess("up", data=tmp_path) as server:
            command = (sys.executable, "-m", "pyromq", "send", "cut", "-n", server.nameserver)
            pipe = asyncio.subprocess.PIPE
            sending = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
            assert sending.stdin is not None and sending.stdout is not None and sending.stderr is not None
            sending.stdin.write(b"one\n")
            await sending.stdout.readline()  # the first receipt: it is at work
            await server.kill()
            with socket.socket() as nobody:  # a server of another test may not get the port meanwhile
                nobody.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                nobody.bind(("127.0.0.1", int(server.broker.rpartition(":")[2])))
                sending.stdin.write(b"two\nthree\n")
                sending.stdin.close()
                out, err = await asyncio.gather(sending.stdout.read(), sending.stderr.read())
                return await sending.wait(), err.decode(), len(out)

    code, err, more = asyncio.run(send())
    assert (code, more) == (4, 0) and "line 2: " in err and "1 line sent; go on with --from-line 2" in err
