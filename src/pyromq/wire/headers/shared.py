"""Headers that several codes of several areas use."""

from __future__ import annotations

from pyromq.wire.headers.fields import Header, Int32, Int64


class TopicHeader(Header, frozen=True, kw_only=True):
    """217 REGISTER_TOPIC_IN_NAMESRV, 202, 215, 300: which topic."""

    topic: str


class ConsumerGroupHeader(Header, frozen=True, kw_only=True):
    """38 GET_CONSUMER_LIST_BY_GROUP, 40 NOTIFY_CONSUMER_IDS_CHANGED, 203: which group of consumers."""

    consumer_group: str


class TopicGroupHeader(Header, frozen=True, kw_only=True):
    """Fields of request 221 GET_CONSUMER_STATUS_FROM_CLIENT, 303 QUERY_CONSUME_TIME_SPAN."""

    topic: str
    group: str


class ResetOffsetHeader(Header, frozen=True, kw_only=True):
    """222 from an admin tool to the broker, 220 from there to the client."""

    topic: str
    group: str
    timestamp: Int64  # -1: latest
    is_force: bool = False
    queue_id: Int32 = -1  # -1: all
    offset: Int64 | None = None
    push_to_clients: bool | None = None  # ours, others pass it over: reset connected clients at once too


class ConsumerRunningInfoHeader(Header, frozen=True, kw_only=True):
    """307, from an admin tool to the broker and from there to the client."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeDirectlyHeader(Header, frozen=True, kw_only=True):
    """309, from an admin tool to the broker and from there to the client."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
