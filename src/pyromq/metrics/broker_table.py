"""Metrics of a broker: RocketMQ 5's families first, then what only PyroMQ has."""

from __future__ import annotations

from typing import Final

from pyromq.metrics.declared import Declarations, Metric, Stability

_KB: Final = 1 << 10
_MB: Final = 1 << 20
_HOUR_S: Final = 3_600
_LAG: Final = ("consumer_group", "topic", "is_retry", "is_system")
_LAG_SOURCE: Final = "committed offsets against the ends of queues; only what moved or is behind is looked at"

_METRICS: Final[list[Metric]] = []
_rocketmq: Final = Declarations(_METRICS, Stability.ROCKETMQ)
_stable: Final = Declarations(_METRICS, Stability.STABLE)
_new: Final = Declarations(_METRICS, Stability.NEW)

PROCESSOR_WATERMARK: Final = _rocketmq.gauge(
    "rocketmq_processor_watermark",
    "Requests that wait, by the thread pool that RocketMQ has for them; send: for the disk, pull: for a message.",
    "group commit, flow control, long polling, long responses",
    ("processor",),
)
BROKER_PERMISSION: Final = _rocketmq.gauge(
    "rocketmq_broker_permission", "What clients may do: 4 read, 2 write, 6 both.", "setting permission"
)
TOPIC_NUMBER: Final = _rocketmq.gauge(
    "rocketmq_topic_number", "Topics, those of the broker itself included.", "table of topics"
)
GROUP_NUMBER: Final = _rocketmq.gauge("rocketmq_consumer_group_number", "Consumer groups.", "table of groups")
MESSAGES_IN: Final = _rocketmq.counter(
    "rocketmq_messages_in_total",
    "Messages stored since the start, by the topic that they were written to.",
    "counted with every send, once for a batch; the type is that of the topic",
    ("topic", "message_type", "is_system"),
)
THROUGHPUT_IN: Final = _rocketmq.counter(
    "rocketmq_throughput_in_total",
    "Bytes stored since the start, as they lie in the log.",
    "as rocketmq_messages_in_total",
    ("topic", "message_type", "is_system"),
)
MESSAGE_SIZE: Final = _rocketmq.histogram(
    "rocketmq_message_size",
    "Sizes of messages stored since the first scrape, as they lie in the log.",
    "queue entries that were written since the last scrape",
    (1 * _KB, 4 * _KB, 512 * _KB, 1 * _MB, 2 * _MB, 4 * _MB),
    ("topic", "message_type", "is_system"),
)
MESSAGES_OUT: Final = _rocketmq.counter(
    "rocketmq_messages_out_total",
    "Messages delivered to groups since the start, repeated deliveries included.",
    "counted with every pull",
    ("topic", "consumer_group", "is_retry", "is_system"),
)
THROUGHPUT_OUT: Final = _rocketmq.counter(
    "rocketmq_throughput_out_total",
    "Bytes delivered to groups since the start.",
    "counted with every pull",
    ("topic", "consumer_group", "is_retry", "is_system"),
)
PRODUCER_CONNECTIONS: Final = _rocketmq.gauge(
    "rocketmq_producer_connections", "Connected producers.", "heartbeats", ("language", "version", "protocol_type")
)
CONSUMER_CONNECTIONS: Final = _rocketmq.gauge(
    "rocketmq_consumer_connections",
    "Connected members of groups.",
    "heartbeats",
    ("consumer_group", "language", "version", "consume_mode", "protocol_type", "is_system"),
)
LAG_MESSAGES: Final = _rocketmq.gauge(
    "rocketmq_consumer_lag_messages", "Messages that a group has not finished.", _LAG_SOURCE, _LAG
)
LAG_LATENCY: Final = _rocketmq.gauge(
    "rocketmq_consumer_lag_latency",
    "Age of the oldest message that a group has not finished.",
    f"{_LAG_SOURCE}; the store time of that message",
    _LAG,
    unit="milliseconds",
)
INFLIGHT_MESSAGES: Final = _rocketmq.gauge(
    "rocketmq_consumer_inflight_messages",
    "Messages that members have fetched and not finished.",
    "committed offsets against those of the last pulls",
    _LAG,
)
QUEUEING_LATENCY: Final = _rocketmq.gauge(
    "rocketmq_consumer_queueing_latency",
    "Age of the oldest message that no member has fetched.",
    "offsets of the last pulls; the store time of that message",
    _LAG,
    unit="milliseconds",
)
READY_MESSAGES: Final = _rocketmq.gauge(
    "rocketmq_consumer_ready_messages",
    "Messages that no member has fetched.",
    "offsets of the last pulls against the ends of queues",
    _LAG,
)
SEND_TO_DLQ: Final = _rocketmq.counter(
    "rocketmq_send_to_dlq_messages_total",
    "Messages that became dead letters since the start, by the topic that they were sent to.",
    "counted with every send-back that is the last",
    ("consumer_group", "topic", "is_system"),
)
RPC_LATENCY: Final = _rocketmq.histogram(
    "rocketmq_rpc_latency",
    "Time from a request to its response. Sends are timed by the group commit, whose first send has the code.",
    "group commits, pulls, handlers of the other requests",
    (1, 3, 5, 7, 10, 100, 1_000, 2_000, 3_000),
    ("protocol_type", "request_code", "response_code", "is_long_polling", "result"),
    unit="milliseconds",
)
COMMIT_MESSAGES: Final = _rocketmq.counter(
    "rocketmq_commit_messages_total",
    "Transactions committed since the start.",
    "counted with every end of a transaction",
    ("topic",),
)
ROLLBACK_MESSAGES: Final = _rocketmq.counter(
    "rocketmq_rollback_messages_total",
    "Transactions rolled back since the start.",
    "counted with every end of a transaction",
    ("topic",),
)
FINISH_LATENCY: Final = _rocketmq.histogram(
    "rocketmq_finish_message_latency",
    "From a prepared message to its end. As in RocketMQ the name says milliseconds, and the values are seconds.",
    "counted with every end of a transaction",
    (5, 60, 600, _HOUR_S, 12 * _HOUR_S, 24 * _HOUR_S),
    ("topic",),
    unit="milliseconds",
)
HALF_MESSAGES: Final = _rocketmq.gauge(
    "rocketmq_half_messages",
    "Prepared messages that wait for their end, all topics together (topic is *).",
    "table of prepared messages",
    ("topic",),
)
STORAGE_SIZE: Final = _rocketmq.gauge(
    "rocketmq_storage_size",
    "Bytes of the commit log.",
    "first and end position of the log",
    ("storage_type", "storage_medium"),
    unit="bytes",
)
FLUSH_BEHIND: Final = _rocketmq.gauge(
    "rocketmq_storage_flush_behind_bytes",
    "Bytes that are written and not on disk yet.",
    "end and flushed position of the log",
    ("storage_type", "storage_medium"),
    unit="bytes",
)
DISPATCH_BEHIND: Final = _rocketmq.gauge(
    "rocketmq_storage_dispatch_behind_bytes",
    "Bytes of the log without queue entries: none, they are made with every commit.",
    "queues are part of the commit",
    ("storage_type", "storage_medium"),
    unit="bytes",
)
RESERVE_TIME: Final = _rocketmq.gauge(
    "rocketmq_storage_message_reserve_time",
    "Age of the oldest message.",
    "store time of the first record",
    ("storage_type", "storage_medium"),
    unit="milliseconds",
)
TIMER_ENQUEUE_LAG: Final = _rocketmq.gauge(
    "rocketmq_timer_enqueue_lag", "Messages with a time of their own that are not in the timer log yet.", "timers"
)
TIMER_DEQUEUE_LATENCY: Final = _rocketmq.gauge(
    "rocketmq_timer_dequeue_latency",
    "How far the delivery of such messages is behind the clock.",
    "timers",
    unit="milliseconds",
)
TIMING_MESSAGES: Final = _rocketmq.gauge(
    "rocketmq_timing_messages", "Messages of a topic that wait for their time.", "config/timermetrics", ("topic",)
)
TIMER_ENQUEUED: Final = _rocketmq.counter(
    "rocketmq_timer_enqueue_total",
    "Messages of a topic that began to wait for their time since the start.",
    "counted with config/timermetrics",
    ("topic",),
)
TIMER_DEQUEUED: Final = _rocketmq.counter(
    "rocketmq_timer_dequeue_total",
    "Messages of a topic whose time came, or that were cancelled, since the start.",
    "counted with config/timermetrics",
    ("topic",),
)
TOPIC_CREATE_TIME: Final = _rocketmq.histogram(
    "rocketmq_topic_create_execution_time",
    "How long making or changing a topic takes.",
    "handlers of requests",
    (1, 5, 10, 50, 100, 1_000, 3_000),
    ("invocation_status", "is_system"),
    unit="milliseconds",
)
GROUP_CREATE_TIME: Final = _rocketmq.histogram(
    "rocketmq_consumer_group_create_execution_time",
    "How long making or changing a consumer group takes.",
    "handlers of requests",
    (1, 5, 10, 50, 100, 1_000, 3_000),
    ("invocation_status", "is_system"),
    unit="milliseconds",
)

