"""Limits of what topics, groups and clients may say about themselves; brokers and name servers share them.

A table goes to name servers and into files as a whole, so one entry beyond every measure would take the others with
it. The functions give what is wrong in words, or None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from pyromq.model.route import QUEUE_NUMS_MAX
from pyromq.model.topic import GroupConfig, TopicConfig

QUEUES_MAX: Final = QUEUE_NUMS_MAX  # of a topic on one broker, retry topics included
ATTRIBUTES_MAX: Final = 64  # of a topic or group
ATTRIBUTE_BYTES_MAX: Final = 1_024  # name and value of one
RETRY_POLICY_BYTES_MAX: Final = 4_096  # as JSON
GROUP_SUBSCRIPTIONS_BYTES_MAX: Final = 65_536  # of a group's configuration, as JSON
CLIENT_ID_CHARACTERS_MAX: Final = 1_000
REMARK_CHARACTERS_MAX: Final = 2_000  # of a refusal: names that a request gives may be as long as its header
_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1
_PERM_MAX: Final = 255  # more bits than are known: others may have more


def problem_of_topic(config: TopicConfig) -> str | None:
    """Names have their own rules, in ``names``."""
    topic = config.topic_name[:255]
    queues = (config.read_queue_nums, config.write_queue_nums)
    if not (0 <= min(queues) and max(queues) <= QUEUES_MAX):
        return f"queue numbers {queues} of topic {topic} are outside [0, {QUEUES_MAX}]"
    if not 0 <= config.perm <= _PERM_MAX:
        return f"permission {config.perm} of topic {topic} is outside [0, {_PERM_MAX}]"
    if not _INT_MIN <= config.topic_sys_flag <= _INT_MAX:
        return f"system flag {config.topic_sys_flag} of topic {topic} does not fit in 32 bits"
    return _problem_of_attributes(f"topic {topic}", config.attributes) if config.attributes else None


def problem_of_group(config: GroupConfig) -> str | None:
    group = config.group_name[:255]
    if not 0 <= config.retry_queue_nums <= QUEUES_MAX:
        return f"{config.retry_queue_nums} retry queues of group {group} are outside [0, {QUEUES_MAX}]"
    numbers = {
        "retryMaxTimes": config.retry_max_times,
        "groupSysFlag": config.group_sys_flag,
        "consumeTimeoutMinute": config.consume_timeout_minute,
    }
    for name, number in numbers.items():
        if not _INT_MIN <= number <= _INT_MAX:
            return f"{name} {number} of group {group} does not fit in 32 bits"
    for name, number in (
        ("brokerId", config.broker_id),
        ("whichBrokerWhenConsumeSlowly", config.which_broker_when_consume_slowly),
    ):
        if not -(1 << 63) <= number < 1 << 63:
            return f"{name} {number} of group {group} does not fit in 64 bits"
    if (size := _size(config.group_retry_policy)) > RETRY_POLICY_BYTES_MAX:
        return f"the retry policy of group {group} has {size} bytes, at most {RETRY_POLICY_BYTES_MAX} are allowed"
    if (size := _size(config.subscription_data_set)) > GROUP_SUBSCRIPTIONS_BYTES_MAX:
        allowed = f"at most {GROUP_SUBSCRIPTIONS_BYTES_MAX} are allowed"
        return f"the subscriptions in the configuration of group {group} have {size} bytes, {allowed}"
    return _problem_of_attributes(f"group {group}", config.attributes)


def _problem_of_attributes(owner: str, attributes: Mapping[str, str]) -> str | None:
    if len(attributes) > ATTRIBUTES_MAX:
        return f"{owner} would have {len(attributes)} attributes, at most {ATTRIBUTES_MAX} are allowed"
    for name, value in attributes.items():
        if (size := len(name.encode(errors="replace")) + len(value.encode(errors="replace"))) > ATTRIBUTE_BYTES_MAX:
            return f"attribute {name[:80]} of {owner} has {size} bytes, at most {ATTRIBUTE_BYTES_MAX} are allowed"
    return None


def _size(value: object) -> int:
    return len(msgspec.json.encode(value)) if value else 0
