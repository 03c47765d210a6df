"""Sending, transactions and recalls."""

from __future__ import annotations

import msgspec

from pyromq.wire.headers.fields import Header, Int32, Int64


class SendHeader(Header, frozen=True, kw_only=True):
    """10 SEND_MESSAGE, 324 SEND_REPLY_MESSAGE: one message, or a batch when ``batch`` says so."""

    producer_group: str
    topic: str
    default_topic: str  # template, should the topic have to be created
    default_topic_queue_nums: Int32
    queue_id: Int32  # negative: any
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int32 | None = None
    batch: bool | None = None
    broker_name: str | None = msgspec.field(name="bname", default=None)


class SendV2Header(SendHeader, frozen=True, kw_only=True):
    """310 SEND_MESSAGE_V2, 320 SEND_BATCH_MESSAGE, 325 SEND_REPLY_MESSAGE_V2: the same with one letter per field."""

    producer_group: str = msgspec.field(name="a")
    topic: str = msgspec.field(name="b")
    default_topic: str = msgspec.field(name="c")
    default_topic_queue_nums: Int32 = msgspec.field(name="d")
    queue_id: Int32 = msgspec.field(name="e")
    sys_flag: Int32 = msgspec.field(name="f")
    born_timestamp: Int64 = msgspec.field(name="g")
    flag: Int32 = msgspec.field(name="h")
    properties: str | None = msgspec.field(name="i", default=None)
    reconsume_times: Int32 | None = msgspec.field(name="j", default=None)
    unit_mode: bool | None = msgspec.field(name="k", default=None)
    max_reconsume_times: Int32 | None = msgspec.field(name="l", default=None)
    batch: bool | None = msgspec.field(name="m", default=None)
    broker_name: str | None = msgspec.field(name="n", default=None)


class SendResponseHeader(Header, frozen=True, kw_only=True):
    """Response to every kind of send that stored something (codes 0, 10, 11, 12)."""

    msg_id: str  # of a batch: all of them, separated by commas
    queue_id: Int32
    queue_offset: Int64  # of a batch: that of its first message
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    region: str | None = msgspec.field(name="MSG_REGION", default=None)
    trace_on: str | None = msgspec.field(name="TRACE_ON", default=None)
    on_disk: str | None = msgspec.field(name="ON_DISK", default=None)  # ours: "false" when it came before fsync


class EndTransactionHeader(Header, frozen=True, kw_only=True):
    """Fields of request 37 END_TRANSACTION."""

    topic: str | None = None
    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32  # 0 unknown, 8 commit, 12 rollback
    from_transaction_check: bool = False
    msg_id: str
    transaction_id: str | None = None


class RecallMessageHeader(Header, frozen=True, kw_only=True):
    """Fields of request 370 RECALL_MESSAGE."""

    producer_group: str | None = None
    topic: str
    recall_handle: str


class RecallMessageResponseHeader(Header, frozen=True, kw_only=True):
    msg_id: str | None = None
    region: str | None = msgspec.field(name="MSG_REGION", default=None)
