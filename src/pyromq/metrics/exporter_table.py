"""Metrics of ``pyromq exporter``: what admin requests report about any RocketMQ cluster.

It also has those of RocketMQ 5's names in ``broker_table`` that can be known from outside (``ALSO_EXPORTED``). Names
without a counterpart there are those of the RocketMQ exporter for 4.x, which its dashboards show.
"""

from __future__ import annotations

from typing import Final

from pyromq.metrics import broker_table as broker
from pyromq.metrics.declared import EXPORTER, Declarations, Metric, Stability

_BROKER: Final = ("brokerIP", "broker")
_CLIENT: Final = ("group", "topic", "clientId")
_RUNTIME: Final = "GET_BROKER_RUNTIME_INFO"
_RUNNING: Final = "GET_CONSUMER_RUNNING_INFO, asked of members through a broker"

_METRICS: Final[list[Metric]] = []
_rocketmq: Final = Declarations(_METRICS, Stability.ROCKETMQ, EXPORTER)
_stable: Final = Declarations(_METRICS, Stability.STABLE, EXPORTER)
_new: Final = Declarations(_METRICS, Stability.NEW, EXPORTER)

BROKER_UP: Final = _stable.gauge(
    "pyromq_exporter_broker_up",
    "1: the broker answered when it was asked last; 0: it did not, and its other series are gone.",
    _RUNTIME,
    _BROKER,
)
REFRESH_TIME: Final = _new.gauge(
    "pyromq_exporter_refresh_seconds", "How long the last round of admin requests took.", "exporter", unit="seconds"
)
REFRESH_AGE: Final = _new.gauge(
    "pyromq_exporter_refresh_age_seconds", "How long ago that was.", "exporter", unit="seconds"
)
REFRESH_ERRORS: Final = _new.counter(
    "pyromq_exporter_errors_total", "Admin requests that failed since the start.", "exporter", ("request",)
)
BROKER_TPS: Final = _rocketmq.gauge(
    "rocketmq_broker_tps", "Messages that come in, in a second.", f"{_RUNTIME}: putTps", _BROKER
)
BROKER_QPS: Final = _rocketmq.gauge(
    "rocketmq_broker_qps", "Messages that go out, in a second.", f"{_RUNTIME}: getTransferredTps", _BROKER
)
DISK_RATIO: Final = _rocketmq.gauge(
    "rocketmq_brokeruntime_commitlog_disk_ratio",
    "How full the disk of the commit log is.",
    f"{_RUNTIME}: commitLogDiskRatio",
    _BROKER,
)
PRODUCER_TPS: Final = _rocketmq.gauge(
    "rocketmq_producer_tps",
    "Messages that come into a topic, in a second.",
    "GET_TOPIC_STATS_INFO on brokers that tell, else its offsets from one round to the next",
    ("broker", "topic"),
)
PRODUCER_OFFSET: Final = _rocketmq.gauge(
    "rocketmq_producer_offset", "Ends of all queues of a topic, added up.", "GET_TOPIC_STATS_INFO", ("broker", "topic")
)
CONSUMER_TPS: Final = _rocketmq.gauge(
    "rocketmq_consumer_tps",
    "Messages that a group fetches from a topic, in a second.",
    "GET_BROKER_CONSUME_STATS",
    ("broker", "topic", "group"),
)
CONSUMER_OFFSET: Final = _rocketmq.gauge(
    "rocketmq_consumer_offset",
    "Committed offsets of a group in all queues of a topic, added up.",
    "GET_BROKER_CONSUME_STATS",
    ("broker", "topic", "group"),
)
GROUP_DIFF: Final = _rocketmq.gauge(
    "rocketmq_group_diff", "Messages that a group has not finished.", "GET_BROKER_CONSUME_STATS", ("group", "topic")
)
GROUP_RETRY_DIFF: Final = _rocketmq.gauge(
    "rocketmq_group_retrydiff",
    "Messages in the retry topic of a group that it has not finished.",
    "GET_BROKER_CONSUME_STATS",
    ("group", "topic"),
)
GROUP_DLQ_DIFF: Final = _rocketmq.gauge(
    "rocketmq_group_dlqdiff",
    "Dead letters of a group.",
    "GET_TOPIC_STATS_INFO of its dead-letter topic",
    ("group", "topic"),
)
CONSUME_RT: Final = _rocketmq.gauge(
    "rocketmq_client_consume_rt",
    "How long listeners of a member take for a message, in milliseconds.",
    _RUNNING,
    _CLIENT,
)
CONSUME_OK_TPS: Final = _rocketmq.gauge(
    "rocketmq_client_consume_ok_msg_tps", "Messages that went well at a member, in a second.", _RUNNING, _CLIENT
)
CONSUME_FAIL_TPS: Final = _rocketmq.gauge(
    "rocketmq_client_consume_fail_msg_tps", "Messages that failed at a member, in a second.", _RUNNING, _CLIENT
)
CONSUME_FAIL_COUNT: Final = _rocketmq.gauge(
    "rocketmq_client_consume_fail_msg_count", "Messages that failed at a member in the last hour.", _RUNNING, _CLIENT
)
PULL_RT: Final = _rocketmq.gauge(
    "rocketmq_client_consumer_pull_rt", "How long pulls of a member take, in milliseconds.", _RUNNING, _CLIENT
)
PULL_TPS: Final = _rocketmq.gauge(
    "rocketmq_client_consumer_pull_tps", "Messages that a member fetches, in a second.", _RUNNING, _CLIENT
)
CLIENT_FLOW_CONTROL: Final = _new.gauge(
    "pyromq_client_flow_control",
    "How often a member held a pull back since its start, by the rule; members that are PyroMQ's tell it.",
    _RUNNING,
    ("group", "clientId", "case"),
)
CLIENT_HEAD_AGE: Final = _new.gauge(
    "pyromq_client_blocking_message_age_seconds",
    "Age of the oldest message that a listener of a member holds; members that are PyroMQ's tell it.",
    _RUNNING,
    ("group", "clientId"),
    unit="seconds",
)

