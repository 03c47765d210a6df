"""Every client with every server: the same cases, the same expectations."""

from __future__ import annotations

import itertools
import time
from collections import defaultdict

import pytest

from interop.driver import DriverError
from interop.tests.conftest import case
from interop.world import World, bodies_of, numbers, until

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
    results = world.send(world.start("producer"), numbers(50), "async")
    assert [result["status"] for result in results] == ["SEND_OK"] * 50
    assert len({(result["queueId"], result["offset"]) for result in results}) == 50


@case("producer: batch")
def test_sends_a_batch(world: World) -> None:
    world.create_topic()
    (result,) = world.send(world.start("producer"), numbers(10), "batch", keys="kb")
    assert result["status"] == "SEND_OK" and len(result["offsetMsgId"].split(",")) == 10
    assert sorted(bodies_of(world.push().wait(10))) == numbers(10)


@case("producer: oneway")
def test_sends_oneway(world: World) -> None:
    world.create_topic()
    world.send(world.start("producer"), ["x", "y", "z"], "oneway")
    assert sorted(bodies_of(world.push().wait(3))) == ["x", "y", "z"]


@case("producer: compressed bodies")
def test_sends_compressed(world: World) -> None:
    world.create_topic()
    text = "compressible " * 400
    world.send(world.start("producer", compressOver=100), [text])
    assert bodies_of(world.push().wait(1)) == [text]


@case("producer: to a queue of its choice")
def test_sends_to_a_chosen_queue(world: World) -> None:
    world.create_topic()
    message = {"topic": world.topic, "body": "x"}
    producer = world.start("producer")
    results = [producer.call("send", mode="queue", messages=[message], broker="broker-a", queueId=2) for _ in range(3)]
    assert [(result["queueId"], result["offset"]) for (result,) in results] == [(2, 0), (2, 1), (2, 2)]


@case("producer: through the VIP port")
def test_sends_through_the_vip_port(world: World) -> None:
    world.create_topic()
    (result,) = world.send(world.start("producer", vip=True), ["x"])
    assert result["status"] == "SEND_OK"


@case("producer: refused, message too large")
def test_is_refused_when_too_large(world: World) -> None:
    world.create_topic()
    with pytest.raises(DriverError) as caught:
        world.send(world.start("producer", compressOver=1 << 30), ["x" * 70_000])
    assert caught.value.code == 13


@case("producer: request and reply")
def test_requests_are_replied_to(world: World) -> None:
    world.create_topic()
    consumer = world.push(reply=True)
    producer = world.start("producer", group=f"{world.group}-p")
    time.sleep(2)
    message = {"topic": world.topic, "body": "ping"}
    assert producer.call("request", message=message, timeoutMs=15_000) == "reply to ping"
    assert bodies_of(consumer.wait(1)) == ["ping"]


# --- push consumers ------------------------------------------------------------------------------------------------


@case("push consumer: concurrent, all fields")
def test_consumes_what_was_sent(world: World) -> None:
    world.create_topic()
    producer = world.start("producer")
    results = world.send(producer, numbers(40), tags="TagA", keys="k", properties={"color": "blue"})
    seen = world.push().wait(40)
    assert sorted(bodies_of(seen)) == numbers(40)
    by_id = {message["msgId"]: message for message in seen}
    for result in results:
        message = by_id[result["msgId"]]
        assert (message["queueId"], message["offset"]) == (result["queueId"], result["offset"])
        assert message["offsetMsgId"] == result["offsetMsgId"]
        assert (message["tags"], message["keys"].strip(), message["reconsumeTimes"]) == ("TagA", "k", 0)
        assert message["properties"]["color"] == "blue"


@case("push consumer: a message sent while it waits arrives at once")
def test_a_waiting_consumer_is_woken(world: World) -> None:
    world.create_topic()
    producer, consumer = world.start("producer"), world.push()
    world.send(producer, ["first"])
    consumer.wait(1)
    time.sleep(1)
    world.send(producer, ["second"])
    seen = consumer.wait(2)
    assert bodies_of(seen) == ["first", "second"]
    assert seen[1]["at"] - seen[1]["storeTimestamp"] < 5_000  # a pull that is not woken waits fifteen seconds


@case("push consumer: tags")
def test_only_wanted_tags_arrive(world: World) -> None:
    world.create_topic()
    producer = world.start("producer")
    for tag in "ABC":
        world.send(producer, [f"{tag}{n}" for n in range(5)], tags=f"Tag{tag}")
    consumer = world.push(tags="TagA || TagC")
    wanted = sorted([f"A{n}" for n in range(5)] + [f"C{n}" for n in range(5)])
    assert sorted(bodies_of(consumer.wait(10))) == wanted
    assert len(consumer.wait(11, timeout_s=1)) == 10


@case("push consumer: orderly, by selector")
def test_ordered_messages_keep_their_order(world: World) -> None:
    world.create_topic()
    messages = [{"topic": world.topic, "body": f"{n % 4}-{n:03}", "shard": n % 4} for n in range(80)]
    world.start("producer").call("send", mode="ordered", messages=messages)
    by_shard: dict[str, list[str]] = defaultdict(list)
    for body in bodies_of(world.push(orderly=True).wait(80)):
        by_shard[body[0]].append(body)
    assert {shard: len(found) for shard, found in by_shard.items()} == {str(n): 20 for n in range(4)}
    assert all(found == sorted(found) for found in by_shard.values())


