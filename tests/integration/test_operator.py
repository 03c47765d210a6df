"""What an operator types, against a real broker: every verb, its forms, its exit codes."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyromq import Admin, Message, Producer, PushConsumer, ReceivedMessage, aio
from pyromq.broker.base.settings import BrokerSettings
from pyromq.cli.main import main
from pyromq.clock import SystemClock
from pyromq.model.queue import QueueId
from pyromq.operate.explaining.explanation import MessageState
from pyromq.operate.explaining.group_story import GroupStoryState
from pyromq.operate.resend.outcomes import ItemStatus
from pyromq.settings import PushConsumerSettings
from pyromq.testing import ManualClock
from pyromq.testing.loopback import SMALL_FILES, LoopbackBroker
from pyromq.wire.trace import ConsumeBegan, ConsumeEnded, Published
from tests.integration.waiting import until_on_thread

pytestmark = pytest.mark.integration

LIMIT_S = 90
FIRST = PushConsumerSettings(start="earliest", attempts_max=0, persist_ms=50, rebalance_ms=200)


@pytest.fixture(scope="module")
def nameserver() -> Iterator[str]:
    with LoopbackBroker(BrokerSettings(store=SMALL_FILES, recall_messages=True)) as broker:
        yield broker.nameserver


@pytest.fixture
def admin(nameserver: str) -> Iterator[Admin]:
    with Admin(nameserver) as opened:
        yield opened


class Typed:
    """``typed("topic", "ls")``: exit code, and what was written."""

    def __init__(self, nameserver: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PYROMQ_NAMESERVER", nameserver)
        self._capsys = capsys
        self.err = ""

    def __call__(self, *words: str, expect: int = 0) -> str:
        self._capsys.readouterr()
        code = main(words)
        out, self.err = self._capsys.readouterr()
        assert code == expect, self.err + out
        return out

    def rows(self, *words: str, expect: int = 0) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self(*words, expect=expect).splitlines()]


@pytest.fixture
def typed(nameserver: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Typed:
    return Typed(nameserver, capsys, monkeypatch)


def send(nameserver: str, *messages: Message, **options: Any) -> list[str]:
    with Producer(nameserver, group="shop", **options) as producer:
        return [producer.send(message).message_id for message in messages]


def consume(
    nameserver: str, group: str, topic: str, listener: Callable[[Any], Any], is_done: Callable[[], bool], **options: Any
) -> None:
    """Until everything was seen, and its progress is with the broker."""

    async def run() -> None:
        async def listen(message: aio.ReceivedMessage) -> None:
            listener(message)

        consumer = aio.PushConsumer(nameserver, group=group, listener=listen, settings=FIRST, trace=True, **options)
        consumer.subscribe(topic)
        async with consumer, asyncio.timeout(LIMIT_S):
            while not is_done():  # noqa: ASYNC110 - listeners say so
                await asyncio.sleep(0.01)

    asyncio.run(run())


def bury(nameserver: str, admin: Admin, group: str, topic: str, count: int) -> None:
    """A group that fails with everything, once, and gives up."""
    seen: list[str] = []

    def fail(message: aio.ReceivedMessage) -> None:
        seen.append(message.message_id)
        raise ValueError("as the test wants it")

    admin.groups.create(group)
    consume(nameserver, group, topic, fail, lambda: len(admin.dead_letters.list(group)) >= count, traceback_bytes=2_000)


# --- one message ---------------------------------------------------------------------------------------------------


def test_a_message_is_shown_by_either_of_its_ids(nameserver: str, typed: Typed) -> None:
    (message_id,) = send(nameserver, Message("gets", b"body \x1b[2J", tags="new", keys="k1 k2", properties={"a": "b"}))
    (row,) = typed.rows("message", "get", message_id, "--topic", "gets")
    assert (row["message_id"], row["tags"], row["keys"]) == (message_id, "new", ["k1", "k2"])
    assert row["properties"]["a"] == "b"
    (again,) = typed.rows("message", "get", str(row["offset_message_id"]))
    assert again == row
    table = typed("message", "get", message_id, "--topic", "gets", "-o", "table")
    assert "\x1b" not in table and "body \\x1b[2J" in table
    typed("message", "get", message_id, expect=1)
    assert "--topic" in typed.err
    typed("message", "get", "0" * 32, "--topic", "gets", expect=2)
    typed("message", "get", message_id, "--topic", "nowhere", expect=2)


def test_messages_are_found_by_key_and_time(nameserver: str, typed: Typed) -> None:
    ids = send(nameserver, *[Message("finds", b"%d" % n, keys="same") for n in range(3)])
    assert [row["message_id"] for row in typed.rows("message", "find", "--topic", "finds", "--key", "same")] == ids
    table = typed("message", "find", "--topic", "finds", "--key", "same", "-o", "table").splitlines()
    assert table[0].split() == ["stored", "where", "id", "keys", "body"] and len(table) == 4
    reader = csv.DictReader(io.StringIO(typed("message", "find", "--topic", "finds", "--key", "same", "-o", "csv")))
    assert [row["message_id"] for row in reader] == ids
    typed("message", "find", "--topic", "finds", "--key", "same", "--end", "1h ago", expect=2)
    typed("message", "find", "--topic", "finds", "--key", "same", "--begin", "one day", expect=1)


def test_the_trace_of_a_message_is_read_back(nameserver: str, admin: Admin, typed: Typed) -> None:
    (message_id,) = send(nameserver, Message("traced", b"1", keys="trace-key"), trace=True)
    seen: list[str] = []
    admin.groups.create("tracers")
    consume(nameserver, "tracers", "traced", lambda message: seen.append(message.message_id), lambda: bool(seen))
    published, began, ended = admin.messages.trace(message_id)
    assert isinstance(published, Published) and isinstance(began, ConsumeBegan) and isinstance(ended, ConsumeEnded)
    assert (published.topic, began.group, ended.is_success) == ("traced", "tracers", True)
    assert began.request_id == ended.request_id
    assert admin.messages.trace("trace-key") == [published, began, ended]
    rows = typed.rows("message", "trace", message_id)
    assert [row["event"] for row in rows] == ["published", "consume began", "consume ended"]
    assert len(typed("message", "trace", message_id, "-o", "table").splitlines()) == 4
    typed("message", "trace", "unheard-of", expect=2)
    typed("message", "trace", message_id, "--topic", "no-traces-here", expect=2)
    (explained,) = admin.messages.explain("traced", message_id).groups
    assert explained.state is GroupStoryState.CONSUMED and explained.consumed_ms == ended.time_ms


def test_a_batch_is_traced_message_by_message(nameserver: str, admin: Admin) -> None:
    with Producer(nameserver, group="shop", trace=True) as producer:
        receipts = producer.send_batch([Message("traced-batch", b"1"), Message("traced-batch", b"2")])
    for receipt in receipts:
        (record,) = admin.messages.trace(receipt.message_id)
        assert isinstance(record, Published)
        assert (record.offset_message_id, record.group) == (receipt.offset_message_id, "shop")


# --- explaining ----------------------------------------------------------------------------------------------------


def test_a_message_that_no_group_consumed_is_explained(nameserver: str, typed: Typed) -> None:
    (message_id,) = send(nameserver, Message("lonely", b"1"))
    told = json.loads(typed("message", "explain", message_id, "--topic", "lonely"))
    assert (told["state"], told["message_id"], told["groups"]) == ("stored", message_id, [])
    text = typed("message", "explain", message_id, "--topic", "lonely", "-o", "table")
    assert "Stored on" in text and "No group has ever consumed this topic." in text
    typed("message", "explain", "0" * 32, "--topic", "lonely", expect=2)


def test_a_dead_letter_is_explained_listed_and_redriven_once(nameserver: str, admin: Admin, typed: Typed) -> None:
    first, second = send(nameserver, Message("bury", b"1", keys="k1", tags="A"), Message("bury", b"2", keys="k2"))
    bury(nameserver, admin, "undertakers", "bury", 2)
    (story,) = admin.messages.explain("bury", first).groups
    assert (story.group, story.state) == ("undertakers", GroupStoryState.DEAD)
    table = typed("message", "explain", first, "--topic", "bury", "-o", "table")
    assert "dead letter" in table and "%DLQ%undertakers" in table
    assert "as the test wants it" in table and [failure.attempt for failure in story.attempts] == [1]

    (error,) = typed.rows("dlq", "ls", "undertakers")
    assert (error["error_class"], error["count"], error["topics"]) == ("ValueError", 2, ["bury"])
    shown = typed("dlq", "ls", "undertakers", "-o", "table")
    assert "first seen" in shown and "as the test wants it" in shown and error["stack"] in shown
    letters = typed.rows("dlq", "ls", "undertakers", "--messages")
    assert {(row["topic"], row["is_redriven"]) for row in letters} == {("bury", False)}
    head, last = sorted(letters, key=lambda row: int(row["offset"]))
    assert {head["message_id"], last["message_id"]} == {first, second}
    (one,) = typed.rows("dlq", "show", "undertakers", letters[0]["offset_message_id"])
    assert one == letters[0] and ", in " in one["traceback"]
    assert one["traceback"].splitlines()[-1] in typed(
        "dlq", "show", "undertakers", one["offset_message_id"], "-o", "table"
    )
    dry = typed.rows("dlq", "redrive", "undertakers", "--dry-run")
    assert [row["status"] for row in dry] == ["would send", "would send"]
    (row,) = typed.rows("dlq", "redrive", "undertakers", "--key", *last["keys"])
    assert (row["message_id"], row["status"], row["to_topic"]) == (last["message_id"], "sent", "bury")
    rows = typed.rows("dlq", "redrive", "undertakers")
    statuses = [(head["message_id"], "sent"), (last["message_id"], "sent before")]
    assert [(row["message_id"], row["status"]) for row in rows] == statuses
    assert typed.rows("dlq", "redrive", "undertakers") == [] and "left to redrive" in typed.err
    assert all(row["is_redriven"] for row in typed.rows("dlq", "ls", "undertakers", "--messages"))
    assert [row["redriven"] for row in typed.rows("dlq", "ls", "undertakers")] == [2]
    assert typed.rows("dlq", "redrive", "undertakers", "--error", "KeyError", "--dry-run") == []
    assert typed.rows("dlq", "ls", "undertakers", "--retries") == [] and "come again" in typed.err
    typed("dlq", "ls", "undertakers", "--retries", "--messages", expect=1)

    again = [message for message in admin.messages.newest("bury", 10) if message.get("REDRIVEN_FROM")]
    assert {(message.body, message.keys, message.tags) for message in again} == {
        (b"1", ("k1",), "A"),
        (b"2", ("k2",), ""),
    }
    assert all(message.get("RETRY_TOPIC") is None and message.delivery_attempt == 0 for message in again)
    csv = typed("dlq", "ls", "undertakers", "--messages", "-o", "csv")
    assert csv.splitlines()[0].startswith("dead_ms,topic,message_id")
    assert typed("dlq", "ls", "undertakers", "-o", "csv").splitlines()[0].startswith("error_class,stack,count")
    typed("dlq", "ls", "no-such-group", expect=2)


def test_letters_can_go_to_their_group_alone_and_failures_are_told(nameserver: str, admin: Admin, typed: Typed) -> None:
    send(nameserver, Message("alone", b"1"), Message("alone", b"2"))
    bury(nameserver, admin, "loners", "alone", 2)
    (one,) = admin.dead_letters.redrive("loners", only_group=True, count_max=1)
    assert (one.status, one.to_topic) == (ItemStatus.SENT, "%RETRY%loners")
    assert len(admin.messages.newest("alone", 10)) == 2
    admin.topics.delete("alone")
    rows = typed.rows("dlq", "redrive", "loners", expect=5)
    assert [row["status"] for row in rows] == ["failed"] and "alone" in rows[0]["error"]


def test_a_message_that_left_several_letters_is_redriven_once(nameserver: str, admin: Admin, typed: Typed) -> None:
    send(nameserver, Message("twice", b"1"), Message("twice", b"2"))
    bury(nameserver, admin, "sextons", "twice", 2)
    admin.offsets.reset("sextons", "twice", to_ms=0)
    bury(nameserver, admin, "sextons", "twice", 4)
    letters = admin.dead_letters.list("sextons")
    assert len(letters) == 4 and len({letter.message_id for letter in letters}) == 2
    statuses = ["would send", "would send", "same message", "same message"]
    assert [row["status"] for row in typed.rows("dlq", "redrive", "sextons", "--dry-run")] == statuses

    (first,) = admin.dead_letters.redrive("sextons", count_max=1)
    rows = typed.rows("dlq", "redrive", "sextons")
    assert [row["status"] for row in rows] == ["sent", "same message", "same message"]
    assert letters[0].offset_message_id in rows[1]["why"] and rows[1]["new_message_id"] == first.new_message_id
    assert sorted(found.body for found in admin.messages.newest("twice", 10) if found.get("REDRIVEN_FROM")) == [
        b"1",
        b"2",
    ]
    assert all(letter.is_redriven for letter in admin.dead_letters.list("sextons"))

    admin.offsets.reset("sextons", "twice", to_ms=0)
    bury(nameserver, admin, "sextons", "twice", 8)  # both again, and for the first time the copies
    statuses = [each.status for each in admin.dead_letters.redrive("sextons")]
    assert sorted(statuses) == [*[ItemStatus.SENT] * 2, *[ItemStatus.SENT_BEFORE] * 2]


# --- delays and transactions ---------------------------------------------------------------------------------------


def test_delayed_messages_are_listed_explained_and_called_back(nameserver: str, admin: Admin, typed: Typed) -> None:
    admin.topics.create("later", queues=1)
    level, timed, handled = send(
        nameserver,
        Message("later", b"1", delay_level=18, keys="by-level"),
        Message("later", b"2", delay_ms=600_000, keys="by-time"),
        Message("later", b"3", delay_ms=500_000),
    )
    rows = {row["message_id"]: row for row in typed.rows("delay", "ls", "--topic", "later")}
    assert set(rows) == {level, timed, handled}
    assert (rows[level]["level"], rows[level]["handle"], rows[timed]["level"]) == (18, "", 0)
    assert rows[handled]["due_ms"] < rows[timed]["due_ms"] < rows[level]["due_ms"]
    assert [admin.messages.explain("later", each).state for each in (level, timed)] == [MessageState.DELAYED] * 2
    typed("delay", "cancel", "--yes", "--handle", rows[handled]["handle"])
    typed("delay", "cancel", timed, expect=1)  # nobody can be asked
    assert "nothing was done" in typed.err
    typed("delay", "cancel", "-y", timed)
    assert timed in typed.err
    assert {row["message_id"] for row in typed.rows("delay", "ls", "--topic", "later")} == {level}
    typed("delay", "cancel", level, expect=1)
    typed("delay", "cancel", "unheard-of", expect=2)
    typed("delay", "cancel", expect=1)
    typed("delay", "cancel", "-y", "--handle", "nonsense", expect=1)
    assert "by-level" in typed("delay", "ls", "-o", "table")


def test_open_transactions_are_listed_and_explained(nameserver: str, admin: Admin, typed: Typed) -> None:
    admin.topics.create("promises", queues=1)

    async def run() -> tuple[str, str, str]:
        async def check(message: aio.ReceivedMessage) -> None:
            return None

        options = {"group": "promisers", "topics": ["promises"], "check": check, "confirm": True, "trace": True}
        async with aio.TransactionProducer(nameserver, **options) as producer:  # type: ignore[arg-type]
            async with producer.transaction(Message("promises", b"1")) as kept:
                pass
            async with producer.transaction(Message("promises", b"2")) as broken:
                broken.rollback()
            async with producer.transaction(Message("promises", b"3", keys="open-key")) as undecided:
                undecided.unknown()
        return kept.id, broken.id, undecided.id

    kept, broken, undecided = asyncio.run(run())
    (row,) = typed.rows("tx", "ls", "--topic", "promises")
    assert (row["message_id"], row["topic"], row["producer_group"], row["keys"]) == (
        undecided, "promises", "promisers", ["open-key"],
    )  # fmt: skip
    states = [admin.messages.explain("promises", each).state for each in (kept, broken, undecided)]
    assert states == [MessageState.STORED, MessageState.ROLLED_BACK, MessageState.PREPARED]
    assert [row["event"] for row in typed.rows("message", "trace", broken)] == ["published", "transaction ended"]
    assert "open-key" in typed("tx", "ls", "-o", "table")


# --- groups --------------------------------------------------------------------------------------------------------


def test_a_group_is_moved_after_a_look(nameserver: str, admin: Admin, typed: Typed) -> None:
    admin.topics.create("moves", queues=2)
    admin.groups.create("movers")
    send(nameserver, *[Message("moves", b"%d" % n) for n in range(10)])
    reset = ("group", "reset", "movers", "--topic", "moves")
    rows = typed.rows(*reset, "--to-end", "--preview")
    assert sum(row["difference"] for row in rows) == 10 and all(row["old"] is None for row in rows)
    assert all(held.consumer_offset == 0 for held in admin.groups.lag("movers", "moves").values())
    typed(*reset, "--to-end", "--yes")
    assert "10 will be skipped" in typed.err, "it never stood anywhere, and has 10 to consume"
    assert all(held.consumer_offset == held.broker_offset for held in admin.groups.lag("movers", "moves").values())
    (row,) = typed.rows(*reset, "--to-begin", "--queue", f"{rows[0]['broker']}:1", "--yes")
    assert (row["queue"], row["old"], row["new"], row["difference"]) == (1, rows[1]["new"], 0, -rows[1]["new"])
    typed(*reset, "--to-offset", "2", "--yes")
    assert [held.consumer_offset for held in admin.groups.lag("movers", "moves").values()] == [2, 2]
    typed(*reset, "--to-time", "1h ago", "--yes")
    assert [held.consumer_offset for held in admin.groups.lag("movers", "moves").values()] == [0, 0]
    table = typed(*reset, "--to-end", "--preview", "-o", "table").splitlines()
    assert table[0].split()[:5] == ["broker", "queue", "old", "new", "difference"] and "+" in table[1]

    typed(*reset, "--to-end", expect=1)
    assert "--yes" in typed.err
    typed(*reset, expect=1)
    typed(*reset, "--to-begin", "--to-end", expect=1)
    typed(*reset, "--to-end", "--queue", "nonsense", expect=1)
    typed("group", "reset", "nobody", "--topic", "moves", "--to-end", "--yes", expect=2)
    typed("group", "reset", "movers", "--topic", "nowhere", "--to-end", "--yes", expect=2)


def test_a_blocking_message_is_seen_and_parked(nameserver: str, admin: Admin, typed: Typed) -> None:
    admin.topics.create("blocked", queues=1)
    admin.groups.create("stuck")
    bad, good = send(nameserver, Message("blocked", b"bad", keys="the-bad-one"), Message("blocked", b"good"))
    queue = admin.topics.route("blocked").readable_queues("blocked")[0]
    place = f"{queue.broker}:{queue.number}"

    async def run() -> None:
        seen: list[bytes] = []

        async def listen(message: aio.ReceivedMessage) -> None:
            seen.append(message.body)
            if message.body == b"bad":
                raise ValueError("it never works")

        settings = PushConsumerSettings(start="earliest", orderly=True, rest_ms=20, persist_ms=50)
        consumer = aio.PushConsumer(nameserver, group="stuck", listener=listen, settings=settings)
        consumer.subscribe("blocked")
        async with consumer, asyncio.timeout(LIMIT_S):
            while seen.count(b"bad") < 3:  # noqa: ASYNC110 - the listener says so
                await asyncio.sleep(0.01)
            await asyncio.to_thread(look, consumer.client.id)
            while b"good" not in seen:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    def look(client_id: str) -> None:
        told = json.loads(typed("group", "describe", "stuck", "--topic", "blocked"))
        (row,) = told["queues"]
        assert (row["client_id"], row["offset"], row["keys"], row["lag"]) == (client_id, 0, ["the-bad-one"], 2)
        assert row["attempt"] >= 2 and row["stage"] and row["error"] == "ValueError: it never works"
        assert [member["client_id"] for member in told["members"]] == [client_id]
        table = typed("group", "describe", "stuck", "-o", "table")
        assert "key the-bad-one" in table and "1 member" in table
        typed("group", "park", "stuck", "--topic", "blocked", "--queue", place, "--offset", "1", "--yes", expect=1)
        assert "stands at offset 0" in typed.err
        (parked,) = typed.rows("group", "park", "stuck", "--topic", "blocked", "--queue", place, "--yes")
        assert (parked["message_id"], parked["dead_letter_topic"], parked["new"]) == (bad, "%DLQ%stuck", 1)

    asyncio.run(run())
    assert [letter.message_id for letter in admin.dead_letters.list("stuck")] == [bad]
    assert admin.offsets.committed("stuck", QueueId("blocked", queue.broker, 0)) == 2
    typed("group", "park", "stuck", "--topic", "blocked", "--queue", place, "--yes", expect=2)
    told = typed("group", "describe", "stuck", "-o", "table")
    assert "no member of group stuck is connected" in told
    assert typed("group", "describe", "stuck", "-o", "csv").splitlines()[0].startswith("topic,broker,queue,committed")
    typed("group", "describe", "nobody", expect=2)
    assert good


# --- topics and clusters -------------------------------------------------------------------------------------------


def test_the_end_of_a_topic_is_shown(nameserver: str, typed: Typed) -> None:
    send(nameserver, *[Message("tails", b"%d" % n, tags="even" if n % 2 == 0 else "odd") for n in range(6)])
    assert [row["body"] for row in typed.rows("tail", "tails", "-n", "3")] == ["3", "4", "5"]
    assert [row["body"] for row in typed.rows("tail", "tails", "--tags", "even || none")] == ["0", "2", "4"]
    lines = typed("tail", "tails", "-n", "1", "-o", "table").splitlines()
    assert len(lines) == 1 and lines[0].endswith("odd  5")
    typed("tail", "nowhere", expect=2)
    typed("tail", "tails", "-o", "csv", expect=1)


def test_brokers_are_listed(typed: Typed) -> None:
    (row,) = typed.rows("cluster", "ls")
    assert (row["cluster"], row["number"], row["problem"]) == ("DefaultCluster", 0, "")
    assert "DefaultCluster" in typed("cluster", "ls", "-o", "table")


def test_the_doctor_sees_what_is_left_undone(typed: Typed) -> None:
    with LoopbackBroker() as healthy:
        rows = typed.rows("doctor", "-n", healthy.nameserver)
        assert {row["severity"] for row in rows} == {"ok"} and any("broker" in row["about"] for row in rows)
        with Admin(healthy.nameserver) as admin:
            admin.topics.create("unread", queues=1)
            admin.groups.create("absent")
            send(healthy.nameserver, Message("unread", b"1"))
            admin.offsets.carry_out("absent", admin.offsets.plan_reset("absent", "unread", to_ms=0))
        row, *_ = typed.rows("doctor", "-n", healthy.nameserver, expect=5)
        assert (row["severity"], row["about"]) == ("warning", "group absent") and "1 message left" in row["text"]
        assert "absent" in typed("doctor", "-n", healthy.nameserver, "-o", "table", expect=5)


def test_the_doctor_sees_members_that_stand_still_and_members_without_queues(typed: Typed) -> None:
    async def run() -> list[Any]:
        clock, held = ManualClock(), asyncio.Event()

        async def hold(message: aio.ReceivedMessage) -> None:
            await held.wait()

        async with LoopbackBroker() as broker, aio.Admin(broker.nameserver) as admin:
            await admin.topics.create("narrow", queues=1)
            async with aio.Producer(broker.nameserver, group="shop") as producer:
                await producer.send(Message("narrow", b"1"))
            members = [
                aio.PushConsumer(broker.nameserver, group="many", listener=hold, topics="narrow", settings=FIRST)
                for _ in range(2)
            ]
            async with members[0], members[1], asyncio.timeout(LIMIT_S):
                while len(await admin.members.states("many")) < 2 or not await admin.groups.lag("many"):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                quiet = await admin.health.findings()
                clock.set_ms(SystemClock().now_ms() + 10 * 60_000)
                admin.client.clock = clock
                late = await admin.health.findings()
                held.set()
            return [quiet, late]

    quiet, late = asyncio.run(run())
    about = [each.text for each in quiet if each.about == "group many"]
    assert len(about) == 1 and about[0].startswith("2 members share 1 queue of topic narrow, so 1 member can get no")
    (stuck,) = [each for each in late if each.about == "group many" and "connected" in each.text]
    assert stuck.severity == "warning"
    assert stuck.text.startswith("1 message left with 2 members connected, the oldest for 10 min")


def test_a_message_is_consumed_directly_by_a_member(nameserver: str, admin: Admin, typed: Typed) -> None:
    admin.topics.create("undirected", queues=1)  # so that nothing but direct consumption reaches the listener
    (good, bad) = send(nameserver, Message("direct", b"good"), Message("direct", b"bad"))
    seen: list[bytes] = []

    def listen(message: ReceivedMessage) -> None:
        seen.append(message.body)
        if message.body == b"bad":
            raise ValueError("not this one")

    with PushConsumer(nameserver, group="directs", listener=listen, topics="undirected"):
        until_on_thread(
            lambda: "directs" in admin.groups.names() and admin.members.states("directs"), "it is connected"
        )
        done = admin.members.consume_directly("directs", good, topic="direct")
        assert (done.outcome, done.is_consumed, done.message_id) == ("success", True, good)
        (row,) = typed.rows("message", "consume-directly", good, "--topic", "direct", "--group", "directs")
        assert (row["outcome"], row["client_id"]) == ("success", done.client_id)
        offset_id = admin.messages.get("direct", bad).offset_message_id
        words = ("message", "consume-directly", offset_id, "--group", "directs", "--client", done.client_id)
        (row,) = typed.rows(*words, expect=5)
        assert (row["outcome"], row["remark"]) == ("exception", "ValueError: not this one")
        typed("message", "consume-directly", offset_id, "--group", "directs", "--client", "nobody", expect=4)
        assert done.client_id in typed.err, "who is there"
    assert seen == [b"good", b"good", b"bad"]


def test_new_messages_are_followed(nameserver: str, admin: Admin) -> None:
    admin.topics.create("followed", queues=2)
    command = [sys.executable, "-m", "pyromq", "tail", "followed", "-f", "--nameserver", nameserver]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        try:
            send(nameserver, Message("followed", b"1"))
            assert json.loads(following.stdout.readline())["body"] == "1"
            send(nameserver, Message("followed", b"2"))
            assert json.loads(following.stdout.readline())["body"] == "2"
            following.send_signal(signal.SIGINT)
            assert following.wait(LIMIT_S) == 0
        finally:
            following.kill()


def test_an_unreachable_cluster_is_exit_code_four(typed: Typed) -> None:
    typed("cluster", "ls", "-n", "127.0.0.1:1", expect=4)
    typed("message", "explain", "X", "--topic", "t", "-n", "127.0.0.1:1", expect=4)


def test_a_group_is_created_and_changed_bit_by_bit(admin: Admin, typed: Typed) -> None:
    made = json.loads(typed("group", "create", "shippers", "--retries", "3", "--delays", "1s 10s 1m", "-o", "json"))
    assert made[0] | {"retries": 3, "delays": "1 s, 10 s, 1 min"} == made[0]
    changed = json.loads(typed("group", "create", "shippers", "--no-enabled", "-o", "json"))
    assert (changed[0]["retries"], changed[0]["delays"], changed[0]["enabled"]) == (3, "1 s, 10 s, 1 min", False)
    config = admin.groups.config("shippers")
    policy = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1_000, 10_000, 60_000]}}
    assert (config.retry_max_times, config.group_retry_policy, config.consume_enable) == (3, policy, False)
    back = json.loads(typed("group", "create", "shippers", "--delays", "", "--enabled", "-o", "json"))
    assert back[0]["delays"] == "the broker's"
    assert "each step is a number" in (typed("group", "create", "shippers", "--delays", "soon", expect=1) or typed.err)
    typed("group", "create", "ship pers", expect=1)
