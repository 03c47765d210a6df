"""Pulling, looking up, offsets and membership."""

from __future__ import annotations

import msgspec

from pyromq.wire.headers.fields import Header, Int32, Int64


class PullHeader(Header, frozen=True, kw_only=True):
    """Fields of request 11 PULL_MESSAGE, 361 LITE_PULL_MESSAGE."""

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: Int64
    suspend_timeout_millis: Int64
    subscription: str | None = None
    sub_version: Int64
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None
    request_source: Int32 | None = None
    proxy_forward_client_id: str | None = msgspec.field(name="proxyFrowardClientId", default=None)  # sic
    broker_name: str | None = msgspec.field(name="bname", default=None)


class PullResponseHeader(Header, frozen=True, kw_only=True):
    """Every response with code 0, 19, 20 or 21 has the four required numbers."""

    suggest_which_broker_id: Int64
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
    offset_delta: Int64 | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None


class QueryMessageHeader(Header, frozen=True, kw_only=True):
    """Fields of request 12 QUERY_MESSAGE."""

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    unique_key_query: bool | None = msgspec.field(name="_UNIQUE_KEY_QUERY", default=None)
    places_only: bool | None = None  # ours: queues and offsets are wanted, no messages


class QueryMessageResponseHeader(Header, frozen=True, kw_only=True):
    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64
    older_unseen: bool | None = None  # ours: older messages may have the key, too; there were too many with its hash
    all_found: bool | None = None  # ours, to a request for places: no other message of the topic has the key


class ViewMessageHeader(Header, frozen=True, kw_only=True):
    """Fields of request 33 VIEW_MESSAGE_BY_ID."""

    topic: str | None = None
    position: Int64 = msgspec.field(name="offset")  # a byte of the commit log


class QueryConsumerOffsetHeader(Header, frozen=True, kw_only=True):
    """Fields of request 14 QUERY_CONSUMER_OFFSET."""

    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None


class OffsetResponseHeader(Header, frozen=True, kw_only=True):
    """Response to 14, 29, 30 and 31."""

    offset: Int64


class UpdateConsumerOffsetHeader(Header, frozen=True, kw_only=True):
    """Fields of request 15 UPDATE_CONSUMER_OFFSET."""

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64


class SearchOffsetHeader(Header, frozen=True, kw_only=True):
    """Fields of request 29 SEARCH_OFFSET_BY_TIMESTAMP."""

    topic: str
    queue_id: Int32
    timestamp: Int64
    boundary_type: str | None = None  # LOWER (also None) or UPPER, in any case


class GetMaxOffsetHeader(Header, frozen=True, kw_only=True):
    """Fields of request 30 GET_MAX_OFFSET."""

    topic: str
    queue_id: Int32
    committed: bool | None = None


class QueueHeader(Header, frozen=True, kw_only=True):
    """Fields of request 31 GET_MIN_OFFSET, 32 GET_EARLIEST_MSG_STORETIME."""

    topic: str
    queue_id: Int32


class EarliestStoreTimeResponseHeader(Header, frozen=True, kw_only=True):
    timestamp: Int64


class HeartbeatResponseHeader(Header, frozen=True, kw_only=True):
    """34 HEART_BEAT; the request has a body only."""

    is_support_heart_beat_v2: bool | None = msgspec.field(name="IS_SUPPORT_HEART_BEAT_V2", default=None)
    is_sub_change: bool | None = msgspec.field(name="IS_SUB_CHANGE", default=None)
    takes_stories: bool | None = msgspec.field(name="PYROMQ_FAILURE_STORY", default=None)  # ``failure_story`` of 36
    odd_subscriptions: str | None = msgspec.field(name="PYROMQ_ODD_SUBSCRIPTIONS", default=None)  # JSON: group → text


class UnregisterClientHeader(Header, frozen=True, kw_only=True):
    """Fields of request 35 UNREGISTER_CLIENT."""

    client_id: str = msgspec.field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class SendBackHeader(Header, frozen=True, kw_only=True):
    """Fields of request 36 CONSUMER_SEND_MSG_BACK."""

    position: Int64 = msgspec.field(name="offset")  # a byte of the commit log
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int32 | None = None
    failure_story: str | None = None  # PyroMQ's own: properties that say why it failed (``model.failure``)


class QueryRangesHeader(Header, frozen=True, kw_only=True):
    """31050 QUERY_QUEUE_RANGES (ours). ``watch``: changes are collected for requests 31051 that follow."""

    watch: bool = False


class AwaitRangesHeader(Header, frozen=True, kw_only=True):
    """31051 AWAIT_QUEUE_RANGES (ours): what changed since the last response about this watch."""

    watch_id: Int64
    wait_millis: Int64 = 0


class RangesResponseHeader(Header, frozen=True, kw_only=True):
    """Response fields of 31050 and 31051. ``watch_id`` 0: nothing is watched, so all has to be asked for again;
    ``more``: at once.

    Of 31050 with a group: how many consumers it has here, and how many other connections watch queues for it.
    """

    watch_id: Int64 = 0
    more: bool = False
    members: Int32 = 0
    watchers: Int32 = 0
