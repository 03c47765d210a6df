"""Apache's admin client and mqadmin against its own servers and against ours."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interop.driver import DriverError
from interop.drivers import Drivers
from interop.jars import Jars
from interop.mqadmin import run_mqadmin
from interop.tests import conftest
from interop.world import Cluster, Member, World, until
from pyromq import Admin

SECTION = "Java admin tools × servers"


def case(name: str) -> pytest.MarkDecorator:
    return conftest.case(name, SECTION)


class AdminWorld(World):
    """With an admin client, a topic and ten messages in it."""

    def __init__(self, drivers: Drivers, cluster: Cluster) -> None:
        super().__init__(drivers.get("java"), cluster, drivers)
        self.create_topic()
        self.admin = self.start("admin")
        self.producer = self.start("producer")
        self.sent: list[dict[str, Any]] = []
        for n in range(10):
            self.sent += self.send(self.producer, [f"m{n}"], keys=f"key-{n} all", tags="TagA")

    def ask(self, call: str, **arguments: Any) -> Any:
        arguments = {"broker": self.cluster.broker, "topic": self.topic, "group": self.group} | arguments
        return self.admin.call(call, **arguments)

    def find(self, call: str, key: str, count: int) -> list[dict[str, Any]]:
        """What the broker finds when its index has caught up with its log."""
        found: list[dict[str, Any]] = []

        def is_there() -> bool:
            try:
                found[:] = self.ask(call, key=key)
            except DriverError:  # that is how the client says that there is nothing
                return False
            return len(found) >= count

        until(is_there, what=f"{key} is found")
        return found

    def consume(self) -> Member:
        consumer = self.push()
        assert len(consumer.wait(10)) == 10
        return consumer


@pytest.fixture
def world(drivers: Drivers, cluster: Cluster) -> Iterator[AdminWorld]:
    each = AdminWorld(drivers, cluster)
    yield each
    each.close()


@case("topic: config, route, cluster")
def test_topic_and_route(world: AdminWorld) -> None:
    config = world.ask("topic")
    assert (config["topicName"], config["readQueueNums"], config["writeQueueNums"]) == (world.topic, 4, 4)
    route = world.ask("route")
    assert [queue["brokerName"] for queue in route["queueDatas"]] == ["broker-a"]
    assert route["brokerDatas"][0]["brokerAddrs"] == {"0": world.cluster.broker}
    assert "broker-a" in world.ask("cluster")["brokerAddrTable"]


@case("topic: statistics and offsets")
def test_topic_stats(world: AdminWorld) -> None:
    stats = world.ask("topicStats")
    assert sorted(stats) == ["0", "1", "2", "3"]
    assert sum(queue["max"] - queue["min"] for queue in stats.values()) == 10
    queue = {"brokerName": "broker-a", "queueId": world.sent[0]["queueId"]}
    end = stats[str(queue["queueId"])]["max"]
    assert (world.ask("minOffset", **queue), world.ask("maxOffset", **queue)) == (0, end)
    assert world.ask("searchOffset", timestamp=1, **queue) == 0
    assert world.ask("searchOffset", timestamp=int(time.time() * 1000) + 60_000, **queue) == end
    assert world.ask("earliest", **queue) > 1_700_000_000_000


@case("topic: deleted")
def test_delete_topic(world: AdminWorld) -> None:
    world.ask("deleteTopic", nameserver=world.cluster.nameserver)
    assert world.topic not in world.ask("topics")
    with pytest.raises(DriverError):
        world.ask("topic")


@case("message: by offset id")
def test_view_message(world: AdminWorld) -> None:
    viewed = world.ask("viewMessage", msgId=world.sent[3]["offsetMsgId"])
    assert (viewed["body"], viewed["keys"], viewed["tags"]) == ("m3", "key-3 all", "TagA")


@case("message: by unique id")
def test_view_by_unique_id(world: AdminWorld) -> None:
    found = world.find("queryByUniqueKey", world.sent[4]["msgId"], 1)
    assert [message["body"] for message in found] == ["m4"]


@case("message: by key")
def test_query_by_key(world: AdminWorld) -> None:
    assert [message["body"] for message in world.find("queryByKey", "key-5", 1)] == ["m5"]
    assert len(world.find("queryByKey", "all", 10)) == 10


@case("group: create, read")
def test_group(world: AdminWorld) -> None:
    world.ask("createGroup", retryMax=3)
    assert world.ask("group")["retryMaxTimes"] == 3


@case("group: progress, connections, running info")
def test_progress(world: AdminWorld) -> None:
    world.consume()

    def is_all_committed() -> bool:
        progress = {name: queue for name, queue in world.ask("progress").items() if name.startswith(world.topic)}
        ends = [(queue["broker"], queue["consumer"]) for queue in progress.values()]
        # Apache tells of queues with a committed offset only
        return sum(end for end, _ in ends) == 10 and all(end == committed for end, committed in ends)

    until(is_all_committed, what="a commit")  # a client commits for the first time after ten seconds
    connections = world.ask("consumers")
    (client,) = connections["connectionSet"]
    assert client["language"] == "JAVA" and world.topic in connections["subscriptionTable"]
    info = world.ask("runningInfo", clientId=client["clientId"])
    assert info["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    assert world.ask("whoConsumes") == [world.group]


@case("group: producers")
def test_producers(world: AdminWorld) -> None:
    told: list[dict[str, Any]] = []

    def is_known() -> bool:
        try:
            told[:] = world.ask("producers")["connectionSet"]
        except DriverError:  # no heartbeat of the group was heard yet
            return False
        return bool(told)

    until(is_known, what="a heartbeat of the producer")
    (client,) = told
    assert client["language"] == "JAVA"


@case("group: reset offsets while it consumes")
def test_reset(world: AdminWorld) -> None:
    consumer = world.consume()
    time.sleep(2)
    offsets = world.ask("resetOffset", timestamp=1)
    assert set(offsets.values()) == {0}
    assert len(consumer.wait(20, timeout_s=40)) >= 20


@case("broker: runtime info and config")
def test_broker(world: AdminWorld) -> None:
    runtime = world.ask("runtime")
    for name in ("brokerVersionDesc", "bootTimestamp", "putTps", "msgPutTotalTodayNow", "commitLogMaxOffset"):
        assert name in runtime, name
    assert world.ask("brokerConfig")["brokerName"] == "broker-a"


@case("name server: key-value config")
def test_kv(world: AdminWorld) -> None:
    world.ask("putKv", namespace="interop", key="k", value="v")
    assert world.ask("getKv", namespace="interop", key="k") == "v"


MQADMIN: list[tuple[str, list[str], str]] = [
    ("clusterList", [], "broker-a"),
    ("topicList", [], "{topic}"),
    ("topicStatus", ["-t", "{topic}"], "broker-a"),
    ("updateTopic", ["-b", "{broker}", "-t", "{topic}", "-r", "6", "-w", "6"], "success"),
    ("updateSubGroup", ["-b", "{broker}", "-g", "{group}"], "success"),
    ("brokerStatus", ["-b", "{broker}"], "putTps"),
    ("consumerProgress", ["-g", "{group}"], "Consume TPS"),
    ("consumerConnection", ["-g", "{group}"], "JAVA"),
    ("consumerStatus", ["-g", "{group}"], "Rebalance OK"),
    ("queryMsgById", ["-t", "{topic}", "-i", "{offset_id}"], "OffsetID"),
    ("queryMsgByKey", ["-t", "{topic}", "-k", "key-1"], "{unique_id_1}"),
    ("queryMsgByUniqueKey", ["-t", "{topic}", "-i", "{unique_id_1}"], "key-1"),
    ("queryMsgByOffset", ["-t", "{topic}", "-b", "broker-a", "-i", "{queue}", "-o", "0"], "OffsetID"),
    ("printMsg", ["-t", "{topic}"], "m9"),
    ("deleteTopic", ["-c", "DefaultCluster", "-t", "{topic}"], "success"),
]


@pytest.fixture(scope="module")
def used_world(drivers: Drivers, cluster: Cluster) -> Iterator[AdminWorld]:
    each = AdminWorld(drivers, cluster)
    each.consume()
    time.sleep(2.5)
    yield each
    each.close()


@case("mqadmin {command}")
@pytest.mark.parametrize(("command", "args", "expected"), MQADMIN, ids=[each[0] for each in MQADMIN])
def test_mqadmin(
    used_world: AdminWorld, jars: Jars, tmp_path: Path, command: str, args: list[str], expected: str
) -> None:
    world = used_world
    values = {
        "topic": world.topic,
        "group": world.group,
        "broker": world.cluster.broker,
        "offset_id": world.sent[0]["offsetMsgId"],
        "unique_id_1": world.sent[1]["msgId"],
        "queue": str(world.sent[0]["queueId"]),
    }
    given = [each.format(**values) for each in args]
    printed = run_mqadmin(jars, tmp_path, command, *given, "-n", world.cluster.nameserver)
    assert expected.format(**values) in printed, f"{command} printed: {printed[:600]}"
    assert "Exception" not in printed, f"{command} printed: {printed[:600]}"


@case("direct consumption: PyroMQ's Admin, a member in Java")
def test_a_java_member_consumes_directly(world: AdminWorld) -> None:
    consumer, sent = world.consume(), world.sent[3]
    with Admin(world.cluster.nameserver) as admin:
        done = admin.members.consume_directly(world.group, sent["msgId"], topic=world.topic)
    assert (done.outcome, done.is_consumed, done.message_id) == ("success", True, sent["msgId"])
    assert [each["body"] for each in consumer.wait(11)].count("m3") == 2
