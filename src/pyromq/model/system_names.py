"""Which topics and groups belong to the system and not to an application: the only list.

    run by the broker   delay levels, timers, prepared messages and their ends, everything under ``rmq_sys_``; groups
                        under ``CID_RMQ_SYS_``: a client may read them, and changes nothing
    system              those above, the topics and groups that every broker has from the start, topics named like a
                        cluster or a broker, Celery's control topics, the groups in which redrives keep their progress

Everything else belongs to an application, also a group that is called ``CID_billing``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Final

from pyromq.model.names import (
    DEAD_LETTER_PREFIX,
    DEFAULT_TOPIC,
    HALF_TOPIC,
    OP_HALF_TOPIC,
    REDRIVE_PREFIX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    is_control_topic,
)
from pyromq.model.topic import TopicConfig

MESSAGE_TYPE: Final = "message.type"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"
DISCARD_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
SYSTEM_PREFIX: Final = "rmq_sys_"
BROKER_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"
TOOL_GROUP: Final = "TOOLS_CONSUMER"
TOOL_PRODUCER: Final = "PYROMQ_TOOLS"
PRESET_GROUPS: Final = (
    TOOL_GROUP,
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    TRANSACTION_GROUP,
)
"""Groups that every broker has from the start."""

RUN_BY_BROKER: Final = frozenset((SCHEDULE_TOPIC, HALF_TOPIC, OP_HALF_TOPIC))
SEND_FORBIDDEN: Final = RUN_BY_BROKER | {DISCARD_TOPIC, SELF_TEST_TOPIC, OFFSET_MOVED_TOPIC}
SYSTEM_TOPICS: Final = SEND_FORBIDDEN | {DEFAULT_TOPIC, TIMER_TOPIC, TRACE_TOPIC, "BenchmarkTest", "CHECKPOINT_TOPIC"}
SYSTEM_GROUPS: Final = frozenset(
    (
        *PRESET_GROUPS,
        *(TOOL_PRODUCER, "SELF_TEST_P_GROUP", "CLIENT_INNER_PRODUCER", "SCHEDULE_CONSUMER", "__MONITOR_CONSUMER"),
    )
)
_SYSTEM_TOPIC_PREFIXES: Final = (SYSTEM_PREFIX, "RMQ_SYS_", "%SYS%")
_SYSTEM_GROUP_PREFIXES: Final = (BROKER_GROUP_PREFIX, f"{REDRIVE_PREFIX}_")
_REPLY_SUFFIX: Final = "_REPLY_TOPIC"


class TopicKind(StrEnum):
    """What a topic is for: by its name, else by the message type that RocketMQ 5 writes into its attributes."""

    NORMAL = "normal"
    FIFO = "fifo"
    DELAY = "delay"
    TRANSACTION = "transaction"
    MIXED = "mixed"
    LITE = "lite"
    PRIORITY = "priority"
    RETRY = "retry"
    DEAD_LETTERS = "dead-letters"
    SYSTEM = "system"

    @property
    def is_users(self) -> bool:
        """Whether an application made it, not the system for itself."""
        return self not in (TopicKind.RETRY, TopicKind.DEAD_LETTERS, TopicKind.SYSTEM)


_BY_MESSAGE_TYPE: Final = {kind.value: kind for kind in TopicKind if kind.is_users}


def reply_topic(cluster: str) -> str:
    """The topic over which the brokers of a cluster send replies."""
    return cluster + _REPLY_SUFFIX


def names_of_servers(clusters: Iterable[str], brokers: Iterable[str]) -> frozenset[str]:
    """Topics named like servers: each cluster and each broker has one of its name, and a cluster one for replies."""
    clusters = tuple(clusters)
    return frozenset((*clusters, *brokers, *map(reply_topic, clusters)))


def kind_of_topic(name: str, servers: Collection[str] = (), config: TopicConfig | None = None) -> TopicKind:
    """The kind of a topic; one that says nothing of itself is normal. ``servers``: see ``names_of_servers``."""
    if name.startswith(RETRY_PREFIX):
        return TopicKind.RETRY
    if name.startswith(DEAD_LETTER_PREFIX):
        return TopicKind.DEAD_LETTERS
    if is_system_topic(name, servers):
        return TopicKind.SYSTEM
    if config is None:
        return TopicKind.NORMAL
    declared = _BY_MESSAGE_TYPE.get(config.attributes.get(MESSAGE_TYPE, "").lower())
    return declared or (TopicKind.FIFO if config.order else TopicKind.NORMAL)


def is_system_topic(name: str, servers: Collection[str] = ()) -> bool:
    """Whether a topic belongs to the system; retry and dead-letter topics belong to their groups."""
    by_name = name in SYSTEM_TOPICS or name.startswith(_SYSTEM_TOPIC_PREFIXES)
    return by_name or name in servers or is_control_topic(name)


def is_run_by_broker(topic: str) -> bool:
    """Whether the broker itself reads and writes a topic: clients may look at it, and change nothing."""
    return topic in RUN_BY_BROKER or topic.startswith(SYSTEM_PREFIX)


def is_system_group(name: str) -> bool:
    """Whether a group belongs to the system: to brokers, to tools, to redrives."""
    return name in SYSTEM_GROUPS or name.startswith(_SYSTEM_GROUP_PREFIXES)


def has_no_namespace(name: str) -> bool:
    """Whether a topic or a group has the same name in every namespace."""
    fixed = name in SYSTEM_TOPICS or name.startswith(_SYSTEM_TOPIC_PREFIXES[:2]) or is_run_by_broker_group(name)
    return fixed or name in (TOOL_GROUP, "CLIENT_INNER_PRODUCER")


def is_run_by_broker_group(name: str) -> bool:
    """Whether the broker keeps its own progress in a group: clients may look at it, and change nothing."""
    return name.startswith(BROKER_GROUP_PREFIX)
