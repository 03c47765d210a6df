"""Receiving without owning queues. These codes do not fit a binary header: they travel as JSON only."""

from __future__ import annotations

from pyromq.wire.headers.fields import Header, Int32, Int64


class PopHeader(Header, frozen=True, kw_only=True):
    """Fields of request 200050 POP_MESSAGE."""

    consumer_group: str
    topic: str
    queue_id: Int32  # -1: any
    max_msg_nums: Int32
    invisible_time: Int64
    poll_time: Int64
    born_time: Int64 = 0  # 0: now, by the broker's clock
    init_mode: Int32  # 0: from the oldest message, 1: from the newest
    exp_type: str | None = None
    exp: str | None = None
    order: bool | None = None
    attempt_id: str | None = None


class PopResponseHeader(Header, frozen=True, kw_only=True):
    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32
    rest_num: Int64
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class AckHeader(Header, frozen=True, kw_only=True):
    """Fields of request 200051 ACK_MESSAGE."""

    consumer_group: str
    topic: str  # the one the message was read from, perhaps a retry topic
    queue_id: Int32
    extra_info: str
    offset: Int64


class PeekHeader(Header, frozen=True, kw_only=True):
    """Fields of request 200052 PEEK_MESSAGE."""

    consumer_group: str
    topic: str
    queue_id: Int32
    max_msg_nums: Int32


class PeekResponseHeader(Header, frozen=True, kw_only=True):
    """Response fields of a peek: those of a pop, most of them optional, because nothing becomes invisible."""

    pop_time: Int64 | None = None
    invisible_time: Int64 | None = None
    revive_qid: Int32 | None = None
    rest_num: Int64
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class ChangeInvisibleTimeHeader(Header, frozen=True, kw_only=True):
    """Fields of request 200053 CHANGE_MESSAGE_INVISIBLETIME."""

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: Int64
    invisible_time: Int64
    suspend: bool | None = None  # this delivery does not count


class ChangeInvisibleTimeResponseHeader(Header, frozen=True, kw_only=True):
    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32


class ForwardToDeadLettersHeader(Header, frozen=True, kw_only=True):
    """31040 FORWARD_TO_DEAD_LETTERS, ours: a message that was popped goes to %DLQ% of its group now."""

    consumer_group: str
    topic: str  # the one that was popped, whatever queue the message lies in
    extra_info: str


class NotificationHeader(Header, frozen=True, kw_only=True):
    """Fields of request 200054 NOTIFICATION."""

    consumer_group: str
    topic: str
    queue_id: Int32
    poll_time: Int64
    born_time: Int64
    order: bool | None = None
    attempt_id: str | None = None
    exp_type: str | None = None
    exp: str | None = None


class NotificationResponseHeader(Header, frozen=True, kw_only=True):
    has_msg: bool
    polling_full: bool = False


class PollingInfoHeader(Header, frozen=True, kw_only=True):
    """Fields of request 200055 POLLING_INFO; with an offset, PyroMQ's brokers also say what became of that message."""

    consumer_group: str
    topic: str
    queue_id: Int32
    offset: Int64 | None = None


class PollingInfoResponseHeader(Header, frozen=True, kw_only=True):
    polling_num: Int32
    attempts: Int32 | None = None  # how often it was delivered; None: the group does not pop, or it never was
    invisible_until: Int64 | None = None  # by the broker's clock; in the past: it is ready to be delivered again
    settled: bool | None = None  # it will not be delivered any more
