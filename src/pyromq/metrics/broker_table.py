"""Metrics of a broker: RocketMQ 5's families first, then what only PyroMQ has."""

from __future__ import annotations

from typing import Final

from pyromq.metrics.declared import Metric, MetricKind, Panel, Row, Stability

_KB: Final = 1 << 10
_MB: Final = 1 << 20
_HOUR_S: Final = 3_600
_ROCKETMQ: Final = Stability.ROCKETMQ
_STABLE: Final = Stability.STABLE
_LAG: Final = ("consumer_group", "topic", "is_retry", "is_system")
_LAG_SOURCE: Final = "committed offsets against the ends of queues; only what moved or is behind is looked at"

PROCESSOR_WATERMARK: Final = Metric(
    name="rocketmq_processor_watermark",
    kind=MetricKind.GAUGE,
    help="Requests that wait, by the thread pool that RocketMQ has for them; send: for the disk, pull: for a message.",
    source="group commit, flow control, long polling, long responses",
    labels=("processor",),
    stability=_ROCKETMQ,
    panel=Panel(Row.REQUESTS, "Requests that wait", ("processor",)),
)
BROKER_PERMISSION: Final = Metric(
    name="rocketmq_broker_permission",
    kind=MetricKind.GAUGE,
    help="What clients may do: 4 read, 2 write, 6 both.",
    source="setting permission",
    stability=_ROCKETMQ,
)
TOPIC_NUMBER: Final = Metric(
    name="rocketmq_topic_number",
    kind=MetricKind.GAUGE,
    help="Topics, those of the broker itself included.",
    source="table of topics",
    stability=_ROCKETMQ,
    panel=Panel(Row.OVERVIEW, "Topics"),
)
GROUP_NUMBER: Final = Metric(
    name="rocketmq_consumer_group_number",
    kind=MetricKind.GAUGE,
    help="Consumer groups.",
    source="table of groups",
    stability=_ROCKETMQ,
    panel=Panel(Row.OVERVIEW, "Consumer groups"),
)
MESSAGES_IN: Final = Metric(
    name="rocketmq_messages_in_total",
    kind=MetricKind.COUNTER,
    help="Messages stored since the start, by the topic that they were written to.",
    source="counted with every send, once for a batch; the type is that of the topic",
    labels=("topic", "message_type", "is_system"),
    stability=_ROCKETMQ,
    panel=Panel(Row.TRAFFIC, "Messages in", ("topic",)),
)
THROUGHPUT_IN: Final = Metric(
    name="rocketmq_throughput_in_total",
    kind=MetricKind.COUNTER,
    help="Bytes stored since the start, as they lie in the log.",
    source="as rocketmq_messages_in_total",
    labels=("topic", "message_type", "is_system"),
    stability=_ROCKETMQ,
    panel=Panel(Row.TRAFFIC, "Bytes in", ("topic",)),
)
MESSAGE_SIZE: Final = Metric(
    name="rocketmq_message_size",
    kind=MetricKind.HISTOGRAM,
    help="Sizes of messages stored since the first scrape, as they lie in the log.",
    source="queue entries that were written since the last scrape",
    labels=("topic", "message_type", "is_system"),
    buckets=(1 * _KB, 4 * _KB, 512 * _KB, 1 * _MB, 2 * _MB, 4 * _MB),
    stability=_ROCKETMQ,
    panel=Panel(Row.TRAFFIC, "Size of messages (p99)", ("topic",)),
)
MESSAGES_OUT: Final = Metric(
    name="rocketmq_messages_out_total",
    kind=MetricKind.COUNTER,
    help="Messages delivered to groups since the start, repeated deliveries included.",
    source="counted with every pull",
    labels=("topic", "consumer_group", "is_retry", "is_system"),
    stability=_ROCKETMQ,
    panel=Panel(Row.TRAFFIC, "Messages out", ("topic", "consumer_group")),
)
THROUGHPUT_OUT: Final = Metric(
    name="rocketmq_throughput_out_total",
    kind=MetricKind.COUNTER,
    help="Bytes delivered to groups since the start.",
    source="counted with every pull",
    labels=("topic", "consumer_group", "is_retry", "is_system"),
    stability=_ROCKETMQ,
    panel=Panel(Row.TRAFFIC, "Bytes out", ("topic", "consumer_group")),
)
PRODUCER_CONNECTIONS: Final = Metric(
    name="rocketmq_producer_connections",
    kind=MetricKind.GAUGE,
    help="Connected producers.",
    source="heartbeats",
    labels=("language", "version", "protocol_type"),
    stability=_ROCKETMQ,
    panel=Panel(Row.CLIENTS, "Producers", ("language", "version")),
)
CONSUMER_CONNECTIONS: Final = Metric(
    name="rocketmq_consumer_connections",
    kind=MetricKind.GAUGE,
    help="Connected members of groups.",
    source="heartbeats",
    labels=("consumer_group", "language", "version", "consume_mode", "protocol_type", "is_system"),
    stability=_ROCKETMQ,
    panel=Panel(Row.CLIENTS, "Members of groups", ("consumer_group",)),
)
LAG_MESSAGES: Final = Metric(
    name="rocketmq_consumer_lag_messages",
    kind=MetricKind.GAUGE,
    help="Messages that a group has not finished.",
    source=_LAG_SOURCE,
    labels=_LAG,
    stability=_ROCKETMQ,
    panel=Panel(Row.GROUPS, "Lag in messages", ("consumer_group", "topic")),
)
LAG_LATENCY: Final = Metric(
    name="rocketmq_consumer_lag_latency",
    kind=MetricKind.GAUGE,
    unit="milliseconds",
    help="Age of the oldest message that a group has not finished.",
    source=f"{_LAG_SOURCE}; the store time of that message",
    labels=_LAG,
    stability=_ROCKETMQ,
    panel=Panel(Row.GROUPS, "Lag in time", ("consumer_group", "topic")),
)
INFLIGHT_MESSAGES: Final = Metric(
    name="rocketmq_consumer_inflight_messages",
    kind=MetricKind.GAUGE,
    help="Messages that members have fetched and not finished.",
    source="committed offsets against those of the last pulls",
    labels=_LAG,
    stability=_ROCKETMQ,
    panel=Panel(Row.GROUPS, "Fetched, not finished", ("consumer_group", "topic")),
)
QUEUEING_LATENCY: Final = Metric(
    name="rocketmq_consumer_queueing_latency",
    kind=MetricKind.GAUGE,
    unit="milliseconds",
    help="Age of the oldest message that no member has fetched.",
    source="offsets of the last pulls; the store time of that message",
    labels=_LAG,
    stability=_ROCKETMQ,
)
READY_MESSAGES: Final = Metric(
    name="rocketmq_consumer_ready_messages",
    kind=MetricKind.GAUGE,
    help="Messages that no member has fetched.",
    source="offsets of the last pulls against the ends of queues",
    labels=_LAG,
    stability=_ROCKETMQ,
)
SEND_TO_DLQ: Final = Metric(
    name="rocketmq_send_to_dlq_messages_total",
    kind=MetricKind.COUNTER,
    help="Messages that became dead letters since the start, by the topic that they were sent to.",
    source="counted with every send-back that is the last",
    labels=("consumer_group", "topic", "is_system"),
    stability=_ROCKETMQ,
    panel=Panel(Row.GROUPS, "New dead letters", ("consumer_group", "topic")),
)
RPC_LATENCY: Final = Metric(
    name="rocketmq_rpc_latency",
    kind=MetricKind.HISTOGRAM,
    unit="milliseconds",
    help="Time from a request to its response. Sends are timed by the group commit, whose first send tells the code.",
    source="group commits, pulls, handlers of the other requests",
    labels=("protocol_type", "request_code", "response_code", "is_long_polling", "result"),
    buckets=(1, 3, 5, 7, 10, 100, 1_000, 2_000, 3_000),
    stability=_ROCKETMQ,
    panel=Panel(Row.REQUESTS, "Response time (p99)", ("request_code", "is_long_polling")),
)
COMMIT_MESSAGES: Final = Metric(
    name="rocketmq_commit_messages_total",
    kind=MetricKind.COUNTER,
    help="Transactions committed since the start.",
    source="counted with every end of a transaction",
    labels=("topic",),
    stability=_ROCKETMQ,
    panel=Panel(Row.WAITING, "Transactions committed", ("topic",)),
)
ROLLBACK_MESSAGES: Final = Metric(
    name="rocketmq_rollback_messages_total",
    kind=MetricKind.COUNTER,
    help="Transactions rolled back since the start.",
    source="counted with every end of a transaction",
    labels=("topic",),
    stability=_ROCKETMQ,
    panel=Panel(Row.WAITING, "Transactions rolled back", ("topic",)),
)
FINISH_LATENCY: Final = Metric(
    name="rocketmq_finish_message_latency",
    kind=MetricKind.HISTOGRAM,
    unit="milliseconds",
    help="From a prepared message to its end. As in RocketMQ the name says milliseconds, and the values are seconds.",
    source="counted with every end of a transaction",
    labels=("topic",),
    buckets=(5, 60, 600, _HOUR_S, 12 * _HOUR_S, 24 * _HOUR_S),
    stability=_ROCKETMQ,
)
HALF_MESSAGES: Final = Metric(
    name="rocketmq_half_messages",
    kind=MetricKind.GAUGE,
    help="Prepared messages that wait for their end, all topics together (topic is *).",
    source="table of prepared messages",
    labels=("topic",),
    stability=_ROCKETMQ,
    panel=Panel(Row.WAITING, "Prepared messages"),
)
STORAGE_SIZE: Final = Metric(
    name="rocketmq_storage_size",
    kind=MetricKind.GAUGE,
    unit="bytes",
    help="Bytes of the commit log.",
    source="first and end position of the log",
    labels=("storage_type", "storage_medium"),
    stability=_ROCKETMQ,
    panel=Panel(Row.STORE, "Commit log"),
)
FLUSH_BEHIND: Final = Metric(
    name="rocketmq_storage_flush_behind_bytes",
    kind=MetricKind.GAUGE,
    unit="bytes",
    help="Bytes that are written and not on disk yet.",
    source="end and flushed position of the log",
    labels=("storage_type", "storage_medium"),
    stability=_ROCKETMQ,
    panel=Panel(Row.STORE, "Written, not on disk"),
)
DISPATCH_BEHIND: Final = Metric(
    name="rocketmq_storage_dispatch_behind_bytes",
    kind=MetricKind.GAUGE,
    unit="bytes",
    help="Bytes of the log without queue entries: none, they are made with every commit.",
    source="queues are part of the commit",
    labels=("storage_type", "storage_medium"),
    stability=_ROCKETMQ,
)
RESERVE_TIME: Final = Metric(
    name="rocketmq_storage_message_reserve_time",
    kind=MetricKind.GAUGE,
    unit="milliseconds",
    help="Age of the oldest message.",
    source="store time of the first record",
    labels=("storage_type", "storage_medium"),
    stability=_ROCKETMQ,
    panel=Panel(Row.STORE, "Age of the oldest message"),
)
TIMER_ENQUEUE_LAG: Final = Metric(
    name="rocketmq_timer_enqueue_lag",
    kind=MetricKind.GAUGE,
    help="Messages with a time of their own that are not in the timer log yet.",
    source="timers",
    stability=_ROCKETMQ,
)
TIMER_DEQUEUE_LATENCY: Final = Metric(
    name="rocketmq_timer_dequeue_latency",
    kind=MetricKind.GAUGE,
    unit="milliseconds",
    help="How far the delivery of such messages is behind the clock.",
    source="timers",
    stability=_ROCKETMQ,
    panel=Panel(Row.WAITING, "Timers behind the clock"),
)
TIMING_MESSAGES: Final = Metric(
    name="rocketmq_timing_messages",
    kind=MetricKind.GAUGE,
    help="Messages of a topic that wait for their time.",
    source="config/timermetrics",
    labels=("topic",),
    stability=_ROCKETMQ,
    panel=Panel(Row.WAITING, "Messages that wait for their time", ("topic",)),
)
TIMER_ENQUEUED: Final = Metric(
    name="rocketmq_timer_enqueue_total",
    kind=MetricKind.COUNTER,
    help="Messages of a topic that began to wait for their time since the start.",
    source="counted with config/timermetrics",
    labels=("topic",),
    stability=_ROCKETMQ,
)
TIMER_DEQUEUED: Final = Metric(
    name="rocketmq_timer_dequeue_total",
    kind=MetricKind.COUNTER,
    help="Messages of a topic whose time came, or that were cancelled, since the start.",
    source="counted with config/timermetrics",
    labels=("topic",),
    stability=_ROCKETMQ,
)
TOPIC_CREATE_TIME: Final = Metric(
    name="rocketmq_topic_create_execution_time",
    kind=MetricKind.HISTOGRAM,
    unit="milliseconds",
    help="How long making or changing a topic takes.",
    source="handlers of requests",
    labels=("invocation_status", "is_system"),
    buckets=(1, 5, 10, 50, 100, 1_000, 3_000),
    stability=_ROCKETMQ,
)
GROUP_CREATE_TIME: Final = Metric(
    name="rocketmq_consumer_group_create_execution_time",
    kind=MetricKind.HISTOGRAM,
    unit="milliseconds",
    help="How long making or changing a consumer group takes.",
    source="handlers of requests",
    labels=("invocation_status", "is_system"),
    buckets=(1, 5, 10, 50, 100, 1_000, 3_000),
    stability=_ROCKETMQ,
)