_REPORTS: Final = "reports of streaming queries on this machine"
_QUERY: Final = ("query", "consumer_group")
_QUERY_QUEUE: Final = (*_QUERY, "topic", "broker", "queue_id")
QUERY_RUNNING: Final = _new.gauge(
    "pyromq_query_running", "1 while a Spark query runs, 0 after its end.", _REPORTS, _QUERY
)
QUERY_REPORT_AGE: Final = _new.gauge(
    "pyromq_query_report_age_seconds",
    "How long ago a Spark query finished a batch, or ended.",
    _REPORTS,
    _QUERY,
    unit="seconds",
)
QUERY_ROWS: Final = _new.counter(
    "pyromq_query_rows_total", "Rows that a Spark query has read since its process began.", _REPORTS, _QUERY
)
QUERY_ROW_RATE: Final = _new.gauge(
    "pyromq_query_rows_per_second", "Rows that a Spark query read in a second of its last batch.", _REPORTS, _QUERY
)
QUERY_BATCH_TIME: Final = _new.gauge(
    "pyromq_query_batch_seconds", "How long the last batch of a Spark query took.", _REPORTS, _QUERY, unit="seconds"
)
QUERY_LAG: Final = _new.gauge(
    "pyromq_query_lag_messages", "Messages that a Spark query had not read after its last batch.", _REPORTS, _QUERY
)
QUERY_QUEUE_LAG: Final = _new.gauge(
    "pyromq_query_queue_lag_messages",
    "Messages of a queue that a Spark query had not read after its last batch; the 1000 queues that are most behind.",
    _REPORTS,
    _QUERY_QUEUE,
)
QUERY_QUEUE_MESSAGES: Final = _new.counter(
    "pyromq_query_queue_messages_total",
    "Messages of a queue that a Spark query has got past: the offset at which it goes on; likewise.",
    _REPORTS,
    _QUERY_QUEUE,
)

EXPORTER_METRICS: Final = tuple(_METRICS)
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
