"""Names of message properties that mean something to RocketMQ; all others belong to the application."""

from __future__ import annotations

from typing import Final

KEYS: Final = "KEYS"
TAGS: Final = "TAGS"
WAIT: Final = "WAIT"
DELAY: Final = "DELAY"
UNIQUE_KEY: Final = "UNIQ_KEY"
SHARDING_KEY: Final = "__SHARDINGKEY"
PRIORITY: Final = "_SYS_MSG_PRIORITY_"
TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
RETRY_TOPIC: Final = "RETRY_TOPIC"
REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QUEUE: Final = "REAL_QID"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
PREPARED: Final = "TRAN_MSG"
PRODUCER_GROUP: Final = "PGROUP"
TRANSACTION_ID: Final = "__transactionId__"
INSTANCE_ID: Final = "INSTANCE_ID"
CORRELATION_ID: Final = "CORRELATION_ID"
REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
TIME_TO_LIVE: Final = "TTL"
MESSAGE_TYPE: Final = "MSG_TYPE"
CLUSTER: Final = "CLUSTER"
ARRIVE_TIME: Final = "ARRIVE_TIME"
REGION: Final = "MSG_REGION"
TRACE_ON: Final = "TRACE_ON"
TIMER_OUT_MS: Final = "TIMER_OUT_MS"
TIMER_DELETED_KEY: Final = "TIMER_DEL_UNIQKEY"
DLQ_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
DLQ_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"
TIMED: Final = "TIMER_D"  # so begins every name that asks for a time
TIMER_ENQUEUE_MS: Final = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS: Final = "TIMER_DEQUEUE_MS"
TIMER_ROLL_TIMES: Final = "TIMER_ROLL_TIMES"
PREPARED_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
CHECK_IMMUNITY: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
RECONSUME_TIME: Final = "RECONSUME_TIME"
MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
MIN_OFFSET: Final = "MIN_OFFSET"
MAX_OFFSET: Final = "MAX_OFFSET"
CONSUME_START_TIME: Final = "CONSUME_START_TIME"
PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"
INNER_NUM: Final = "INNER_NUM"
POP_CHECK: Final = "POP_CK"
CHECKSUM: Final = "__CRC32#"
BORN_HOST: Final = "__BORNHOST"
TRACE_CONTEXT: Final = "TRACE_CONTEXT"  # of gRPC clients; an application may have one, too

CONTENT_TYPE: Final = "content_type"
SCHEMA: Final = "schema"
"""What PyroMQ's producers say of a body (``pyromq.typed``); no names of RocketMQ, and applications may set them."""

DLQ_ERROR: Final = "DLQ_ERROR"
DLQ_STAGE: Final = "DLQ_STAGE"
"""What PyroMQ's consumers say of a dead letter: why, and in which step."""

NAME_END: Final = "\x01"
ITEM_END: Final = "\x02"
"""What separates properties: each is name, NAME_END, value, ITEM_END (``wire.properties``)."""

RESERVED: Final = frozenset(
    (
        *(KEYS, TAGS, WAIT, DELAY, UNIQUE_KEY, SHARDING_KEY, RETRY_TOPIC, REAL_TOPIC, REAL_QUEUE, ORIGIN_MESSAGE_ID),
        *(TIMER_DELAY_MS, TIMER_DELIVER_MS, TIMER_DELAY_SEC, "TIMER_DELAY_LEVEL", TIMER_ENQUEUE_MS),
        *(TIMER_DEQUEUE_MS, TIMER_ROLL_TIMES, TIMER_OUT_MS, TIMER_DELETED_KEY),
        *(PREPARED, PRODUCER_GROUP, TRANSACTION_ID, PREPARED_OFFSET, CHECK_TIMES),
        *(MIN_OFFSET, MAX_OFFSET, "BUYER_ID", "TRANSFER_FLAG", "CORRECTION_FLAG", "MQ2_FLAG", RECONSUME_TIME),
        *(MAX_RECONSUME_TIMES, REGION, TRACE_ON, "EXTEND_UNIQ_INFO", CONSUME_START_TIME, "DUP_INFO"),
        *(INNER_NUM, "INNER_BASE", "INNER_MULTI_QUEUE_OFFSET", INSTANCE_ID, CORRELATION_ID, REPLY_TO_CLIENT),
        *(TIME_TO_LIVE, MESSAGE_TYPE, CLUSTER, ARRIVE_TIME, PUSH_REPLY_TIME, POP_CHECK, "POP_CK_OFFSET"),
        *("1ST_POP_TIME", BORN_HOST, "BORN_TIMESTAMP", CHECKSUM, DLQ_ORIGIN_TOPIC, DLQ_ORIGIN_MESSAGE_ID),
        PRIORITY,
    )
)
"""What an application cannot set by hand: a field of Message or PyroMQ itself sets it."""
SET_BY_NOBODY: Final = RESERVED - {SHARDING_KEY, TRANSACTION_ID}
"""Those that no client of gRPC sets; the others travel with messages that were forwarded."""