# --- only here -----------------------------------------------------------------------------------------------------

QUEUE_MESSAGES: Final = Metric(
    name="pyromq_queue_messages_total",
    kind=MetricKind.COUNTER,
    help="Messages ever written to a queue: its end offset.",
    source="ends of queues",
    labels=("topic", "queue_id"),
    stability=_STABLE,
    panel=Panel(Row.TRAFFIC, "Messages in by queue", ("topic", "queue_id")),
)
SEND_BACKS: Final = Metric(
    name="pyromq_send_back_messages_total",
    kind=MetricKind.COUNTER,
    help="Failed messages that members sent back since the start, by the topic that they were sent to.",
    source="counted with every send-back",
    labels=("consumer_group", "topic"),
    stability=_STABLE,
    panel=Panel(Row.GROUPS, "Failed messages", ("consumer_group", "topic")),
)
FINISHED: Final = Metric(
    name="pyromq_finished_messages_total",
    kind=MetricKind.COUNTER,
    help="Messages that a group has got past since the first scrape: done, or failed and sent back. Those that went "
    "well are these less pyromq_send_back_messages_total.",
    source="committed offsets as they move between two scrapes",
    labels=("consumer_group", "topic"),
    panel=Panel(Row.GROUPS, "Finished messages", ("consumer_group", "topic")),
)
BLOCKING_AGE: Final = Metric(
    name="pyromq_blocking_message_age_seconds",
    kind=MetricKind.GAUGE,
    unit="seconds",
    help="For how long the message that a group stands at has held up those behind it; as seen at scrapes.",
    source="committed offsets that do not move although messages were fetched",
    labels=("consumer_group", "topic"),
    stability=_STABLE,
    panel=Panel(Row.GROUPS, "Blocking message", ("consumer_group", "topic")),
)
QUEUE_LAG: Final = Metric(
    name="pyromq_consumer_queue_lag_messages",
    kind=MetricKind.GAUGE,
    help="Messages of a queue that a group has not finished; the 100 queues that are most behind.",
    source=_LAG_SOURCE,
    labels=("consumer_group", "topic", "queue_id"),
    panel=Panel(Row.GROUPS, "Queues that are most behind", ("consumer_group", "topic", "queue_id")),
)
SUBSCRIPTION_MISMATCHES: Final = Metric(
    name="pyromq_subscription_mismatches",
    kind=MetricKind.GAUGE,
    help="Members of a group that subscribe to something else than the others: messages get lost to them.",
    source="heartbeats",
    labels=("consumer_group",),
    stability=_STABLE,
    panel=Panel(Row.GROUPS, "Different subscriptions", ("consumer_group",)),
)
DEAD_LETTERS: Final = Metric(
    name="pyromq_dead_letters",
    kind=MetricKind.GAUGE,
    help="Dead letters of a group: still to be looked at, or redriven.",
    source="dead-letter topics, and how far redriving has come in them",
    labels=("consumer_group", "state"),
    stability=_STABLE,
    panel=Panel(Row.GROUPS, "Dead letters", ("consumer_group", "state")),
)
FLOW_CONTROL: Final = Metric(
    name="pyromq_flow_control_total",
    kind=MetricKind.COUNTER,
    help="Writes refused because the disk did not keep up since the start, by RocketMQ's tag of the case.",
    source="flow control of sends",
    labels=("case",),
    stability=_STABLE,
    panel=Panel(Row.REQUESTS, "Flow control", ("case",)),
)
QUOTA_REFUSALS: Final = Metric(
    name="pyromq_quota_refusals_total",
    kind=MetricKind.COUNTER,
    help="Requests refused because a quota was used up, since the start.",
    source="quotas",
    labels=("kind",),
    stability=_STABLE,
    panel=Panel(Row.REQUESTS, "Quotas", ("kind",)),
)
REFUSALS: Final = Metric(
    name="pyromq_requests_refused_total",
    kind=MetricKind.COUNTER,
    help="Requests answered with an error since the start.",
    source="counted with every refusal",
    labels=("request_code", "response_code"),
    stability=_STABLE,
    panel=Panel(Row.REQUESTS, "Refused requests", ("request_code", "response_code")),
)
REFUSED_SENDS: Final = Metric(
    name="pyromq_refused_sends_total",
    kind=MetricKind.COUNTER,
    help="Refused sends to a topic since the start; topics that do not exist are one, named _unknown.",
    source="counted with every refusal",
    labels=("topic", "response_code"),
)
REFUSED_PULLS: Final = Metric(
    name="pyromq_refused_pulls_total",
    kind=MetricKind.COUNTER,
    help="Refused pulls of a group since the start; groups that do not exist are one, named _unknown.",
    source="counted with every refusal",
    labels=("consumer_group", "topic", "response_code"),
)
GROUP_COMMIT: Final = Metric(
    name="pyromq_group_commit_messages",
    kind=MetricKind.HISTOGRAM,
    help="Requests that were written together.",
    source="counted with every group commit",
    buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024),
    stability=_STABLE,
    panel=Panel(Row.STORE, "Requests in a group commit (p99)"),
)
FSYNC: Final = Metric(
    name="pyromq_fsync_seconds",
    kind=MetricKind.HISTOGRAM,
    unit="seconds",
    help="How long a flush of the log takes, with the way to its thread and back.",
    source="counted with every flush",
    buckets=(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
    stability=_STABLE,
    panel=Panel(Row.STORE, "Flush (p99)"),
)
WRITABLE: Final = Metric(
    name="pyromq_store_writable",
    kind=MetricKind.GAUGE,
    help="1: the store takes messages; 0: it is read-only, because the disk is full or not trusted any more.",
    source="health of the store",
    stability=_STABLE,
    panel=Panel(Row.OVERVIEW, "Store is writable"),
)
DISK_USED: Final = Metric(
    name="pyromq_disk_used_ratio",
    kind=MetricKind.GAUGE,
    unit="ratio",
    help="How full the disk of the data folder is.",
    source="file system",
    stability=_STABLE,
    panel=Panel(Row.STORE, "Disk used"),
)
DISK_FREE: Final = Metric(
    name="pyromq_disk_free_bytes",
    kind=MetricKind.GAUGE,
    unit="bytes",
    help="Free space on the disk of the data folder.",
    source="file system",
    stability=_STABLE,
)
UNREAD_DELETED: Final = Metric(
    name="pyromq_unread_deleted_total",
    kind=MetricKind.COUNTER,
    help="Messages deleted before a group had read them, once for each group, since the start.",
    source="retention",
    stability=_STABLE,
    panel=Panel(Row.STORE, "Deleted unread"),
)
RECOVERY_CUTS: Final = Metric(
    name="pyromq_recovery_cuts",
    kind=MetricKind.GAUGE,
    help="Places at which the last recovery cut the log, with a copy in cut/.",
    source="report of recovery",
)
RECOVERY_DAMAGED: Final = Metric(
    name="pyromq_recovery_damaged_ranges",
    kind=MetricKind.GAUGE,
    help="Damaged ranges of the log that the last recovery passed over.",
    source="report of recovery",
)
DAMAGED_READS: Final = Metric(
    name="pyromq_damaged_reads_total",
    kind=MetricKind.COUNTER,
    help="Records that were not served because their checksum does not match, since the start.",
    source="reads of queues",
)
SCRUBBED: Final = Metric(
    name="pyromq_scrub_progress_ratio",
    kind=MetricKind.GAUGE,
    unit="ratio",
    help="How much of the sealed log the scrub of this pass has looked at.",
    source="scrub",
)
LOG_DAMAGED: Final = Metric(
    name="pyromq_log_damaged_bytes",
    kind=MetricKind.GAUGE,
    unit="bytes",
    help="Bytes of the sealed log that the scrub found changed on disk, and that are not mended.",
    source="scrub",
)
HELD_PULLS: Final = Metric(
    name="pyromq_held_pulls",
    kind=MetricKind.GAUGE,
    help="Pulls that wait for a message.",
    source="long polling",
    panel=Panel(Row.CLIENTS, "Pulls that wait"),
)
NAMESERVERS: Final = Metric(
    name="pyromq_registered_nameservers",
    kind=MetricKind.GAUGE,
    help="Name servers that the broker is registered with (state is registered), and others that it should be.",
    source="registration",
    labels=("state",),
    panel=Panel(Row.OVERVIEW, "Name servers", ("state",)),
)
NAME_TAKEN: Final = Metric(
    name="pyromq_name_taken_total",
    kind=MetricKind.COUNTER,
    help="How often another process was found registered under the name of this broker, since the start.",
    source="registration",
)
LEASE_NUMBER: Final = Metric(
    name="pyromq_lease_number",
    kind=MetricKind.GAUGE,
    help="The lease under which the broker is master, or follows one; 0 without a failover agent.",
    source="config/failover.json",
)
LEASE_LEFT: Final = Metric(
    name="pyromq_lease_seconds_left",
    kind=MetricKind.GAUGE,
    help="How long a master under a failover agent may still acknowledge; 0 of replicas, and without an agent.",
    source="the last grant",
)
LEASE_CUTS: Final = Metric(
    name="pyromq_lease_cut_messages",
    kind=MetricKind.GAUGE,
    help="Messages that a returning master had alone: cut from its log, and kept in cut/ until the folder is deleted.",
    source="reports in cut/",
)
LEASE_WAITING: Final = Metric(
    name="pyromq_lease_waiting",
    kind=MetricKind.GAUGE,
    help="1 while the failover agent is not sure that the lease store is current, and its broker acknowledges nothing.",
    source="the agent",
)
LEASE_MISSING: Final = Metric(
    name="pyromq_lease_missing_since_seconds",
    kind=MetricKind.GAUGE,
    help="Of a master under a failover agent: since when a member is not in sync, as Unix time; one for each of them.",
    source="the last grant",
    labels=("member",),
)
DELAY_LEVELS: Final = Metric(
    name="pyromq_delay_level_messages",
    kind=MetricKind.GAUGE,
    help="Messages that wait at delay levels, retries among them.",
    source="cursors of the levels",
    labels=("level",),
    panel=Panel(Row.WAITING, "Messages at delay levels", ("level",)),
)
DELAY_LATE: Final = Metric(
    name="pyromq_delay_late_worst_seconds",
    kind=MetricKind.GAUGE,
    unit="seconds",
    help="The latest delivery of a delayed message since the start, against its time.",
    source="delays",
)

ROLE: Final = Metric(
    name="pyromq_replication_role",
    kind=MetricKind.GAUGE,
    help="1 for the role that the broker has: alone, async-master, sync-master or replica.",
    source="replication",
    labels=("role",),
    panel=Panel(Row.REPLICATION, "Roles", ("role",)),
)
REPLICAS_IN_SYNC: Final = Metric(
    name="pyromq_replicas_in_sync",
    kind=MetricKind.GAUGE,
    help="Of a master: replicas that miss less than haMaxGapNotInSync.",
    source="reports of replicas",
    panel=Panel(Row.REPLICATION, "Replicas in sync"),
)
REPLICA_BEHIND: Final = Metric(
    name="pyromq_replica_behind_bytes",
    kind=MetricKind.GAUGE,
    unit="bytes",
    help="Of a master: how much of its log a replica has not reported to have, by its address and id.",
    source="reports of replicas",
    labels=("replica",),
    panel=Panel(Row.REPLICATION, "Replicas behind", ("replica",)),
)
UNCONFIRMED: Final = Metric(
    name="pyromq_replication_unconfirmed_bytes",
    kind=MetricKind.GAUGE,
    unit="bytes",
    help="Of a master: how much of its log fewer copies have than it counts on; what could be lost with it.",
    source="reports of replicas",
    panel=Panel(Row.REPLICATION, "Not confirmed"),
)
FOLLOWING: Final = Metric(
    name="pyromq_replica_following",
    kind=MetricKind.GAUGE,
    help="Of a replica: 1 while it takes over what its master stores, by what it is doing.",
    source="replication",
    labels=("state",),
    panel=Panel(Row.REPLICATION, "Replica is following", ("state",)),
)

BROKER_METRICS: Final = (
    PROCESSOR_WATERMARK,
    BROKER_PERMISSION,
    TOPIC_NUMBER,
    GROUP_NUMBER,
    MESSAGES_IN,
    THROUGHPUT_IN,
    MESSAGE_SIZE,
    MESSAGES_OUT,
    THROUGHPUT_OUT,
    PRODUCER_CONNECTIONS,
    CONSUMER_CONNECTIONS,
    LAG_MESSAGES,
    LAG_LATENCY,
    INFLIGHT_MESSAGES,
    QUEUEING_LATENCY,
    READY_MESSAGES,
    SEND_TO_DLQ,
    RPC_LATENCY,
    COMMIT_MESSAGES,
    ROLLBACK_MESSAGES,
    FINISH_LATENCY,
    HALF_MESSAGES,
    STORAGE_SIZE,
    FLUSH_BEHIND,
    DISPATCH_BEHIND,
    RESERVE_TIME,
    TIMER_ENQUEUE_LAG,
    TIMER_DEQUEUE_LATENCY,
    TIMING_MESSAGES,
    TIMER_ENQUEUED,
    TIMER_DEQUEUED,
    TOPIC_CREATE_TIME,
    GROUP_CREATE_TIME,
    QUEUE_MESSAGES,
    SEND_BACKS,
    FINISHED,
    BLOCKING_AGE,
    QUEUE_LAG,
    SUBSCRIPTION_MISMATCHES,
    DEAD_LETTERS,
    FLOW_CONTROL,
    QUOTA_REFUSALS,
    REFUSALS,
    REFUSED_SENDS,
    REFUSED_PULLS,
    GROUP_COMMIT,
    FSYNC,
    WRITABLE,
    DISK_USED,
    DISK_FREE,
    UNREAD_DELETED,
    RECOVERY_CUTS,
    RECOVERY_DAMAGED,
    DAMAGED_READS,
    SCRUBBED,
    LOG_DAMAGED,
    HELD_PULLS,
    NAMESERVERS,
    NAME_TAKEN,
    LEASE_NUMBER,
    LEASE_LEFT,
    LEASE_CUTS,
    LEASE_WAITING,
    LEASE_MISSING,
    DELAY_LEVELS,
    DELAY_LATE,
    ROLE,
    REPLICAS_IN_SYNC,
    REPLICA_BEHIND,
    UNCONFIRMED,
    FOLLOWING,
)
