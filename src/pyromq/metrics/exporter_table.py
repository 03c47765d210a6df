"""Metrics of ``pyromq exporter``: what admin requests tell of any RocketMQ cluster.

It also has those of RocketMQ 5's names in ``broker_table`` that can be known from outside (``ALSO_EXPORTED``). Names
without a counterpart there are those of the RocketMQ exporter for 4.x, which its dashboards show.
"""

from __future__ import annotations

from typing import Final

from pyromq.metrics import broker_table as broker
from pyromq.metrics.declared import EXPORTER, Metric, MetricKind, Panel, Row, Stability

_ROCKETMQ: Final = Stability.ROCKETMQ
_BROKER: Final = ("brokerIP", "broker")
_CLIENT: Final = ("group", "topic", "clientId")
_RUNTIME: Final = "GET_BROKER_RUNTIME_INFO"
_RUNNING: Final = "GET_CONSUMER_RUNNING_INFO, asked of members through a broker"

BROKER_UP: Final = Metric(
    name="pyromq_exporter_broker_up",
    kind=MetricKind.GAUGE,
    help="1: the broker answered when it was asked last; 0: it did not, and its other series are gone.",
    source=_RUNTIME,
    labels=_BROKER,
    stability=Stability.STABLE,
    servers=EXPORTER,
    panel=Panel(Row.CLUSTER, "Brokers that answer", ("broker",)),
)
REFRESH_TIME: Final = Metric(
    name="pyromq_exporter_refresh_seconds",
    kind=MetricKind.GAUGE,
    unit="seconds",
    help="How long the last round of admin requests took.",
    source="exporter",
    servers=EXPORTER,
)
REFRESH_AGE: Final = Metric(
    name="pyromq_exporter_refresh_age_seconds",
    kind=MetricKind.GAUGE,
    unit="seconds",
    help="How long ago that was.",
    source="exporter",
    servers=EXPORTER,
    panel=Panel(Row.CLUSTER, "Age of what is shown"),
)
REFRESH_ERRORS: Final = Metric(
    name="pyromq_exporter_errors_total",
    kind=MetricKind.COUNTER,
    help="Admin requests that failed since the start.",
    source="exporter",
    labels=("request",),
    servers=EXPORTER,
    panel=Panel(Row.CLUSTER, "Failed admin requests", ("request",)),
)
BROKER_TPS: Final = Metric(
    name="rocketmq_broker_tps",
    kind=MetricKind.GAUGE,
    help="Messages that come in, in a second.",
    source=f"{_RUNTIME}: putTps",
    labels=_BROKER,
    stability=_ROCKETMQ,
    servers=EXPORTER,
    panel=Panel(Row.CLUSTER, "Messages in, by broker", ("broker",)),
)
BROKER_QPS: Final = Metric(
    name="rocketmq_broker_qps",
    kind=MetricKind.GAUGE,
    help="Messages that go out, in a second.",
    source=f"{_RUNTIME}: getTransferredTps",
    labels=_BROKER,
    stability=_ROCKETMQ,
    servers=EXPORTER,
    panel=Panel(Row.CLUSTER, "Messages out, by broker", ("broker",)),
)
DISK_RATIO: Final = Metric(
    name="rocketmq_brokeruntime_commitlog_disk_ratio",
    kind=MetricKind.GAUGE,
    help="How full the disk of the commit log is.",
    source=f"{_RUNTIME}: commitLogDiskRatio",
    labels=_BROKER,
    stability=_ROCKETMQ,
    servers=EXPORTER,
    panel=Panel(Row.CLUSTER, "Disk used, by broker", ("broker",)),
)
PRODUCER_TPS: Final = Metric(
    name="rocketmq_producer_tps",
    kind=MetricKind.GAUGE,
    help="Messages that come into a topic, in a second.",
    source="GET_TOPIC_STATS_INFO on brokers that tell, else its offsets from one round to the next",
    labels=("broker", "topic"),
    stability=_ROCKETMQ,
    servers=EXPORTER,
    panel=Panel(Row.CLUSTER, "Messages in, by topic", ("topic",)),
)
PRODUCER_OFFSET: Final = Metric(
    name="rocketmq_producer_offset",
    kind=MetricKind.GAUGE,
    help="Ends of all queues of a topic, added up.",
    source="GET_TOPIC_STATS_INFO",
    labels=("broker", "topic"),
    stability=_ROCKETMQ,
    servers=EXPORTER,
)
CONSUMER_TPS: Final = Metric(
    name="rocketmq_consumer_tps",
    kind=MetricKind.GAUGE,
    help="Messages that a group fetches from a topic, in a second.",
    source="GET_BROKER_CONSUME_STATS",
    labels=("broker", "topic", "group"),
    stability=_ROCKETMQ,
    servers=EXPORTER,
)
CONSUMER_OFFSET: Final = Metric(
    name="rocketmq_consumer_offset",
    kind=MetricKind.GAUGE,
    help="Committed offsets of a group in all queues of a topic, added up.",
    source="GET_BROKER_CONSUME_STATS",
    labels=("broker", "topic", "group"),
    stability=_ROCKETMQ,
    servers=EXPORTER,
)
GROUP_DIFF: Final = Metric(
    name="rocketmq_group_diff",
    kind=MetricKind.GAUGE,
    help="Messages that a group has not finished.",
    source="GET_BROKER_CONSUME_STATS",
    labels=("group", "topic"),
    stability=_ROCKETMQ,
    servers=EXPORTER,
)
GROUP_RETRY_DIFF: Final = Metric(
    name="rocketmq_group_retrydiff",
    kind=MetricKind.GAUGE,
    help="Messages in the retry topic of a group that it has not finished.",
    source="GET_BROKER_CONSUME_STATS",
    labels=("group", "topic"),
    stability=_ROCKETMQ,
    servers=EXPORTER,
)
GROUP_DLQ_DIFF: Final = Metric(
    name="rocketmq_group_dlqdiff",
    kind=MetricKind.GAUGE,
    help="Dead letters of a group.",
    source="GET_TOPIC_STATS_INFO of its dead-letter topic",
    labels=("group", "topic"),
    stability=_ROCKETMQ,
    servers=EXPORTER,
)
CONSUME_RT: Final = Metric(
    name="rocketmq_client_consume_rt",
    kind=MetricKind.GAUGE,
    help="How long listeners of a member take for a message, in milliseconds.",
    source=_RUNNING,
    labels=_CLIENT,
    stability=_ROCKETMQ,
    servers=EXPORTER,
    panel=Panel(Row.CLUSTER, "Time of listeners (ms)", ("group", "topic")),
)
CONSUME_OK_TPS: Final = Metric(
    name="rocketmq_client_consume_ok_msg_tps",
    kind=MetricKind.GAUGE,
    help="Messages that went well at a member, in a second.",
    source=_RUNNING,
    labels=_CLIENT,
    stability=_ROCKETMQ,
    servers=EXPORTER,
    panel=Panel(Row.CLUSTER, "Messages that went well", ("group", "topic")),
)
CONSUME_FAIL_TPS: Final = Metric(
    name="rocketmq_client_consume_fail_msg_tps",
    kind=MetricKind.GAUGE,
    help="Messages that failed at a member, in a second.",
    source=_RUNNING,
    labels=_CLIENT,
    stability=_ROCKETMQ,
    servers=EXPORTER,
    panel=Panel(Row.CLUSTER, "Messages that failed", ("group", "topic")),
)
CONSUME_FAIL_COUNT: Final = Metric(
    name="rocketmq_client_consume_fail_msg_count",
    kind=MetricKind.GAUGE,
    help="Messages that failed at a member in the last hour.",
    source=_RUNNING,
    labels=_CLIENT,
    stability=_ROCKETMQ,
    servers=EXPORTER,
)
PULL_RT: Final = Metric(
    name="rocketmq_client_consumer_pull_rt",
    kind=MetricKind.GAUGE,
    help="How long pulls of a member take, in milliseconds.",
    source=_RUNNING,
    labels=_CLIENT,
    stability=_ROCKETMQ,
    servers=EXPORTER,
)
PULL_TPS: Final = Metric(
    name="rocketmq_client_consumer_pull_tps",
    kind=MetricKind.GAUGE,
    help="Messages that a member fetches, in a second.",
    source=_RUNNING,
    labels=_CLIENT,
    stability=_ROCKETMQ,
    servers=EXPORTER,
)
CLIENT_FLOW_CONTROL: Final = Metric(
    name="pyromq_client_flow_control",
    kind=MetricKind.GAUGE,
    help="How often a member held a pull back since its start, by the rule; members that are PyroMQ's tell it.",
    source=_RUNNING,
    labels=("group", "clientId", "case"),
    servers=EXPORTER,
    panel=Panel(Row.CLUSTER, "Flow control of members", ("group", "case")),
)
CLIENT_HEAD_AGE: Final = Metric(
    name="pyromq_client_blocking_message_age_seconds",
    kind=MetricKind.GAUGE,
    unit="seconds",
    help="Age of the oldest message that a listener of a member holds; members that are PyroMQ's tell it.",
    source=_RUNNING,
    labels=("group", "clientId"),
    servers=EXPORTER,
    panel=Panel(Row.CLUSTER, "Oldest message in a listener", ("group",)),
)

