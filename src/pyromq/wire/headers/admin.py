"""What admin tools ask a broker about topics, groups, offsets and itself."""

from __future__ import annotations

import msgspec

from pyromq.wire.headers.fields import Header, Int32, Int64


class CreateTopicHeader(Header, frozen=True, kw_only=True):
    """Fields of request 17 UPDATE_AND_CREATE_TOPIC, 513 UPDATE_AND_CREATE_STATIC_TOPIC."""

    topic: str
    default_topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str  # SINGLE_TAG or MULTI_TAG
    topic_sys_flag: Int32 | None = None
    order: bool
    attributes: str | None = None  # +name=value,-name
    force: bool | None = None


class GetAllTopicConfigHeader(Header, frozen=True, kw_only=True):
    """21 GET_ALL_TOPIC_CONFIG: all at once, or in portions."""

    topic_seq: Int32 | None = None
    data_version: str | None = None
    max_topic_num: Int32 | None = None


class GetAllTopicConfigResponseHeader(Header, frozen=True, kw_only=True):
    total_topic_num: Int32 | None = None


class GetTopicConfigHeader(Header, frozen=True, kw_only=True):
    """Fields of request 351 GET_TOPIC_CONFIG."""

    topic: str
    logical: bool | None = msgspec.field(name="lo", default=None)


class GetAllGroupConfigHeader(Header, frozen=True, kw_only=True):
    """201 GET_ALL_SUBSCRIPTIONGROUP_CONFIG: all at once, or in portions."""

    group_seq: Int32 | None = None
    data_version: str | None = None
    max_group_num: Int32 | None = None


class GetAllGroupConfigResponseHeader(Header, frozen=True, kw_only=True):
    total_group_num: Int32 | None = None


class GroupHeader(Header, frozen=True, kw_only=True):
    """Fields of request 352 GET_SUBSCRIPTIONGROUP_CONFIG, 343 QUERY_TOPICS_BY_CONSUMER."""

    group: str


class DeleteGroupHeader(Header, frozen=True, kw_only=True):
    """Fields of request 207 DELETE_SUBSCRIPTIONGROUP."""

    group_name: str
    clean_offset: bool = False


class GroupForbiddenHeader(Header, frozen=True, kw_only=True):
    """Fields of request 353 UPDATE_AND_GET_GROUP_FORBIDDEN."""

    group: str
    topic: str
    readable: bool | None = None  # None: only ask


class ProducerGroupHeader(Header, frozen=True, kw_only=True):
    """Fields of request 204 GET_PRODUCER_CONNECTION_LIST."""

    producer_group: str


class GetConsumeStatsHeader(Header, frozen=True, kw_only=True):
    """Fields of request 208 GET_CONSUME_STATS."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None  # separated by semicolons


class GetBrokerConsumeStatsHeader(Header, frozen=True, kw_only=True):
    """Fields of request 317 GET_BROKER_CONSUME_STATS."""

    is_order: bool


class GetConsumerStatusHeader(Header, frozen=True, kw_only=True):
    """Fields of request 223 INVOKE_BROKER_TO_GET_CONSUMER_STATUS."""

    topic: str
    group: str
    client_addr: str | None = None  # in fact a client id


class CloneGroupOffsetHeader(Header, frozen=True, kw_only=True):
    """Fields of request 314 CLONE_GROUP_OFFSET."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class QuerySubscriptionHeader(Header, frozen=True, kw_only=True):
    """Fields of request 345 QUERY_SUBSCRIPTION_BY_CONSUMER."""

    group: str
    topic: str | None = None


class QueryCorrectionOffsetHeader(Header, frozen=True, kw_only=True):
    """Fields of request 308 QUERY_CORRECTION_OFFSET."""

    topic: str
    compare_group: str
    filter_groups: str | None = None


class GetBrokerConfigResponseHeader(Header, frozen=True, kw_only=True):
    """Fields of request 26 GET_BROKER_CONFIG."""

    version: str | None = None  # a DataVersion as JSON text


class ViewBrokerStatsHeader(Header, frozen=True, kw_only=True):
    """Fields of request 315 VIEW_BROKER_STATS_DATA."""

    stats_name: str
    stats_key: str


class QueryConsumeQueueHeader(Header, frozen=True, kw_only=True):
    """Fields of request 321 QUERY_CONSUME_QUEUE."""

    topic: str
    queue_id: Int32
    index: Int64
    count: Int32
    consumer_group: str | None = None


class ResumeCheckHalfMessageHeader(Header, frozen=True, kw_only=True):
    """Fields of request 323 RESUME_CHECK_HALF_MESSAGE."""

    topic: str | None = None
    msg_id: str | None = None
