"""Panels of the dashboard, by metric."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from pyromq.metrics import broker_table as broker
from pyromq.metrics import exporter_table as exporter
from pyromq.metrics import process_table as process
from pyromq.metrics.declared import Metric


class Row(Enum):
    """Rows of the dashboard, in their order."""

    OVERVIEW = "Overview"
    TRAFFIC = "Messages in and out"
    GROUPS = "Consumer groups"
    REQUESTS = "Requests and refusals"
    STORE = "Store and disk"
    REPLICATION = "Replication"
    LOOP = "Event loop and process"
    WAITING = "Delays and transactions"
    CLIENTS = "Clients"
    CLUSTER = "Cluster (exporter)"


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel of the dashboard: ``by`` are the labels that distinguish its lines."""

    row: Row
    title: str
    by: tuple[str, ...] = ()
    quantile: float = 0.99  # of histograms


PANELS: Final[dict[Metric, Panel]] = {
    process.BUILD_INFO: Panel(Row.OVERVIEW, "Version", ("version", "python", "core")),
    process.UPTIME: Panel(Row.OVERVIEW, "Uptime"),
    process.MEMORY: Panel(Row.LOOP, "Memory", ("kind",)),
    process.CPU: Panel(Row.LOOP, "CPU", ("mode",)),
    process.OPEN_FILES: Panel(Row.LOOP, "Open files"),
    process.CONNECTIONS: Panel(Row.CLIENTS, "Connections", ("server",)),
    process.LOOP_LAG: Panel(Row.LOOP, "Event loop is late (p99)"),
    process.LOOP_STALLS: Panel(Row.LOOP, "Stalls of the event loop", ("server",)),
    process.KNOWN_BROKERS: Panel(Row.OVERVIEW, "Brokers registered"),
    process.COLLECT_TIME: Panel(Row.LOOP, "Cost of a scrape"),
    process.OVERFLOW_SERIES: Panel(Row.OVERVIEW, "Label sets beyond the budget", ("metric",)),
    broker.PROCESSOR_WATERMARK: Panel(Row.REQUESTS, "Requests that wait", ("processor",)),
    broker.TOPIC_NUMBER: Panel(Row.OVERVIEW, "Topics"),
    broker.GROUP_NUMBER: Panel(Row.OVERVIEW, "Consumer groups"),
    broker.MESSAGES_IN: Panel(Row.TRAFFIC, "Messages in", ("topic",)),
    broker.THROUGHPUT_IN: Panel(Row.TRAFFIC, "Bytes in", ("topic",)),
    broker.MESSAGE_SIZE: Panel(Row.TRAFFIC, "Size of messages (p99)", ("topic",)),
    broker.MESSAGES_OUT: Panel(Row.TRAFFIC, "Messages out", ("topic", "consumer_group")),
    broker.THROUGHPUT_OUT: Panel(Row.TRAFFIC, "Bytes out", ("topic", "consumer_group")),
    broker.PRODUCER_CONNECTIONS: Panel(Row.CLIENTS, "Producers", ("language", "version")),
    broker.CONSUMER_CONNECTIONS: Panel(Row.CLIENTS, "Members of groups", ("consumer_group",)),
    broker.LAG_MESSAGES: Panel(Row.GROUPS, "Lag in messages", ("consumer_group", "topic")),
    broker.LAG_LATENCY: Panel(Row.GROUPS, "Lag in time", ("consumer_group", "topic")),
    broker.INFLIGHT_MESSAGES: Panel(Row.GROUPS, "Fetched, not finished", ("consumer_group", "topic")),
    broker.SEND_TO_DLQ: Panel(Row.GROUPS, "New dead letters", ("consumer_group", "topic")),
    broker.RPC_LATENCY: Panel(Row.REQUESTS, "Response time (p99)", ("request_code", "is_long_polling")),
    broker.COMMIT_MESSAGES: Panel(Row.WAITING, "Transactions committed", ("topic",)),
    broker.ROLLBACK_MESSAGES: Panel(Row.WAITING, "Transactions rolled back", ("topic",)),
    broker.HALF_MESSAGES: Panel(Row.WAITING, "Prepared messages"),
    broker.STORAGE_SIZE: Panel(Row.STORE, "Commit log"),
    broker.FLUSH_BEHIND: Panel(Row.STORE, "Written, not on disk"),
    broker.RESERVE_TIME: Panel(Row.STORE, "Age of the oldest message"),
    broker.TIMER_DEQUEUE_LATENCY: Panel(Row.WAITING, "Timers behind the clock"),
    broker.TIMING_MESSAGES: Panel(Row.WAITING, "Messages that wait for their time", ("topic",)),
    broker.QUEUE_MESSAGES: Panel(Row.TRAFFIC, "Messages in by queue", ("topic", "queue_id")),
    broker.SEND_BACKS: Panel(Row.GROUPS, "Failed messages", ("consumer_group", "topic")),
    broker.FINISHED: Panel(Row.GROUPS, "Finished messages", ("consumer_group", "topic")),
    broker.BLOCKING_AGE: Panel(Row.GROUPS, "Blocking message", ("consumer_group", "topic")),
    broker.QUEUE_LAG: Panel(Row.GROUPS, "Queues that are most behind", ("consumer_group", "topic", "queue_id")),
    broker.SUBSCRIPTION_MISMATCHES: Panel(Row.GROUPS, "Different subscriptions", ("consumer_group",)),
    broker.DEAD_LETTERS: Panel(Row.GROUPS, "Dead letters", ("consumer_group", "state")),
    broker.FLOW_CONTROL: Panel(Row.REQUESTS, "Flow control", ("case",)),
    broker.QUOTA_REFUSALS: Panel(Row.REQUESTS, "Quotas", ("kind",)),
    broker.REFUSALS: Panel(Row.REQUESTS, "Refused requests", ("request_code", "response_code")),
    broker.GROUP_COMMIT: Panel(Row.STORE, "Requests in a group commit (p99)"),
    broker.FSYNC: Panel(Row.STORE, "Flush (p99)"),
    broker.WRITABLE: Panel(Row.OVERVIEW, "Store is writable"),
    broker.DISK_USED: Panel(Row.STORE, "Disk used"),
    broker.UNREAD_DELETED: Panel(Row.STORE, "Deleted unread"),
    broker.HELD_PULLS: Panel(Row.CLIENTS, "Pulls that wait"),
    broker.NAMESERVERS: Panel(Row.OVERVIEW, "Name servers", ("state",)),
    broker.DELAY_LEVELS: Panel(Row.WAITING, "Messages at delay levels", ("level",)),
    broker.ROLE: Panel(Row.REPLICATION, "Roles", ("role",)),
    broker.REPLICAS_IN_SYNC: Panel(Row.REPLICATION, "Replicas in sync"),
    broker.REPLICA_BEHIND: Panel(Row.REPLICATION, "Replicas behind", ("replica",)),
    broker.UNCONFIRMED: Panel(Row.REPLICATION, "Not confirmed"),
    broker.FOLLOWING: Panel(Row.REPLICATION, "Replica is following", ("state",)),
    exporter.BROKER_UP: Panel(Row.CLUSTER, "Brokers that answer", ("broker",)),
    exporter.REFRESH_AGE: Panel(Row.CLUSTER, "Age of what is shown"),
    exporter.REFRESH_ERRORS: Panel(Row.CLUSTER, "Failed admin requests", ("request",)),
    exporter.BROKER_TPS: Panel(Row.CLUSTER, "Messages in, by broker", ("broker",)),
    exporter.BROKER_QPS: Panel(Row.CLUSTER, "Messages out, by broker", ("broker",)),
    exporter.DISK_RATIO: Panel(Row.CLUSTER, "Disk used, by broker", ("broker",)),
    exporter.PRODUCER_TPS: Panel(Row.CLUSTER, "Messages in, by topic", ("topic",)),
    exporter.CONSUME_RT: Panel(Row.CLUSTER, "Time of listeners (ms)", ("group", "topic")),
    exporter.CONSUME_OK_TPS: Panel(Row.CLUSTER, "Messages that went well", ("group", "topic")),
    exporter.CONSUME_FAIL_TPS: Panel(Row.CLUSTER, "Messages that failed", ("group", "topic")),
    exporter.CLIENT_FLOW_CONTROL: Panel(Row.CLUSTER, "Flow control of members", ("group", "case")),
    exporter.CLIENT_HEAD_AGE: Panel(Row.CLUSTER, "Oldest message in a listener", ("group",)),
}
