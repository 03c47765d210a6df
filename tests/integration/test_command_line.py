"""The command line as people use it: lists at the widths of terminals, pipes, watching, keys, mqadmin."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from threading import Timer

import pytest

from pyromq import Admin, Message, Producer
from pyromq.cli.main import main
from pyromq.operate.lists import ListQuestion, ListSort
from pyromq.testing import LoopbackBroker
from tests.integration.waiting import until_on_thread

pytestmark = pytest.mark.integration

END_S = 60


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def broker() -> Iterator[LoopbackBroker]:
    with LoopbackBroker() as broker:
        with Producer(broker.nameserver, group="shop") as producer, Admin(broker.nameserver) as admin:
            admin.topics.create("orders", queues=2)
            admin.topics.create("events", queues=4, attributes={"message.type": "FIFO"})
            admin.topics.create("a-topic-with-quite-a-long-name-as-teams-like-to-give-them", queues=1)
            for group in ("billing", "mail"):
                admin.groups.create(group)
            producer.send_batch([Message("orders", b"%d" % number, keys=f"k{number}") for number in range(20)])
            plan = admin.offsets.plan_reset("billing", "orders", to_ms=-1)
            admin.offsets.carry_out("billing", plan)
            producer.send_batch([Message("orders", b"later %d" % number) for number in range(7)])
        yield broker


@pytest.fixture
def typed(
    broker: LoopbackBroker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    monkeypatch.setenv("PYROMQ_NAMESERVER", broker.nameserver)

    def typed(*words: str, expect: int = 0) -> str:
        capsys.readouterr()
        code = main(words)
        out, err = capsys.readouterr()
        assert code == expect, err + out
        return out if out else err

    return typed


def child(*words: str) -> list[str]:
    return [sys.executable, "-m", "pyromq", *words]


def environment(broker: LoopbackBroker) -> dict[str, str]:
    return {**os.environ, "PYROMQ_NAMESERVER": broker.nameserver}


# --- lists -----------------------------------------------------------------------------------------------------------


def test_lists_show_what_matters(typed: Callable[..., str]) -> None:
    rows = [json.loads(line) for line in typed("topic", "ls").splitlines()]
    assert [row["topic"] for row in rows][1:] == ["events", "orders"]
    orders = rows[2]
    assert (orders["queues"], orders["lag"], orders["kind"]) == (2, 7, "normal")
    assert orders["groups"] == [{"group": "billing", "lag": 7}]
    assert orders["put_rate"] > 0 and rows[1]["message_type"] == "FIFO"
    groups = [json.loads(line) for line in typed("group", "ls").splitlines()]
    assert [(row["group"], row["members"], row["lag"], row["dead_letters"]) for row in groups] == [
        ("billing", 0, 7, 0),
        ("mail", 0, 0, 0),
    ]


def test_what_belongs_to_the_system_is_behind_all(typed: Callable[..., str]) -> None:
    everything = [json.loads(line) for line in typed("topic", "ls", "--all").splitlines()]
    kinds = {row["topic"]: row["kind"] for row in everything}
    assert kinds["%RETRY%billing"] == "retry" and kinds["SCHEDULE_TOPIC_XXXX"] == "system"
    assert kinds["broker-a"] == kinds["DefaultCluster"] == kinds["DefaultCluster_REPLY_TOPIC"] == "system"


def test_a_list_is_filtered_sorted_and_cut_and_says_so(
    typed: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert json.loads(typed("topic", "ls", "order"))["topic"] == "orders"
    assert json.loads(typed("topic", "ls", "e*s"))["topic"] == "events"
    assert json.loads(typed("topic", "ls", "-s", "lag", "-l", "1"))["topic"] == "orders"
    assert json.loads(typed("topic", "ls", "-s", "rate", "-l", "1"))["topic"] == "orders"
    main(["topic", "ls", "-l", "1"])
    assert "… and 2 topics more: --limit 0 lists all" in capsys.readouterr().err
    assert "there is no such topic" in typed("topic", "ls", "nosuch")
    assert json.loads(typed("group", "ls", "-s", "lag", "-l", "1"))["group"] == "billing"


@pytest.mark.parametrize("width", [80, 120])
def test_lists_fit_terminals(width: int, broker: LoopbackBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYROMQ_NAMESERVER", broker.nameserver)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    for words in (
        "topic ls",
        "topic ls --all",
        "group ls",
        "cluster ls",
        "topic describe orders",
        "group describe billing",
    ):
        out = Terminal()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", out)
            assert main(words.split()) == 0
        lines = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).splitlines()
        assert lines and all(len(line) <= width for line in lines), out.getvalue()
        assert "orders" in out.getvalue() or words in ("group ls", "cluster ls", "topic describe orders")


def test_a_page_is_the_first_rows_of_many(broker: LoopbackBroker) -> None:
    with Admin(broker.nameserver) as admin:
        for number in range(60):
            admin.topics.create(f"many-{number:02}", queues=1)
        page = admin.topics.list(ListQuestion(pattern="many", limit=5))
        assert (len(page.rows), page.found, page.problems) == (5, 60, ())
        rows = admin.topics.list(ListQuestion(pattern="many-", sort=ListSort.RATE)).rows
        assert len(rows) == 60 and all(row.put_rate == 0 for row in rows)
        for number in range(60):
            admin.topics.delete(f"many-{number:02}")


# --- pipes -----------------------------------------------------------------------------------------------------------


def test_messages_go_from_one_topic_to_another_through_a_pipe(broker: LoopbackBroker) -> None:
    bodies = [b"text", b"\xff\x00\x01", "é漢🎉\n\u2028".encode(), b"\x00", b'{"a": 1}', b" "]
    with Producer(broker.nameserver, group="shop") as producer, Admin(broker.nameserver) as admin:
        admin.topics.create("from-here", queues=1)
        admin.topics.create("to-there", queues=1)
        for number, body in enumerate(bodies):
            properties = {"number": str(number), "odd\nname": "a\tb"}
            producer.send(Message("from-here", body, tags="t", keys=["a", "b"], properties=properties, flag=7))
        producer.send(Message("from-here", b"ordered", sharding_key="o-1"))
        count = str(len(bodies) + 1)
        reading = subprocess.Popen(
            child("consume", "from-here", "-g", "movers", "-c", count, "-o", "jsonl"),
            env=environment(broker),
            stdout=subprocess.PIPE,
        )
        sending = subprocess.run(
            child("send", "to-there", "--jsonl", "-o", "jsonl"),
            env=environment(broker),
            stdin=reading.stdout,
            capture_output=True,
            timeout=END_S,
        )
        assert reading.stdout is not None
        reading.stdout.close()
        assert (reading.wait(END_S), sending.returncode) == (0, 0), sending.stderr
        copies = admin.messages.newest("to-there", 100)
        assert [message.body for message in copies] == [*bodies, b"ordered"]
        for number, message in enumerate(copies[:-1]):
            assert (message.tags, message.keys, message.flag) == ("t", ("a", "b"), 7)
            assert (message.get("number"), message.get("odd\nname")) == (str(number), "a\tb")
        assert copies[-1].sharding_key == "o-1"


def test_a_line_that_is_no_message_is_named(broker: LoopbackBroker) -> None:
    done = subprocess.run(
        child("send", "--jsonl"),
        env=environment(broker),
        input='{"topic":"orders","body":"fine"}\n{"topic":"orders"}\n',
        capture_output=True,
        text=True,
        timeout=END_S,
    )
    assert done.returncode == 1 and len(done.stdout.splitlines()) == 1
    assert "line 2: no body" in done.stderr and "go on with --from-line 2" in done.stderr


@pytest.mark.parametrize(
    "words",
    ["send orders --jsonl body", "send --jsonl -t x", "send", "send orders x -p nothing", "send orders x --delay soon"],
)
def test_options_that_do_not_go_together_are_wrong_usage(words: str, typed: Callable[..., str]) -> None:
    assert "Error" in typed(*words.split(), expect=1)


def test_a_reader_that_goes_ends_the_command(broker: LoopbackBroker) -> None:
    """As ``pyromq topic ls --all | head -1``: 141, as shells count, and nothing on standard error."""
    command = f"{sys.executable} -m pyromq topic ls --all --watch 0.1 -o jsonl | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], env=environment(broker), capture_output=True, text=True, timeout=END_S
    )
    first, code = done.stdout.splitlines()
    assert "at_ms" in json.loads(first) and (code, done.stderr) == ("141", "")


def test_watching_in_a_pipe_appends_rows_until_ctrl_c(broker: LoopbackBroker) -> None:
    command = child("group", "lag", "billing", "--watch", "0.1", "-o", "jsonl")
    watching = subprocess.Popen(command, env=environment(broker), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with watching:
        assert watching.stdout is not None and watching.stderr is not None
        times = set()
        while len(times) < 3:
            times.add(json.loads(watching.stdout.readline())["at_ms"])
        watching.send_signal(signal.SIGINT)
        watching.stdout.read()
        assert (watching.wait(END_S), watching.stderr.read()) == (0, b"")


def test_nothing_is_deleted_without_a_yes(typed: Callable[..., str], broker: LoopbackBroker) -> None:
    for words in ("topic delete orders", "group delete billing", "group reset billing --topic orders --to-end"):
        typed(*words.split(), expect=1)
    told = typed("topic", "delete", "orders", expect=1)
    assert "2 queues with" in told and "consumed by billing" in told and "nothing was done" in told
    assert broker.nameserver in told, "in which cluster"
    told = typed("group", "delete", "billing", expect=1)
    assert "no member is connected, " in told and "0 dead letters" in told
    typed("topic", "delete", "nosuch", "--yes", expect=2)
    typed("group", "delete", "nosuch", "--yes", expect=2)


# --- top -------------------------------------------------------------------------------------------------------------


def test_top_shows_one_frame_in_a_pipe(typed: Callable[..., str]) -> None:
    for words in (("top",), ("top", "--once")):
        shown = typed(*words)
        assert "1 broker" in shown and "billing" in shown and "orders" in shown and "\x1b" not in shown
    assert "billing" not in typed("top", "orders")


@pytest.mark.parametrize("keys", ["q", "/ord\rq", "sspaq", "", "/typing"])
def test_top_in_a_terminal_follows_keys_and_leaves_it_as_it_was(keys: str, broker: LoopbackBroker) -> None:
    """Without a q Ctrl-C ends it; both are a good end."""
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    variables = {**environment(broker), "TERM": "xterm", "LINES": "30", "COLUMNS": "100"}
    running = subprocess.Popen(child("top", "--every", "30"), env=variables, stdin=theirs, stdout=theirs, stderr=theirs)
    ending = Timer(END_S, running.kill)
    ending.start()
    seen = bytearray()

    def read_until(is_enough: Callable[[], bool]) -> None:
        while not is_enough():
            if select.select([ours], [], [], 0.1)[0]:
                seen.extend(os.read(ours, 65_536))

    try:
        read_until(lambda: b"refresh" in seen or running.poll() is not None)  # the last line of the first frame
        os.write(ours, keys.encode())
        if "q" not in keys:
            running.send_signal(signal.SIGINT)
        read_until(lambda: running.poll() is not None and not select.select([ours], [], [], 0)[0])
        assert (running.returncode, b"billing" in seen, b"Traceback" in seen) == (0, True, False), bytes(seen)
        assert seen.rindex(b"\x1b[?1049l") > seen.index(b"\x1b[?1049h"), "the screen is given back"
        assert termios.tcgetattr(theirs) == before
    finally:
        ending.cancel()
        running.kill()
        running.wait()
        os.close(ours)
        os.close(theirs)


# --- mqadmin ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def mqadmin(broker: LoopbackBroker, typed: Callable[..., str]) -> Callable[..., list[str]]:
    def run(*words: str, expect: int = 0) -> list[str]:
        return typed("mqadmin", *words, "-n", broker.nameserver, expect=expect).splitlines()

    return run


def test_mqadmin_looks_at_topics_as_runbooks_do(mqadmin: Callable[..., list[str]], broker: LoopbackBroker) -> None:
    assert "orders" in mqadmin("topicList") and "TBW102" in mqadmin("topicList")
    assert any(line.split() == ["DefaultCluster", "orders", "billing"] for line in mqadmin("topicList", "-c"))
    assert json.loads("\n".join(mqadmin("topicRoute", "-t", "orders")))["queueDatas"][0]["readQueueNums"] == 2
    listed = mqadmin("topicRoute", "-t", "orders", "-l")
    assert listed[1].split() == ["DefaultCluster", "broker-a", f"{{0={broker.address}}}", "2", "2", "6"]
    status = mqadmin("topicStatus", "-t", "orders")
    with Admin(broker.nameserver) as admin:
        ends = {queue.number: held.max_offset for queue, held in admin.topics.stats("orders").items()}
    shown = {int(line.split()[1]): int(line.split()[3]) for line in status[1:3]}
    assert status[0].split("  ")[0] == "#Broker Name" and shown == ends and sum(ends.values()) >= 27
    assert mqadmin("topicClusterList", "--topic", "orders") == ["DefaultCluster"]
    assert json.loads(mqadmin("allocateMQ", "-t", "orders", "-i", "a,b,c")[0])["result"]["c"] == []
    stats = mqadmin("statsAll", "-t", "orders")
    assert stats[0].split()[0] == "#Topic" and stats[1].split()[:2] == ["orders", "billing"] and len(stats) == 2
    mqadmin("topicRoute", "-t", "nosuch", expect=2)


def test_mqadmin_changes_topics_and_groups(mqadmin: Callable[..., list[str]], broker: LoopbackBroker) -> None:
    made = mqadmin("updateTopic", "-c", "DefaultCluster", "-t", "made", "-r", "3", "-w", "3", "-o", "true")
    assert made[0] == f"create topic to {broker.address} success." and "order=true" in made[1]
    with Admin(broker.nameserver) as admin:
        assert admin.nameservers.kv("ORDER_TOPIC_CONFIG") == {"made": "broker-a:3"}
        assert mqadmin("updateTopicPerm", "-b", broker.address, "-t", "made", "-p", "4") == [
            f"update topic perm from 6 to 4 in {broker.address} success."
        ]
        config = admin.topics.config("made")["broker-a"]
        assert (config.perm, config.read_queue_nums, config.order) == (4, 3, True)
    assert mqadmin("deleteTopic", "-c", "DefaultCluster", "-t", "made")[1].startswith("delete topic [made] from NameS")
    made = mqadmin("updateSubGroup", "-b", broker.address, "-g", "made-group", "-r", "3", "-s", "false")
    assert "retryMaxTimes=3" in made[1] and "consumeEnable=false" in made[1]
    assert any(line.split() == ["retryMaxTimes", "=", "3"] for line in mqadmin("getConsumerConfig", "-g", "made-group"))
    mqadmin("deleteSubGroup", "-c", "DefaultCluster", "-g", "made-group", "-r", "true")
    mqadmin("getConsumerConfig", "-g", "made-group", expect=2)
    for wrong in (
        ("-t", "x"),
        ("-t", "x", "-b", "h:1", "-c", "c"),
        ("-t", "x", "-c", "nosuch"),
        ("-c", "DefaultCluster"),
    ):
        mqadmin("updateTopic", *wrong, expect=1)
    mqadmin("updateTopic", "-c", "DefaultCluster", "-t", "x", "-p", "7", expect=1)
    mqadmin("updateTopic", "-c", "DefaultCluster", "-t", "x", "-u", "true", expect=1)
    mqadmin("updateSubGroup", "-c", "DefaultCluster", "-g", "x", "-p", "{", expect=1)


def test_mqadmin_looks_at_progress_and_moves_groups(mqadmin: Callable[..., list[str]], broker: LoopbackBroker) -> None:
    progress = mqadmin("consumerProgress", "-g", "billing")
    assert progress[0].split()[0] == "#Topic" and any(line.startswith("Consume Diff Total: ") for line in progress)
    groups = {line.split()[0]: line.split() for line in mqadmin("consumerProgress")[1:]}
    assert groups["billing"][1:3] == ["0", "OFFLINE"]
    mqadmin("consumerConnection", "-g", "billing", expect=4)
    mqadmin("consumerStatus", "-g", "billing", expect=4)
    assert mqadmin("producerConnection", "-g", "nobody", "-t", "orders") == []
    stats = mqadmin("brokerConsumeStats", "-b", broker.address)
    assert any(line.split()[:3] == ["orders", "billing", "broker-a"] for line in stats)
    moved = mqadmin("resetOffsetByTime", "-g", "billing", "-t", "orders", "-s", "0")
    assert moved[1].split() == ["#brokerName", "#queueId", "#offset"] and moved[2].split()[2] == "0"
    moved = mqadmin(
        "resetOffsetByTime", "-g", "billing", "-t", "orders", "-s", "now", "-b", broker.address, "-q", "1", "-o", "3"
    )
    assert moved == [f"reset queue offset success. queue 1 of {broker.address}: 3"]
    mqadmin("resetOffsetByTime", "-g", "billing", "-t", "orders", "-s", "now", "-q", "1", expect=1)
    mqadmin("cloneGroupOffset", "-s", "billing", "-d", "mail", "-t", "orders")
    with Admin(broker.nameserver) as admin:
        assert {queue.number: held.consumer_offset for queue, held in admin.groups.lag("mail", "orders").items()} == {
            0: 0,
            1: 3,
        }
    skipped = mqadmin("skipAccumulatedMessage", "-g", "billing", "-t", "orders")
    with Admin(broker.nameserver) as admin:
        ends = {queue.number: held.max_offset for queue, held in admin.topics.stats("orders").items()}
    assert {int(line.split()[1]): int(line.split()[2]) for line in skipped[1:]} == ends
    mqadmin("resetOffsetByTime", "-g", "nosuch", "-t", "orders", "-s", "now", expect=2)


def test_mqadmin_finds_prints_and_sends_messages(mqadmin: Callable[..., list[str]], broker: LoopbackBroker) -> None:
    sent = mqadmin(
        "sendMessage", "-t", "orders", "-p", "by hand", "-k", "hand-1", "-c", "TagH", "-b", "broker-a", "-i", "1"
    )
    name, queue, status, message_id = sent[1].split()
    assert (name, queue, status) == ("broker-a", "1", "SEND_OK")
    found = mqadmin("queryMsgByKey", "-t", "orders", "-k", "hand-1")
    assert found[1].split()[:2] == [message_id, "1"]
    offset = found[1].split()[2]
    ways = [
        ("queryMsgByUniqueKey", "-i", message_id),
        ("queryMsgByOffset", "-b", "broker-a", "-i", "1", "-o", offset),
        ("queryMsgById", "-i", message_id),
    ]
    for words in ways:
        shown = {line.partition(":")[0]: line.partition(":")[2].strip() for line in mqadmin(*words, "-t", "orders")}
        assert (shown["Keys"], shown["Tags"], shown["Message Body"]) == ("[hand-1]", "[TagH]", "by hand")
    printed = mqadmin("printMsg", "-t", "orders", "-s", "TagH")
    assert next(line for line in printed if line.startswith("MSGID: ")).endswith("BODY: by hand")
    assert mqadmin("printMsgByQueue", "-t", "orders", "-a", "broker-a", "-i", "1", "-f", "true")[-1].startswith("Tag: ")
    consumed = mqadmin("consumeMessage", "-t", "orders", "-b", "broker-a", "-i", "1", "-o", offset)
    assert consumed[0] == "Consume ok" and consumed[1].endswith("BODY: by hand") and len(consumed) == 2
    assert mqadmin("consumeMessage", "-t", "orders", "-c", "2")[0] == "Consume ok"
    times = mqadmin("checkMsgSendRT", "-t", "events", "-a", "3")
    assert len(times) == 5 and times[-1].startswith("Avg RT: ")
    entries = mqadmin("queryCq", "-t", "orders", "-q", "0", "-i", "0", "-c", "2")
    assert sum(line.startswith("ConsumeQueueData{physicOffset=") for line in entries) == 2
    mqadmin("queryMsgByUniqueKey", "-t", "orders", "-i", "nosuch", expect=2)
    mqadmin("queryMsgById", "-t", "orders", "-i", message_id, "-s", "true", expect=1)
    mqadmin("queryMsgTraceById", "-i", message_id, expect=2)


def test_mqadmin_looks_after_servers(mqadmin: Callable[..., list[str]], broker: LoopbackBroker) -> None:
    listed = mqadmin("clusterList")
    assert listed[0].split()[:2] == ["#Cluster", "Name"] and listed[1].split()[:4] == [
        "DefaultCluster",
        "broker-a",
        "0",
        broker.address,
    ]
    assert "#InTotalToday" in mqadmin("clusterList", "-m")[0]
    assert any(line.startswith("brokerVersionDesc") for line in mqadmin("brokerStatus", "-b", broker.address))
    assert all(line.startswith(broker.address) for line in mqadmin("brokerStatus", "-c", "DefaultCluster"))
    assert mqadmin("updateBrokerConfig", "-b", broker.address, "-k", "fileReservedTime", "-v", "48") == [
        f"update broker config success, {broker.address}"
    ]
    config = mqadmin("getBrokerConfig", "-c", "DefaultCluster")
    assert any(line.split() == ["fileReservedTime", "=", "48"] for line in config)
    assert mqadmin("getNamesrvConfig")[0] == f"============{broker.nameserver}============"
    mqadmin("updateNamesrvConfig", "-k", "nosuch", "-v", "1", expect=3)
    for name in ("cleanExpiredCQ", "deleteExpiredCommitLog", "cleanUnusedTopic"):
        assert mqadmin(name, "-b", broker.address) == mqadmin(name) == ["success"]
    mqadmin("updateKvConfig", "-s", "ns", "-k", "a", "-v", "b")
    with Admin(broker.nameserver) as admin:
        assert admin.nameservers.kv("ns") == {"a": "b"}
        mqadmin("deleteKvConfig", "-s", "ns", "-k", "a")
        assert "a" not in admin.nameservers.kv("ns")
    assert "OK, " in mqadmin("wipeWritePerm", "-b", "broker-a")[0]
    assert "OK, " in mqadmin("addWritePerm", "-b", "broker-a")[0]
    assert mqadmin("producer", "-b", broker.address) == []


def test_mqadmin_does_not_reach_what_is_not_there(typed: Callable[..., str]) -> None:
    for words in (["topicList"], ["clusterList"], ["consumerProgress", "-g", "x"], ["getNamesrvConfig"]):
        assert "127.0.0.1:1" in typed("mqadmin", *words, "-n", "127.0.0.1:1", expect=4)


def test_top_and_lists_count_members_and_dead_letters(broker: LoopbackBroker) -> None:
    from pyromq import PushConsumer

    with Admin(broker.nameserver) as admin, Producer(broker.nameserver, group="shop") as producer:
        admin.topics.create("lively", queues=1)
        receipt = producer.send(Message("lively", b"1"))
        consumer = PushConsumer(broker.nameserver, group="lively-group", listener=lambda _: None)
        consumer.subscribe("lively")
        with consumer:
            question = ListQuestion(pattern="lively")
            until_on_thread(lambda: [row.members for row in admin.groups.list(question).rows] == [1])
        admin.offsets.reset("lively-group", "lively", to_ms=0)
        admin.groups.park("lively-group", receipt.queue)
        (row,) = admin.groups.list(ListQuestion(pattern="lively")).rows
        assert (row.dead_letters, row.topics, row.lag) == (1, ("lively",), 0)
        assert admin.dead_letters.count("lively-group").waiting == 1
