"""Apache's Java client against its own servers and against ours: the same expectations for both."""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from interop.java_client import JavaClient, JavaError
from interop.tests.conftest import Cluster

SECTION = "Java client × servers"
_numbers = itertools.count()


def case(name: str) -> pytest.MarkDecorator:
    return pytest.mark.case(SECTION, name)


class World:
    """A Java client, a cluster and names that nobody else uses."""

    def __init__(self, java: JavaClient, cluster: Cluster) -> None:
        self.java, self.cluster = java, cluster
        number = next(_numbers)
        self.topic, self.group = f"Topic{number}", f"group-{number}"
        self._running: list[tuple[str, str]] = []

    def start(self, kind: str, **arguments: Any) -> str:
        name = f"{kind}{next(_numbers)}"
        arguments = {"group": self.group, "nameserver": self.cluster.nameserver} | arguments
        self.java.call(f"{kind}.start", name=name, **arguments)
        self._running.append((kind, name))
        return name

    def stop(self, name: str) -> None:
        (entry,) = [each for each in self._running if each[1] == name]
        self._running.remove(entry)
        self.java.call(f"{entry[0]}.stop", name=name)

    def close(self) -> None:
        for _, name in list(self._running):
            self.stop(name)

    def create_topic(self, queues: int = 4) -> None:
        admin = self.start("admin")
        self.java.call("admin.createTopic", name=admin, broker=self.cluster.broker, topic=self.topic, queues=queues)
        deadline = time.monotonic() + 15
        while self.topic not in self.java.call("admin.topics", name=admin):
            assert time.monotonic() < deadline, "the new topic never showed up in the name server"
            time.sleep(0.1)
        self.stop(admin)

    def send(self, producer: str, bodies: list[str], mode: str = "sync", **fields: Any) -> list[dict[str, Any]]:
        messages = [{"topic": self.topic, "body": body, **fields} for body in bodies]
        results: list[dict[str, Any]] = self.java.call("producer.send", name=producer, mode=mode, messages=messages)
        return results

    def wait(self, consumer: str, count: int, timeout_s: float = 30) -> list[dict[str, Any]]:
        seen: list[dict[str, Any]] = self.java.call(
            "push.wait", name=consumer, count=count, timeoutMs=int(timeout_s * 1000)
        )
        return seen


@pytest.fixture
def world(java: JavaClient, cluster: Cluster) -> Iterator[World]:
    each = World(java, cluster)
    yield each
    each.close()


def bodies_of(messages: list[dict[str, Any]]) -> list[str]:
    return [message["body"] for message in messages]


# --- producers -----------------------------------------------------------------------------------------------------


@case("producer: sync, topic created by the send")
def test_sends_to_a_new_topic(world: World) -> None:
    producer = world.start("producer")
    results = world.send(producer, ["a", "b"], tags="TagA", keys="k1")
    assert [result["status"] for result in results] == ["SEND_OK", "SEND_OK"]
    assert all(result["offsetMsgId"].startswith("7F000001") for result in results)


@case("producer: async")
def test_sends_async(world: World) -> None:
    world.create_topic()
    results = world.send(world.start("producer"), [str(n) for n in range(50)], "async")
    assert [result["status"] for result in results] == ["SEND_OK"] * 50


@case("producer: batch")
def test_sends_a_batch(world: World) -> None:
    world.create_topic()
    (result,) = world.send(world.start("producer"), [str(n) for n in range(10)], "batch", keys="kb")
    assert result["status"] == "SEND_OK" and len(result["offsetMsgId"].split(",")) == 10
    consumer = world.start("push", topic=world.topic)
    assert sorted(bodies_of(world.wait(consumer, 10))) == sorted(str(n) for n in range(10))


@case("producer: oneway")
def test_sends_oneway(world: World) -> None:
    world.create_topic()
    world.send(world.start("producer"), ["x", "y", "z"], "oneway")
    consumer = world.start("push", topic=world.topic)
    assert sorted(bodies_of(world.wait(consumer, 3))) == ["x", "y", "z"]


@case("producer: compressed bodies")
def test_sends_compressed(world: World) -> None:
    world.create_topic()
    text = "compressible " * 400
    world.send(world.start("producer", compressOver=100), [text])
    consumer = world.start("push", topic=world.topic)
    assert bodies_of(world.wait(consumer, 1)) == [text]


@case("producer: through the VIP port")
def test_sends_through_the_vip_port(world: World) -> None:
    world.create_topic()
    (result,) = world.send(world.start("producer", vip=True), ["x"])
    assert result["status"] == "SEND_OK"


@case("producer: refused, message too large")
def test_is_refused_when_too_large(world: World) -> None:
    world.create_topic()
    with pytest.raises(JavaError) as caught:
        world.send(world.start("producer", compressOver=1 << 30), ["x" * 70_000])
    assert caught.value.code == 13