@case("push consumer: orderly, a failing message holds its queue")
def test_an_orderly_failure_is_retried_in_place(world: World) -> None:
    world.create_topic(queues=1)
    world.send(world.start("producer"), ["1", "2"])
    seen = world.push(orderly=True, failTimes=2).wait(6)
    assert bodies_of(seen) == ["1", "1", "1", "2", "2", "2"]


@case("push consumer: broadcasting reaches every member")
def test_broadcasting(world: World) -> None:
    world.create_topic()
    consumers = [world.push(broadcasting=True) for _ in range(2)]
    world.send(world.start("producer"), numbers(8))
    for consumer in consumers:
        assert sorted(bodies_of(consumer.wait(8))) == numbers(8)


@case("push consumer: two members share the queues")
def test_members_share(world: World) -> None:
    world.create_topic()
    producer, consumers = world.start("producer"), [world.push() for _ in range(2)]
    world.settle(producer, consumers)
    world.send(producer, numbers(40))
    until(lambda: sum(len(bodies_of(each.wait(0))) for each in consumers) >= 40, what="the last of 40 messages")
    seen = [bodies_of(each.wait(0)) for each in consumers]
    assert all(seen), f"one of them got nothing: {[len(each) for each in seen]}"
    assert sorted(itertools.chain(*seen)) == numbers(40)


@case("push consumer: when a member leaves, the others get its queues")
def test_a_member_leaves(world: World) -> None:
    world.create_topic()
    producer, leaving, staying = world.start("producer"), world.push(), world.push()
    world.settle(producer, [leaving, staying])
    world.stop(leaving)
    before = len(staying.wait(0))
    world.send(producer, numbers(40))
    assert sorted(bodies_of(staying.wait(before + 40))) == numbers(40)


@case("push consumer: goes on where the group stopped")
def test_progress_is_kept(world: World) -> None:
    world.create_topic()
    producer = world.start("producer")
    world.send(producer, ["1", "2", "3"])
    first = world.push()
    first.wait(3)
    time.sleep(0.5)
    world.stop(first)
    world.send(producer, ["4", "5"])
    second = world.push()
    assert sorted(bodies_of(second.wait(2))) == ["4", "5"]
    assert len(second.wait(3, timeout_s=1)) == 2


@case("push consumer: a new group starts at the end (ours), or at the beginning of a young queue (others)")
def test_starts_at_the_end(world: World) -> None:
    world.create_topic()
    producer = world.start("producer")
    world.send(producer, numbers(8))
    consumer = world.push(**{"from": "CONSUME_FROM_LAST_OFFSET"})
    if world.client.language != "pyromq":
        assert sorted(bodies_of(consumer.wait(8))) == numbers(8)
        return
    world.send(producer, numbers(4, start=8))  # ours asks brokers not to do that: the end is the end
    assert sorted(bodies_of(consumer.wait(4))) == numbers(4, start=8)
    assert len(consumer.wait(5, timeout_s=1)) == 4


# --- pull consumers ------------------------------------------------------------------------------------------------


@case("pull consumer: subscribed")
def test_lite_pull_subscribed(world: World) -> None:
    world.create_topic()
    world.send(world.start("producer"), numbers(30))
    consumer = world.start("lite", topic=world.topic, autoCommit=True)
    assert sorted(bodies_of(consumer.poll(30))) == numbers(30)


@case("pull consumer: tags")
def test_lite_pull_tags(world: World) -> None:
    world.create_topic()
    producer = world.start("producer")
    for tag in "AB":
        world.send(producer, [f"{tag}{n}" for n in range(5)], tags=f"Tag{tag}")
    consumer = world.start("lite", topic=world.topic, tags="TagB", autoCommit=True)
    assert sorted(bodies_of(consumer.poll(5))) == [f"B{n}" for n in range(5)]
    assert consumer.poll(1, timeout_s=1) == []


@case("pull consumer: assigned, seek to the beginning and to an offset")
def test_lite_pull_assigned(world: World) -> None:
    world.create_topic()
    results = world.send(world.start("producer"), numbers(12))
    consumer = world.start("lite", topic=world.topic, assign=True)
    for _ in range(2):
        consumer.call("seek", topic=world.topic)
        assert sorted(bodies_of(consumer.poll(12))) == numbers(12)
    queue = results[0]["queueId"]
    last = max(result["offset"] for result in results if result["queueId"] == queue)
    consumer.call("seek", topic=world.topic, queueId=queue, offset=last)
    (again,) = consumer.poll(1)
    assert (again["queueId"], again["offset"]) == (queue, last)


@case("pull consumer: what was committed is not read again, the rest is")
def test_lite_pull_commits(world: World) -> None:
    world.create_topic()
    producer = world.start("producer")
    world.send(producer, numbers(12))
    first = world.start("lite", topic=world.topic, assign=True)
    first.call("seek", topic=world.topic)
    assert len(first.poll(12)) == 12
    first.call("commit")
    time.sleep(0.5)
    world.send(producer, numbers(8, start=12))
    first.poll(8)
    world.stop(first)
    second = world.start("lite", topic=world.topic, assign=True)
    assert sorted(bodies_of(second.poll(8))) == numbers(8, start=12)
    assert second.poll(1, timeout_s=1) == []
