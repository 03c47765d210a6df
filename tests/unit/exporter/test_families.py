"""Facts of brokers as metrics: what Apache's brokers say, in their words."""

from __future__ import annotations

from pyromq.client.consumer.base.consume_stats import TopicRates
from pyromq.client.consumer.base.running_info import HeadOfLine
from pyromq.errors import ConnectFailedError, MQError
from pyromq.exporter.facts import BrokerFacts
from pyromq.exporter.families import parts_of
from pyromq.metrics.exposition import whole_text
from pyromq.model.queue import QueueId
from pyromq.operate.measuring import MemberFacts
from pyromq.operate.sweep import BrokerProcess, BrokerTables
from pyromq.wire.json.bodies import BrokerConsumeStats, ConsumeStatsBody, QueueProgress, TopicOffset, TopicStats
from pyromq.wire.json.heartbeat import ClientConnection, ConsumerConnections
from tests.unit.metrics.grammar import ReadFamily, read_text

NOW_MS = 1_700_000_000_000


def broker(name: str = "broker-a", told: dict[str, str] | MQError | None = None, **facts: object) -> BrokerFacts:
    process = BrokerProcess(
        cluster="DefaultCluster", broker=name, number=0, address=f"10.0.0.7:{name}", time_ms=NOW_MS, told=told or {}
    )
    found = BrokerFacts(process)
    for key, value in facts.items():
        setattr(found, key, value)
    return found


def shown(*brokers: BrokerFacts) -> dict[str, ReadFamily]:
    return read_text(whole_text(parts_of(brokers, NOW_MS, {"zone": "a"})).decode())


def test_run_time_information_of_apache() -> None:
    told = {
        "putTps": "12.5 3.0 1.0",
        "getTransferedTps": "7.5 1 1",  # its spelling up to 4.x
        "commitLogDiskRatio": "0.25",
        "commitLogMinOffset": "1000",
        "commitLogMaxOffset": "5000",
        "remainHowManyDataToFlush": "12 B",
        "dispatchBehindBytes": "3",
        "sendThreadPoolQueueSize": "4",
        "pullThreadPoolQueueSize": "nonsense",
    }
    found = shown(broker(told=told))
    assert found["rocketmq_broker_tps"].value(broker="broker-a", zone="a") == 12.5
    assert found["rocketmq_broker_qps"].value() == 7.5
    assert found["rocketmq_brokeruntime_commitlog_disk_ratio"].value() == 0.25
    assert found["rocketmq_storage_size_bytes"].value(node_id="broker-a") == 4_000
    assert found["rocketmq_storage_flush_behind_bytes"].value() == 12
    watermark = found["rocketmq_processor_watermark"]
    assert (watermark.value(processor="send"), watermark.value(processor="pull")) == (4, 0)


def test_a_broker_that_is_down_is_nothing_but_down() -> None:
    found = shown(broker(), broker("broker-b", ConnectFailedError("nobody is there")))
    up = found["pyromq_exporter_broker_up"]
    assert (up.value(node_id="broker-a"), up.value(node_id="broker-b")) == (1, 0)
    assert all(dict(labels)["node_id"] != "broker-b" for _, labels in found["rocketmq_broker_tps"].samples)


def test_groups_their_lag_and_their_retries() -> None:
    queues = {
        QueueId("orders", "broker-a", 0): QueueProgress(
            broker_offset=10, consumer_offset=4, pull_offset=6, last_timestamp=NOW_MS - 5_000
        ),
        QueueId("orders", "broker-a", 1): QueueProgress(broker_offset=3, consumer_offset=9, pull_offset=0),
    }
    retries = {QueueId("%RETRY%books", "broker-a", 0): QueueProgress(broker_offset=2, consumer_offset=0)}
    books = [ConsumeStatsBody(offset_table=queues, consume_tps=2.5), ConsumeStatsBody(offset_table=retries)]
    progress = BrokerConsumeStats(consume_stats_list=[{"books": books}])
    found = shown(broker(tables=BrokerTables(topics={}, groups={}, progress=progress)))
    lag = found["rocketmq_consumer_lag_messages"]
    assert lag.value(consumer_group="books", topic="orders", is_retry="false") == 6
    assert lag.value(topic="%RETRY%books", is_retry="true") == 2
    assert found["rocketmq_consumer_inflight_messages"].value(topic="orders") == 2
    assert found["rocketmq_consumer_ready_messages"].value(topic="orders") == 4
    assert found["rocketmq_consumer_lag_latency_milliseconds"].value(topic="orders") == 5_000
    assert found["rocketmq_group_diff"].value(group="books", topic="orders") == 6
    assert found["rocketmq_group_retrydiff"].value(group="books") == 2
    assert found["rocketmq_consumer_tps"].value(topic="orders") == 2.5


def test_topics_and_dead_letters() -> None:
    def stats(topic: str, first: int, end: int) -> TopicStats:
        return TopicStats(offset_table={QueueId(topic, "broker-a", 0): TopicOffset(min_offset=first, max_offset=end)})

    topics = {"orders": stats("orders", 0, 7), "%DLQ%books": stats("%DLQ%books", 2, 5), "new": stats("new", 0, 0)}
    found = shown(broker(topics=topics, topic_rates={"orders": 0.5}))
    assert found["rocketmq_producer_offset"].value(topic="orders") == 7
    assert found["rocketmq_group_dlqdiff"].value(group="books") == 3
    assert found["pyromq_queue_messages_total"].value(topic="orders", queue_id="0") == 7
    assert found["rocketmq_producer_tps"].value(topic="orders") == 0.5


def test_members_and_what_they_say() -> None:
    members = tuple(
        ClientConnection(client_id=name, client_addr="a:1", language="JAVA", version=473) for name in ("one", "two")
    )
    heads = tuple(
        HeadOfLine(topic="orders", broker_name="b", queue_id=0, offset=1, message_id="m", age_ms=age_ms)
        for age_ms in (1_500, 500)
    )
    report = MemberFacts(
        rates={"orders": TopicRates(consume_rt=3.5, consume_ok_tps=9.0, consume_failed_tps=1.0)},
        flow={"SPAN": 4},
        heads=heads,
    )
    found = shown(
        broker(
            members={"books": ConsumerConnections(connection_set=members, disagreeing_client_ids=("two",))},
            reports={("books", "one"): report},
        )
    )
    assert found["rocketmq_consumer_connections"].value(consumer_group="books", language="java", version="473") == 2
    assert found["pyromq_subscription_mismatches"].value(consumer_group="books") == 1
    assert found["rocketmq_client_consume_rt"].value(group="books", topic="orders", clientId="one") == 3.5
    assert found["rocketmq_client_consume_ok_msg_tps"].value() == 9
    assert found["pyromq_client_flow_control"].value(case="SPAN") == 4
    assert found["pyromq_client_blocking_message_age_seconds"].value(group="books") == 1.5