@case("producer: request and reply")
def test_requests_are_replied_to(world: World) -> None:
    world.create_topic()
    world.start("push", topic=world.topic, reply=True, **{"from": "CONSUME_FROM_LAST_OFFSET"})
    time.sleep(3)
    producer = world.start("producer", group=f"{world.group}-p")
    message = {"topic": world.topic, "body": "ping"}
    reply = world.java.call("producer.request", name=producer, message=message, timeoutMs=8_000)
    assert reply == "reply to ping"


# --- push consumers ------------------------------------------------------------------------------------------------


@case("push consumer: concurrent, all fields")
def test_consumes_what_was_sent(world: World) -> None:
    world.create_topic()
    producer = world.start("producer")
    results = world.send(producer, [f"m{n}" for n in range(40)], tags="TagA", keys="k", properties={"color": "blue"})
    consumer = world.start("push", topic=world.topic)
    seen = world.wait(consumer, 40)
    assert sorted(bodies_of(seen)) == sorted(f"m{n}" for n in range(40))
    by_id = {message["msgId"]: message for message in seen}
    for result in results:
        message = by_id[result["msgId"]]
        assert (message["queueId"], message["offset"]) == (result["queueId"], result["offset"])
        assert message["offsetMsgId"] == result["offsetMsgId"]
        assert (message["tags"], message["keys"], message["reconsumeTimes"]) == ("TagA", "k", 0)
        assert message["properties"]["color"] == "blue"


@case("push consumer: a message sent while it waits arrives at once")
def test_a_waiting_consumer_is_woken(world: World) -> None:
    world.create_topic()
    producer, consumer = world.start("producer"), world.start("push", topic=world.topic)
    world.send(producer, ["first"])
    world.wait(consumer, 1)
    time.sleep(1)
    world.send(producer, ["second"])
    seen = world.wait(consumer, 2)
    assert bodies_of(seen) == ["first", "second"]
    assert seen[1]["at"] - seen[1]["storeTimestamp"] < 1_000


@case("push consumer: tags")
def test_only_wanted_tags_arrive(world: World) -> None:
    world.create_topic()
    producer = world.start("producer")
    for tag in "ABC":
        world.send(producer, [f"{tag}{n}" for n in range(5)], tags=f"Tag{tag}")
    consumer = world.start("push", topic=world.topic, tags="TagA || TagC")
    wanted = sorted([f"A{n}" for n in range(5)] + [f"C{n}" for n in range(5)])
    assert sorted(bodies_of(world.wait(consumer, 10))) == wanted
    assert len(world.wait(consumer, 11, timeout_s=1)) == 10


@case("push consumer: SQL92")
@pytest.mark.lacking("pyromq", "SQL92 filters are not there yet")
def test_sql_filters(world: World) -> None:
    world.create_topic()
    producer = world.start("producer")
    for n in range(10):
        world.send(producer, [str(n)], properties={"n": str(n)})
    consumer = world.start("push", topic=world.topic, sql="n >= 7")
    assert sorted(bodies_of(world.wait(consumer, 3))) == ["7", "8", "9"]


@case("push consumer: orderly, by selector")
def test_ordered_messages_keep_their_order(world: World) -> None:
    world.create_topic()
    producer = world.start("producer")
    messages = [{"topic": world.topic, "body": f"{n % 4}-{n:03}", "shard": n % 4} for n in range(80)]
    world.java.call("producer.send", name=producer, mode="ordered", messages=messages)
    consumer = world.start("push", topic=world.topic, orderly=True)
    by_shard: dict[str, list[str]] = defaultdict(list)
    for body in bodies_of(world.wait(consumer, 80)):
        by_shard[body[0]].append(body)
    assert {shard: len(found) for shard, found in by_shard.items()} == {str(n): 20 for n in range(4)}
    assert all(found == sorted(found) for found in by_shard.values())


@case("push consumer: orderly, a failing message holds its queue")
def test_an_orderly_failure_is_retried_in_place(world: World) -> None:
    world.create_topic(queues=1)
    world.send(world.start("producer"), ["1", "2"])
    consumer = world.start("push", topic=world.topic, orderly=True, failTimes=2)
    seen = world.wait(consumer, 6, timeout_s=20)
    assert bodies_of(seen) == ["1", "1", "1", "2", "2", "2"]


@case("push consumer: broadcasting reaches every member")
def test_broadcasting(world: World) -> None:
    world.create_topic()
    consumers = [world.start("push", topic=world.topic, broadcasting=True) for _ in range(2)]
    time.sleep(3)
    world.send(world.start("producer"), [str(n) for n in range(8)])
    for consumer in consumers:
        assert sorted(bodies_of(world.wait(consumer, 8))) == [str(n) for n in range(8)]


