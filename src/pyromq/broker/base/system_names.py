"""What the broker runs on itself: topics and groups that clients may look at, and not change.

    run by the broker   delay levels, timers, prepared messages and their ends, everything under ``rmq_sys_``;
                        groups under ``CID_RMQ_SYS_``: no sends, offsets, locks, resets, updates or deletions
    kept by the broker  those above, discarded transactions, events: no sends, and read like any other topic

Every handler that changes something asks here, so that the rule is the same for all request codes. Trace, reply,
retry and dead-letter topics belong to clients. Reading stays open: tools look into all of them.
"""

from __future__ import annotations

from typing import Final

from pyromq.broker.base.refusals import RefusedError
from pyromq.model.names import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC
from pyromq.wire.codes import ResponseCode

SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"
DISCARD_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
SYSTEM_PREFIX: Final = "rmq_sys_"
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"

RUN_BY_BROKER: Final = frozenset((SCHEDULE_TOPIC, HALF_TOPIC, OP_HALF_TOPIC))
SEND_FORBIDDEN: Final = RUN_BY_BROKER | {DISCARD_TOPIC, SELF_TEST_TOPIC, OFFSET_MOVED_TOPIC}


def is_run_by_broker(topic: str) -> bool:
    return topic in RUN_BY_BROKER or topic.startswith(SYSTEM_PREFIX)


def is_system_group(group: str) -> bool:
    return group.startswith(SYSTEM_GROUP_PREFIX)


def refuse_send(topic: str) -> None:
    """Raises RefusedError for a topic that only the broker writes."""
    if topic in SEND_FORBIDDEN or topic.startswith(SYSTEM_PREFIX):
        raise RefusedError(ResponseCode.NO_PERMISSION, f"clients are not allowed to send to topic {topic}")


def refuse_change(*, topic: str | None = None, group: str | None = None) -> None:
    """Raises RefusedError when a client would change how far the broker itself is, or how it is configured."""
    if topic and is_run_by_broker(topic):
        text = f"topic {topic} is run by the broker: clients may read it, nothing else"
        raise RefusedError(ResponseCode.NO_PERMISSION, text)
    if group and is_system_group(group):
        text = f"group {group} belongs to the broker: clients may look at it, nothing else"
        raise RefusedError(ResponseCode.NO_PERMISSION, text)
