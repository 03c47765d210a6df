"""Names of topics and groups: what RocketMQ allows, and the names it derives from others.

A valid name consists of ``% | a-z A-Z 0-9 _ -`` only, so it is also a safe folder name: no separator, no dot.
"""

from __future__ import annotations

import hashlib
import re

from pyromq.errors import InvalidNameError

RETRY_PREFIX = "%RETRY%"
DEAD_LETTER_PREFIX = "%DLQ%"
TOPIC_CHARACTERS_MAX = 127
DERIVED_TOPIC_CHARACTERS_MAX = 255  # retry and dead-letter topics carry a group name behind their prefix
GROUP_CHARACTERS_MAX = 120
REDRIVE_PREFIX = "PYROMQ_REDRIVE"

DEFAULT_TOPIC = "TBW102"  # template of automatically created topics
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"  # delay levels
TIMER_TOPIC = "rmq_sys_wheel_timer"  # arbitrary delays
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
POP_JOURNAL_TOPIC = "rmq_sys_pyromq_pop"  # what was handed out, acknowledged and made visible again

_is_valid = re.compile(r"[%|a-zA-Z0-9_-]+").fullmatch
_is_valid_retry = re.compile(r"%RETRY%[%|a-zA-Z0-9_+-]+").fullmatch  # RocketMQ joins group and topic by +


_is_control_topic = re.compile(r"exchange-(?:.+-pidbox|celeryev)-[0-9a-f]{12}").fullmatch


def is_control_topic(name: str) -> bool:
    """Whether Celery's workers talk about themselves there (``integrations.task_queues`` names topics of exchanges):
    remote control, its replies, and events."""
    return _is_control_topic(name) is not None


def validate_topic(name: str) -> str:
    """The name itself. Raises InvalidNameError, which says what is wrong with it."""
    derived = isinstance(name, str) and name.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX))
    return _validate("topic", name, DERIVED_TOPIC_CHARACTERS_MAX if derived else TOPIC_CHARACTERS_MAX)


def validate_group(name: str) -> str:
    """The name itself. Raises InvalidNameError, which says what is wrong with it."""
    return _validate("group", name, GROUP_CHARACTERS_MAX)


def retry_topic(group: str) -> str:
    return RETRY_PREFIX + group


def pop_retry_topic(group: str, topic: str) -> str:
    """Where Apache RocketMQ puts messages of a topic that a popping group did not acknowledge in time."""
    return f"{RETRY_PREFIX}{group}_{topic}"


def pop_retry_topic_v2(group: str, topic: str) -> str:
    """Name of a popping group's retry topic with ``enableRetryTopicV2``; ``+`` stands in no name, so it cannot be
    another group's.
    """
    return f"{RETRY_PREFIX}{group}+{topic}"


def dead_letter_topic(group: str) -> str:
    return DEAD_LETTER_PREFIX + group


def redrive_group(group: str) -> str:
    """The group whose offsets say how far the dead letters of another one are redriven."""
    name = f"{REDRIVE_PREFIX}_{group}"
    if len(name) <= GROUP_CHARACTERS_MAX:
        return name
    return f"{REDRIVE_PREFIX}_{hashlib.blake2b(group.encode(), digest_size=16).hexdigest()}"


def _validate(kind: str, name: str, characters_max: int) -> str:
    if not isinstance(name, str):
        raise InvalidNameError(kind=kind, name=repr(name), reason=f"it must be text, not {type(name).__name__}")
    if not name or name.isspace():
        raise InvalidNameError(kind=kind, name=name, reason="it is blank")
    if len(name) > characters_max:
        raise InvalidNameError(
            kind=kind, name=name, reason=f"it has {len(name)} characters, at most {characters_max} are allowed"
        )
    if not _is_valid(name) and not (kind == "topic" and _is_valid_retry(name)):
        raise InvalidNameError(kind=kind, name=name, reason="only the characters % | a-z A-Z 0-9 _ - are allowed")
    return name
