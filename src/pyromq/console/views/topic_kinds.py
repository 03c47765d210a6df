"""Kinds of topics: by their names, and by what RocketMQ 5 writes into their attributes. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Final

from pyromq.model.names import DEAD_LETTER_PREFIX, RETRY_PREFIX, is_control_topic
from pyromq.model.topic import TopicConfig

MESSAGE_TYPE: Final = "message.type"
_SYSTEM_PREFIXES: Final = ("rmq_sys_", "RMQ_SYS_", "%SYS%")
_SYSTEM: Final = frozenset(
    (
        *("TBW102", "SCHEDULE_TOPIC_XXXX", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT", "BenchmarkTest"),
        "TRANS_CHECK_MAX_TIME_TOPIC",
    )
)
_REPLY_SUFFIX: Final = "_REPLY_TOPIC"


class TopicKind(StrEnum):
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


_BY_NAME: Final = {kind.value: kind for kind in TopicKind if kind.is_users}


def kind_of(name: str, configs: Mapping[str, TopicConfig], system: Collection[str]) -> TopicKind:
    """Of a topic that says nothing of itself: normal."""
    if name.startswith(RETRY_PREFIX):
        return TopicKind.RETRY
    if name.startswith(DEAD_LETTER_PREFIX):
        return TopicKind.DEAD_LETTERS
    by_name = name in _SYSTEM or name.startswith(_SYSTEM_PREFIXES) or name.endswith(_REPLY_SUFFIX)
    if by_name or name in system or is_control_topic(name):
        return TopicKind.SYSTEM
    config = configs.get(name)
    if config is None:
        return TopicKind.NORMAL
    told = _BY_NAME.get(config.attributes.get(MESSAGE_TYPE, "").lower())
    return told or (TopicKind.FIFO if config.order else TopicKind.NORMAL)