# --- only here -----------------------------------------------------------------------------------------------------

QUEUE_MESSAGES: Final = _stable.counter(
    "pyromq_queue_messages_total",
    "Messages ever written to a queue: its end offset.",
    "ends of queues",
    ("topic", "queue_id"),
)
SEND_BACKS: Final = _stable.counter(
    "pyromq_send_back_messages_total",
    "Failed messages that members sent back since the start, by the topic that they were sent to.",
    "counted with every send-back",
    ("consumer_group", "topic"),
)
FINISHED: Final = _new.counter(
    "pyromq_finished_messages_total",
    "Messages that a group has got past since the first scrape: done, or failed and sent back. Those that went "
    "well are these less pyromq_send_back_messages_total.",
    "committed offsets as they move between two scrapes",
    ("consumer_group", "topic"),
)
BLOCKING_AGE: Final = _stable.gauge(
    "pyromq_blocking_message_age_seconds",
    "For how long the message that a group stands at has held up those behind it; as seen at scrapes.",
    "committed offsets that do not move although messages were fetched",
    ("consumer_group", "topic"),
    unit="seconds",
)
QUEUE_LAG: Final = _new.gauge(
    "pyromq_consumer_queue_lag_messages",
    "Messages of a queue that a group has not finished; the 100 queues that are most behind.",
    _LAG_SOURCE,
    ("consumer_group", "topic", "queue_id"),
)
SUBSCRIPTION_MISMATCHES: Final = _stable.gauge(
    "pyromq_subscription_mismatches",
    "Members of a group that subscribe to something else than the others: messages get lost to them.",
    "heartbeats",
    ("consumer_group",),
)
DEAD_LETTERS: Final = _stable.gauge(
    "pyromq_dead_letters",
    "Dead letters of a group: still to be looked at, or redriven.",
    "dead-letter topics, and how far redriving has come in them",
    ("consumer_group", "state"),
)
FLOW_CONTROL: Final = _stable.counter(
    "pyromq_flow_control_total",
    "Writes refused because the disk did not keep up since the start, by RocketMQ's tag of the case.",
    "flow control of sends",
    ("case",),
)
QUOTA_REFUSALS: Final = _stable.counter(
    "pyromq_quota_refusals_total", "Requests refused because a quota was used up, since the start.", "quotas", ("kind",)
)
REFUSALS: Final = _stable.counter(
    "pyromq_requests_refused_total",
    "Requests answered with an error since the start.",
    "counted with every refusal",
    ("request_code", "response_code"),
)
REFUSED_SENDS: Final = _new.counter(
    "pyromq_refused_sends_total",
    "Refused sends to a topic since the start; topics that do not exist are one, named _unknown.",
    "counted with every refusal",
    ("topic", "response_code"),
)
REFUSED_PULLS: Final = _new.counter(
    "pyromq_refused_pulls_total",
    "Refused pulls of a group since the start; groups that do not exist are one, named _unknown.",
    "counted with every refusal",
    ("consumer_group", "topic", "response_code"),
)
GROUP_COMMIT: Final = _stable.histogram(
    "pyromq_group_commit_messages",
    "Requests that were written together.",
    "counted with every group commit",
    (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024),
)
FSYNC: Final = _stable.histogram(
    "pyromq_fsync_seconds",
    "How long a flush of the log takes, with the way to its thread and back.",
    "counted with every flush",
    (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
    unit="seconds",
)
WRITABLE: Final = _stable.gauge(
    "pyromq_store_writable",
    "1: the store takes messages; 0: it is read-only, because the disk is full or not trusted any more.",
    "health of the store",
)
DISK_USED: Final = _stable.gauge(
    "pyromq_disk_used_ratio", "How full the disk of the data folder is.", "file system", unit="ratio"
)
DISK_FREE: Final = _stable.gauge(
    "pyromq_disk_free_bytes", "Free space on the disk of the data folder.", "file system", unit="bytes"
)
UNREAD_DELETED: Final = _stable.counter(
    "pyromq_unread_deleted_total",
    "Messages deleted before a group had read them, once for each group, since the start.",
    "retention",
)
RECOVERY_CUTS: Final = _new.gauge(
    "pyromq_recovery_cuts", "Places at which the last recovery cut the log, with a copy in cut/.", "report of recovery"
)
RECOVERY_DAMAGED: Final = _new.gauge(
    "pyromq_recovery_damaged_ranges",
    "Damaged ranges of the log that the last recovery passed over.",
    "report of recovery",
)
DAMAGED_READS: Final = _new.counter(
    "pyromq_damaged_reads_total",
    "Records that were not served because their checksum does not match, since the start.",
    "reads of queues",
)
SCRUBBED: Final = _new.gauge(
    "pyromq_scrub_progress_ratio",
    "How much of the sealed log the scrub of this pass has looked at.",
    "scrub",
    unit="ratio",
)
LOG_DAMAGED: Final = _new.gauge(
    "pyromq_log_damaged_bytes",
    "Bytes of the sealed log that the scrub found changed on disk, and that are not mended.",
    "scrub",
    unit="bytes",
)
HELD_PULLS: Final = _new.gauge("pyromq_held_pulls", "Pulls that wait for a message.", "long polling")
NAMESERVERS: Final = _new.gauge(
    "pyromq_registered_nameservers",
    "Name servers that the broker is registered with (state is registered), and others that it should be.",
    "registration",
    ("state",),
)
NAME_TAKEN: Final = _new.counter(
    "pyromq_name_taken_total",
    "How often another process was found registered under the name of this broker, since the start.",
    "registration",
)
LEASE_NUMBER: Final = _new.gauge(
    "pyromq_lease_number",
    "The lease under which the broker is master, or follows one; 0 without a failover agent.",
    "config/failover.json",
)
LEASE_LEFT: Final = _new.gauge(
    "pyromq_lease_seconds_left",
    "How long a master under a failover agent may still acknowledge; 0 of replicas, and without an agent.",
    "the last grant",
)
LEASE_CUTS: Final = _new.gauge(
    "pyromq_lease_cut_messages",
    "Messages that a returning master had alone: cut from its log, and kept in cut/ until the folder is deleted.",
    "reports in cut/",
)
LEASE_WAITING: Final = _new.gauge(
    "pyromq_lease_waiting",
    "1 while the failover agent is not sure that the lease store is current, and its broker acknowledges nothing.",
    "the agent",
)
LEASE_MISSING: Final = _new.gauge(
    "pyromq_lease_missing_since_seconds",
    "Of a master under a failover agent: since when a member is not in sync, as Unix time; one for each of them.",
    "the last grant",
    ("member",),
)
DELAY_LEVELS: Final = _new.gauge(
    "pyromq_delay_level_messages",
    "Messages that wait at delay levels, retries among them.",
    "cursors of the levels",
    ("level",),
)
DELAY_LATE: Final = _new.gauge(
    "pyromq_delay_late_worst_seconds",
    "The latest delivery of a delayed message since the start, against its time.",
    "delays",
    unit="seconds",
)

ROLE: Final = _new.gauge(
    "pyromq_replication_role",
    "1 for the role that the broker has: alone, async-master, sync-master or replica.",
    "replication",
    ("role",),
)
REPLICAS_IN_SYNC: Final = _new.gauge(
    "pyromq_replicas_in_sync", "Of a master: replicas that miss less than haMaxGapNotInSync.", "reports of replicas"
)
REPLICA_BEHIND: Final = _new.gauge(
    "pyromq_replica_behind_bytes",
    "Of a master: how much of its log a replica has not reported to have, by its address and id.",
    "reports of replicas",
    ("replica",),
    unit="bytes",
)
UNCONFIRMED: Final = _new.gauge(
    "pyromq_replication_unconfirmed_bytes",
    "Of a master: how much of its log fewer copies have than it counts on; what could be lost with it.",
    "reports of replicas",
    unit="bytes",
)
FOLLOWING: Final = _new.gauge(
    "pyromq_replica_following",
    "Of a replica: 1 while it takes over what its master stores, by what it is doing.",
    "replication",
    ("state",),
)

BROKER_METRICS: Final = tuple(_METRICS)