EXPORTER_METRICS: Final = (
    BROKER_UP,
    REFRESH_TIME,
    REFRESH_AGE,
    REFRESH_ERRORS,
    BROKER_TPS,
    BROKER_QPS,
    DISK_RATIO,
    PRODUCER_TPS,
    PRODUCER_OFFSET,
    CONSUMER_TPS,
    CONSUMER_OFFSET,
    GROUP_DIFF,
    GROUP_RETRY_DIFF,
    GROUP_DLQ_DIFF,
    CONSUME_RT,
    CONSUME_OK_TPS,
    CONSUME_FAIL_TPS,
    CONSUME_FAIL_COUNT,
    PULL_RT,
    PULL_TPS,
    CLIENT_FLOW_CONTROL,
    CLIENT_HEAD_AGE,
)
ALSO_EXPORTED: Final = (  # of a broker's metrics
    broker.TOPIC_NUMBER,
    broker.GROUP_NUMBER,
    broker.PROCESSOR_WATERMARK,
    broker.STORAGE_SIZE,
    broker.FLUSH_BEHIND,
    broker.DISPATCH_BEHIND,
    broker.QUEUE_MESSAGES,
    broker.LAG_MESSAGES,
    broker.LAG_LATENCY,
    broker.INFLIGHT_MESSAGES,
    broker.READY_MESSAGES,
    broker.CONSUMER_CONNECTIONS,
    broker.SUBSCRIPTION_MISMATCHES,
)
