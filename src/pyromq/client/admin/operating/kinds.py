"""Which topics and groups belong to users, and which to the system, by their names."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Final

from pyromq.model.names import (
    DEAD_LETTER_PREFIX,
    DEFAULT_TOPIC,
    HALF_TOPIC,
    OP_HALF_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    is_control_topic,
)
from pyromq.wire.json.route import ClusterInfo

_OF_BROKERS: Final = ("BenchmarkTest", "OFFSET_MOVED_EVENT", "SELF_TEST_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC")
_SYSTEM_TOPICS: Final = frozenset((DEFAULT_TOPIC, SCHEDULE_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, *_OF_BROKERS))
_SYSTEM_TOPIC_PREFIXES: Final = ("rmq_sys_", "RMQ_SYS_")
_SYSTEM_GROUP_PREFIXES: Final = ("CID_", "TOOLS_", "FILTERSRV_", "SELF_TEST_", "PYROMQ_REDRIVE_")
_REPLY_SUFFIX: Final = "_REPLY_TOPIC"


class TopicKind(StrEnum):
    """Whose a topic is."""

    TOPIC = "topic"
    RETRY = "retry"
    DEAD_LETTER = "dead letter"
    SYSTEM = "system"


def names_of_servers(info: ClusterInfo) -> frozenset[str]:
    """Each cluster and each broker has a topic of its name, and a cluster one for replies."""
    clusters = info.cluster_addr_table
    return frozenset((*clusters, *info.broker_addr_table, *(cluster + _REPLY_SUFFIX for cluster in clusters)))


def kind_of_topic(name: str, servers: Collection[str] = ()) -> TopicKind:
    """``servers``: what ``names_of_servers`` gives."""
    if name.startswith(RETRY_PREFIX):
        return TopicKind.RETRY
    if name.startswith(DEAD_LETTER_PREFIX):
        return TopicKind.DEAD_LETTER
    by_name = name in _SYSTEM_TOPICS or name.startswith(_SYSTEM_TOPIC_PREFIXES) or is_control_topic(name)
    is_system = by_name or name in servers
    return TopicKind.SYSTEM if is_system else TopicKind.TOPIC


def is_system_group(name: str) -> bool:
    return name.startswith(_SYSTEM_GROUP_PREFIXES)