@case("push consumer: two members share the queues")
def test_members_share(world: World) -> None:
    world.create_topic()
    consumers = [world.start("push", topic=world.topic) for _ in range(2)]
    time.sleep(4)
    world.send(world.start("producer"), [str(n) for n in range(40)])
    seen = [bodies_of(world.wait(consumer, 20, timeout_s=30)) for consumer in consumers]
    assert all(seen), f"one of them got nothing: {[len(each) for each in seen]}"
    assert sorted(itertools.chain(*seen)) == sorted(str(n) for n in range(40))


@case("push consumer: goes on where the group stopped")
def test_progress_is_kept(world: World) -> None:
    world.create_topic()
    producer = world.start("producer")
    world.send(producer, ["1", "2", "3"])
    first = world.start("push", topic=world.topic)
    world.wait(first, 3)
    time.sleep(0.5)
    world.stop(first)
    world.send(producer, ["4", "5"])
    second = world.start("push", topic=world.topic)
    assert sorted(bodies_of(world.wait(second, 2))) == ["4", "5"]
    assert len(world.wait(second, 3, timeout_s=1)) == 2


@case("push consumer: a failed message comes again")
@pytest.mark.lacking("pyromq", "sending back (36) and delays are not there yet")
def test_failed_messages_come_again(world: World) -> None:
    world.create_topic()
    world.send(world.start("producer"), ["retry me"])
    consumer = world.start("push", topic=world.topic, failTimes=1, delayLevel=1)
    seen = world.wait(consumer, 2, timeout_s=50)
    assert [(each["body"], each["reconsumeTimes"]) for each in seen] == [("retry me", 0), ("retry me", 1)]
    assert seen[0]["msgId"] == seen[1]["msgId"]


@case("push consumer: dead letters after the last attempt")
@pytest.mark.lacking("pyromq", "dead letters are not there yet")
def test_dead_letters(world: World) -> None:
    world.create_topic()
    world.send(world.start("producer"), ["never"])
    world.start("push", topic=world.topic, failTimes=99, maxAttempts=1, delayLevel=1)
    time.sleep(8)
    dead = world.start("lite", group=f"{world.group}-dead", topic=f"%DLQ%{world.group}", assign=True)
    messages = world.java.call("lite.poll", name=dead, count=1, timeoutMs=8_000)
    assert bodies_of(messages) == ["never"]


@case("delayed message, level 2 (5 s)")
@pytest.mark.lacking("pyromq", "delays are not there yet")
def test_delayed_messages(world: World) -> None:
    world.create_topic()
    consumer = world.start("push", topic=world.topic)
    (result,) = world.send(world.start("producer"), ["later"], delayLevel=2)
    assert result["status"] == "SEND_OK"
    (seen,) = world.wait(consumer, 1, timeout_s=15)
    assert 4_500 < seen["at"] - seen["bornTimestamp"] < 9_000


@case("transactions: commit, rollback, check back")
@pytest.mark.lacking("pyromq", "transactions are not there yet")
def test_transactions(world: World) -> None:
    world.create_topic()
    producer = world.start("producer", transactional=True, group=f"{world.group}-tx")
    for outcome, checked in (
        ("COMMIT_MESSAGE", "UNKNOW"),
        ("ROLLBACK_MESSAGE", "UNKNOW"),
        ("UNKNOW", "COMMIT_MESSAGE"),
    ):
        properties = {"outcome": outcome, "checked": checked}
        message = {"topic": world.topic, "body": f"{outcome}/{checked}", "properties": properties}
        world.java.call("producer.transaction", name=producer, message=message)
    consumer = world.start("push", topic=world.topic)
    seen = world.wait(consumer, 2, timeout_s=40)
    assert sorted(bodies_of(seen)) == ["COMMIT_MESSAGE/UNKNOW", "UNKNOW/COMMIT_MESSAGE"]


# --- lite pull consumers -------------------------------------------------------------------------------------------


@case("lite pull consumer: subscribed")
def test_lite_pull_subscribed(world: World) -> None:
    world.create_topic()
    world.send(world.start("producer"), [str(n) for n in range(30)])
    consumer = world.start("lite", topic=world.topic, autoCommit=True)
    messages = world.java.call("lite.poll", name=consumer, count=30, timeoutMs=20_000)
    assert sorted(bodies_of(messages)) == sorted(str(n) for n in range(30))


@case("lite pull consumer: assigned, seek to the beginning, commit")
def test_lite_pull_assigned(world: World) -> None:
    world.create_topic()
    world.send(world.start("producer"), [str(n) for n in range(10)])
    consumer = world.start("lite", topic=world.topic, assign=True)
    for _ in range(2):
        world.java.call("lite.seek", name=consumer, topic=world.topic)
        messages = world.java.call("lite.poll", name=consumer, count=10, timeoutMs=20_000)
        assert sorted(bodies_of(messages)) == sorted(str(n) for n in range(10))
    world.java.call("lite.commit", name=consumer)
