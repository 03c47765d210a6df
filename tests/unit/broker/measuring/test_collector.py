"""Metrics of a broker at work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from pyromq import Admin, Message, Producer, PullConsumer, PushConsumer
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.broker import Broker
from pyromq.errors import MQError
from pyromq.metrics.broker_table import BROKER_METRICS
from pyromq.metrics.process_table import SERVER_METRICS
from pyromq.results import ConsumeStatus
from pyromq.testing import LoopbackBroker
from tests.unit.broker.measuring.collected import metrics_at, parts_of


@pytest.fixture
def loopback() -> Iterator[LoopbackBroker]:
    with LoopbackBroker(virtual_time=True, sockets=False) as broker:
        yield broker


def send(loopback: LoopbackBroker, topic: str, count: int, body: bytes = b"x") -> None:
    with Producer(loopback.nameserver, group="shop") as producer:
        for _ in range(count):
            producer.send(Message(topic, body))


def test_every_metric_that_is_told_is_declared_for_a_broker(loopback: LoopbackBroker) -> None:
    declared = {metric.text_name for metric in (*BROKER_METRICS, *SERVER_METRICS)}
    assert set(metrics_at(loopback)) <= declared


def test_messages_in_by_topic_and_queue(loopback: LoopbackBroker) -> None:
    metrics_at(loopback)  # sizes are counted from here on
    send(loopback, "orders", 5)
    send(loopback, "orders", 1, Random(1).randbytes(5_000))
    loopback.advance(seconds=5)  # entries are written a moment later
    found = metrics_at(loopback)
    assert found["rocketmq_messages_in_total"].value(topic="orders", message_type="normal", is_system="false") == 6
    in_bytes = found["rocketmq_throughput_in_total"].value(topic="orders")
    queues = [value for (_, labels), value in found["pyromq_queue_messages_total"].samples.items()]
    assert sum(queues) == 6
    sizes = found["rocketmq_message_size"]
    assert sizes.value(topic="orders", le="1024.0") == 5 and sizes.value(topic="orders", le="524288.0") == 6
    assert sizes.samples[next(key for key in sizes.samples if key[0].endswith("_sum"))] == in_bytes
    latency = found["rocketmq_rpc_latency_milliseconds"]
    assert latency.value(request_code="send_message_v2", response_code="success", le="+Inf") == 6
    assert found["pyromq_group_commit_messages"].value(le="1.0") >= 6
    assert found["pyromq_fsync_seconds"].value(le="+Inf") >= 6


def test_lag_of_a_group_and_what_it_has_finished(loopback: LoopbackBroker) -> None:
    send(loopback, "orders", 4)
    with PullConsumer(loopback.nameserver, group="books", topics="orders", start="earliest") as consumer:
        got = consumer.poll(timeout_ms=30_000)
        assert got
        consumer.commit()
        metrics_at(loopback)
        while len(got) < 4:
            got += consumer.poll(timeout_ms=30_000)
        consumer.commit()
        found = metrics_at(loopback)
        assert found["rocketmq_consumer_lag_messages"].value(consumer_group="books", topic="orders") == 0
        assert found["pyromq_finished_messages_total"].value(consumer_group="books", topic="orders") <= 3
        assert found["rocketmq_messages_out_total"].value(consumer_group="books", topic="orders") >= 4
    send(loopback, "orders", 3)
    loopback.advance(seconds=30)
    found = metrics_at(loopback)
    lag = sum(
        value
        for (_, labels), value in found["rocketmq_consumer_lag_messages"].samples.items()
        if dict(labels)["consumer_group"] == "books" and dict(labels)["topic"] == "orders"
    )
    assert lag > 0
    ages = found["rocketmq_consumer_lag_latency_milliseconds"]
    assert ages.value(consumer_group="books", topic="orders") >= 30_000
    ready = found["rocketmq_consumer_ready_messages"].value(consumer_group="books", topic="orders")
    in_flight = found["rocketmq_consumer_inflight_messages"].value(consumer_group="books", topic="orders")
    assert ready + in_flight == lag
    worst = found["pyromq_consumer_queue_lag_messages"]
    assert sum(worst.samples.values()) == lag


def test_failed_messages_and_dead_letters_by_the_topic_they_were_sent_to() -> None:
    with LoopbackBroker(virtual_time=True, sockets=False, delay_levels_ms=(20,) * 18) as loopback:
        with PushConsumer(
            loopback.nameserver,
            group="books",
            topics="orders",
            listener=lambda message: ConsumeStatus.RETRY,
            start="earliest",
            attempts_max=1,
        ):
            send(loopback, "orders", 1)
            loopback.advance(minutes=2)
            found = metrics_at(loopback)
            assert found["pyromq_send_back_messages_total"].value(consumer_group="books", topic="orders") >= 1
            assert found["rocketmq_send_to_dlq_messages_total"].value(consumer_group="books", topic="orders") == 1
            letters = found["pyromq_dead_letters"]
            assert letters.value(consumer_group="books", state="left") == 1
            assert found["rocketmq_consumer_connections"].value(consumer_group="books", consume_mode="push") == 1
            with Admin(loopback.nameserver) as admin:
                admin.dead_letters.redrive("books")
            loopback.advance(seconds=5)
            again = metrics_at(loopback)["pyromq_dead_letters"]
            assert again.value(consumer_group="books", state="redriven") == 1


def test_connected_producers(loopback: LoopbackBroker) -> None:
    with Producer(loopback.nameserver, group="shop") as producer:
        producer.send(Message("orders", b"x"))
        loopback.advance(seconds=31)
        assert metrics_at(loopback)["rocketmq_producer_connections"].value(protocol_type="remoting") == 1


def test_refusals_by_reason_and_names_that_nobody_has(loopback: LoopbackBroker) -> None:
    loopback._on_loop(lambda: setattr(loopback.broker.settings, "auto_create_topics", False))
    with Producer(loopback.nameserver, group="shop") as producer, pytest.raises(MQError):
        producer.send(Message("nowhere", b"x"))
    send(loopback, "TBW102", 0)
    with Admin(loopback.nameserver) as admin, pytest.raises(MQError):
        admin.topics.create("not a name")
    found = metrics_at(loopback)
    if "pyromq_refused_sends_total" in found:  # the route may have refused it before
        assert not any("nowhere" in str(labels) for labels in found["pyromq_refused_sends_total"].samples)
    assert found["pyromq_flow_control_total"].value(case="PC_SYNCHRONIZED") == 0
    assert len(found["pyromq_flow_control_total"].samples) == 5


def test_topics_deleted_in_the_middle_of_a_collection(loopback: LoopbackBroker) -> None:
    for number in range(70):
        send(loopback, f"t{number}", 1)
    loopback._on_loop(
        lambda: [loopback.broker.parts.tables.progress.commit("books", f"t{number}", 0, 0) for number in range(70)]
    )

    def collect_and_delete() -> int:
        broker, steps, count = loopback.broker, loopback.broker.collect(), 0
        names = [f"t{number}" for number in range(70)]
        while True:
            try:
                next(steps)
                count += 1
            except StopIteration:
                return count
            if names:
                name = names.pop()
                broker.parts.tables.progress.forget_topic(name)
                broker.store.delete_topic(name)
                broker.parts.tables.topics.delete(name)

    assert loopback._on_loop(collect_and_delete) > 10
    assert metrics_at(loopback)["rocketmq_topic_number"].value() >= 0


def test_a_broker_that_does_not_serve_has_no_metrics(loopback: LoopbackBroker) -> None:
    new = loopback._on_loop(lambda: Broker(BrokerSettings(port=0), Path("/nowhere")))
    assert parts_of(new) == [] and not new.startup().is_done
    assert "new: nothing is open yet" in new.health().reasons[0]


def test_a_broker_that_stops_in_the_middle_of_a_collection_has_none_either(loopback: LoopbackBroker) -> None:
    send(loopback, "orders", 3)

    def collect() -> object:
        steps = loopback.broker.collect()
        next(steps)
        loopback.broker.tenure._is_ending = True
        try:
            next(steps)
        except StopIteration as end:
            return end.value
        finally:
            loopback.broker.tenure._is_ending = False
        return "it went on"

    assert loopback._on_loop(collect) == []
