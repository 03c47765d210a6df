"""What a broker asks of its clients, apart from what it passes on for admin tools (shared.py)."""

from __future__ import annotations

import msgspec

from pyromq.wire.headers.fields import Header, Int32, Int64


class CheckTransactionHeader(Header, frozen=True, kw_only=True):
    """Fields of request 39 CHECK_TRANSACTION_STATE."""

    topic: str | None = None
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    broker_name: str | None = msgspec.field(name="bname", default=None)


class PushReplyHeader(Header, frozen=True, kw_only=True):
    """Fields of request 326 PUSH_REPLY_MESSAGE_TO_CLIENT."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    born_host: str  # ip:port
    store_host: str  # ip:port
    store_timestamp: Int64
