"""Topics and consumer groups as brokers configure them; field names are RocketMQ's, in snake case."""

from __future__ import annotations

from enum import Enum, IntFlag
from typing import Any

import msgspec


class Perm(IntFlag):
    """What clients may do with a topic."""

    NONE = 0
    INHERIT = 1  # may serve as template for automatically created topics
    WRITE = 2
    READ = 4
    PRIORITY = 8
    READ_WRITE = 6


class TopicFilterType(Enum):
    SINGLE_TAG = "SINGLE_TAG"
    MULTI_TAG = "MULTI_TAG"


class DataVersion(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Version of a configuration table: every change takes the time and counts one up."""

    counter: int = 0
    state_version: int = 0
    timestamp: int = 0

    def next(self, now_ms: int) -> DataVersion:
        return DataVersion(counter=self.counter + 1, state_version=self.state_version, timestamp=now_ms)


class TopicConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    topic_name: str
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = 6
    topic_filter_type: TopicFilterType = TopicFilterType.SINGLE_TAG
    topic_sys_flag: int = 0
    order: bool = False
    attributes: dict[str, str] = {}


class GroupConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A consumer group (RocketMQ: SubscriptionGroupConfig)."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    group_retry_policy: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "CUSTOMIZED"})
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    subscription_data_set: list[dict[str, Any]] | None = None
    attributes: dict[str, str] = {}
