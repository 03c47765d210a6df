"""Jobs of the command line: kept in a folder that processes share, killed, seen, resumed without a second copy."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyromq import Admin, Message, Producer, aio
from pyromq.cli.main import main
from pyromq.errors import DeadLetterError
from pyromq.operate.jobs.book import Jobs
from pyromq.operate.jobs.specs import Move, NewJob, Pace, Redrive, ResetOffsets
from pyromq.testing import LoopbackBroker
from tests.integration.waiting import until_on_thread

pytestmark = pytest.mark.integration

LETTERS = 12


@pytest.fixture
def broker() -> Iterator[LoopbackBroker]:
    """A group that gave up on every order."""
    with LoopbackBroker() as broker:
        with Producer(broker.nameserver, group="shop") as producer, Admin(broker.nameserver) as admin:
            admin.topics.create("orders", queues=2)
            admin.groups.create("billing")
            for number in range(LETTERS):
                producer.send(Message("orders", b"%d" % number, keys="same"))
            asyncio.run(give_up(broker.nameserver, lambda: len(admin.dead_letters.list("billing")) == LETTERS))
        yield broker


async def give_up(nameserver: str, is_done: Callable[[], bool]) -> None:
    async def listen(message: aio.ReceivedMessage) -> None:
        raise DeadLetterError("no such customer")

    async with aio.PushConsumer(nameserver, group="billing", listener=listen, topics="orders", start="earliest"):
        while not await asyncio.to_thread(is_done):  # noqa: ASYNC110 - brokers do not tell
            await asyncio.sleep(0.05)


@pytest.fixture
def typed(
    broker: LoopbackBroker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., list[dict[str, object]]]:
    monkeypatch.setenv("PYROMQ_NAMESERVER", broker.nameserver)
    monkeypatch.setenv("PYROMQ_DATA", str(tmp_path))

    def typed(*words: str, expect: int = 0) -> list[dict[str, object]]:
        capsys.readouterr()
        assert main([*words, "-o", "jsonl"]) == expect
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return typed


def results(folder: Path) -> int:
    files = list(folder.glob("jobs/*/results.jsonl"))
    return sum(b'"outcome"' in line for path in files for line in path.read_bytes().splitlines())


def copies(broker: LoopbackBroker) -> Counter[bytes]:
    with Admin(broker.nameserver) as admin:
        return Counter(message.body for message in admin.messages.newest("orders", 1_000))


def test_a_killed_job_is_seen_and_resumed_without_a_second_copy(
    broker: LoopbackBroker, typed: Callable[..., list[dict[str, object]]], tmp_path: Path
) -> None:
    words = ("dlq", "redrive", "billing", "--rate", "10", "--data", str(tmp_path), "-n", broker.nameserver)
    with subprocess.Popen([sys.executable, "-m", "pyromq", *words], stderr=subprocess.DEVNULL) as process:
        until_on_thread(lambda: results(tmp_path) >= 3)
        [job] = typed("job", "ls")
        assert job["state"] == "running"
        typed("job", "resume", str(job["id"]), expect=1)
        process.kill()
    [job] = typed("job", "ls")
    assert job["state"] == "interrupted" and 3 <= int(str(job["confirmed"])) < LETTERS
    ended = typed("job", "resume", str(job["id"]))
    assert {each["outcome"] for each in ended} <= {"confirmed", "unchanged"}
    assert [each["state"] for each in typed("job", "ls")] == ["finished", "interrupted"]
    assert copies(broker) == {b"%d" % number: 2 for number in range(LETTERS)}
    assert len(typed("job", "show", str(job["id"]), "--results")) >= 3
    assert typed("dlq", "redrive", "billing") == []


def test_a_job_of_a_console_is_listed_and_cancelled_by_a_command(
    broker: LoopbackBroker, typed: Callable[..., list[dict[str, object]]], tmp_path: Path
) -> None:
    async def console() -> str:
        async with aio.Admin(broker.nameserver) as admin, Jobs(admin, tmp_path / "jobs", broker.clock) as jobs:
            job = jobs.start(NewJob(spec=Redrive(group="billing"), pace=Pace(rate=1)), by="ada")
            [seen] = await asyncio.to_thread(typed, "job", "ls")
            assert (seen["id"], seen["state"], seen["by"]) == (job.id, "running", "ada")
            with pytest.raises(AssertionError):
                await asyncio.to_thread(typed, "job", "cancel", "no-such-job")
            await asyncio.to_thread(main, ["job", "cancel", job.id])
            record = await jobs.wait(job.id)
            assert record.counts.not_attempted > 0
            return record.state.value

    assert asyncio.run(console()) == "cancelled"
    assert [each["state"] for each in typed("job", "ls")] == ["cancelled"]


def test_a_reset_is_undone_by_a_command_and_nothing_else_is(
    broker: LoopbackBroker, typed: Callable[..., list[dict[str, object]]], tmp_path: Path
) -> None:
    def stands() -> dict[int, int]:
        with Admin(broker.nameserver) as admin:
            return {queue.number: held.consumer_offset for queue, held in admin.groups.lag("billing", "orders").items()}

    async def console() -> str:
        async with aio.Admin(broker.nameserver) as admin, Jobs(admin, tmp_path / "jobs", broker.clock) as jobs:
            plan = await admin.offsets.plan_reset("billing", "orders", to_ms=0)
            moves = tuple(
                Move(topic="orders", broker=each.queue.broker, queue=each.queue.number, old=each.old, new=each.new)
                for each in plan
            )
            job = jobs.start(NewJob(spec=ResetOffsets(group="billing", moves=moves)), by="ada")
            return (await jobs.wait(job.id)).id

    before = stands()
    reset = asyncio.run(console())
    assert set(stands().values()) == {0} != set(before.values())
    undone = typed("job", "undo", reset)
    assert {each["outcome"] for each in undone} == {"confirmed"}
    assert stands() == before
    typed("dlq", "redrive", "billing", "--data", str(tmp_path), "--error", "nosuch")
    redrive = str(typed("job", "ls")[0]["id"])
    typed("job", "undo", redrive, expect=1)


def test_one_letter_is_redriven_by_its_name_though_others_have_its_key(
    broker: LoopbackBroker, typed: Callable[..., list[dict[str, object]]]
) -> None:
    listed = typed("dlq", "ls", "billing", "--messages")
    chosen = str(listed[3]["offset_message_id"])
    [done] = typed("dlq", "redrive", "billing", "--letter", chosen)
    assert done["status"] == "sent"
    assert typed("dlq", "redrive", "billing", "--letter", chosen, "--key", "nosuch") == []
    with Admin(broker.nameserver) as admin:
        redriven = [each.offset_message_id for each in admin.dead_letters.list("billing") if each.is_redriven]
    assert redriven == [chosen]


def test_stored_messages_are_sent_again(
    broker: LoopbackBroker, typed: Callable[..., list[dict[str, object]]], tmp_path: Path
) -> None:
    with Admin(broker.nameserver) as admin:
        admin.topics.create("copies", queues=1)
        first, second = admin.messages.newest("orders", 2)
    [would] = typed("message", "resend", first.offset_message_id, "--to-topic", "copies", "--dry-run")
    assert would["outcome"] == "not attempted"
    done = typed("message", "resend", first.message_id, second.message_id, "--topic", "orders", "--to-topic", "copies")
    assert [each["outcome"] for each in done] == ["confirmed"] * 2
    with Admin(broker.nameserver) as admin:
        assert [message.body for message in admin.messages.newest("copies")] == [first.body, second.body]
    typed("message", "resend", "0" * 32, expect=5)
    typed("message", "resend", "X", "--to-topic", "a", "--to-group", "b", expect=1)
    assert typed("job", "ls") == []
    typed("message", "resend", first.offset_message_id, "--data", str(tmp_path))
    assert [each["state"] for each in typed("job", "ls")] == ["finished"]
