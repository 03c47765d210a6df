"""Refusals for what the broker runs on itself (``model.system_names``): clients may look at it, and not change it.

    run by the broker   no sends, offsets, locks, resets, updates or deletions
    kept by the broker  those above, discarded transactions, events: no sends, and read like any other topic

Every handler that changes something asks here, so that the rule is the same for all request codes. Trace, reply,
retry and dead-letter topics belong to clients. Reading stays open: tools look into all of them.
"""

from __future__ import annotations

from pyromq.broker.base.refusals import RefusedError
from pyromq.model.system_names import SEND_FORBIDDEN, SYSTEM_PREFIX, is_run_by_broker, is_run_by_broker_group
from pyromq.wire.codes import ResponseCode


def refuse_send(topic: str) -> None:
    """Refuse sends to a topic that only the broker writes. Raises RefusedError."""
    if topic in SEND_FORBIDDEN or topic.startswith(SYSTEM_PREFIX):
        raise RefusedError(ResponseCode.NO_PERMISSION, f"clients are not allowed to send to topic {topic}")


def refuse_change(*, topic: str | None = None, group: str | None = None) -> None:
    """Refuse a client that would change the broker's own offsets or configuration. Raises RefusedError."""
    if topic and is_run_by_broker(topic):
        text = f"topic {topic} is run by the broker: clients may read it, nothing else"
        raise RefusedError(ResponseCode.NO_PERMISSION, text)
    if group and is_run_by_broker_group(group):
        text = f"group {group} belongs to the broker: clients may look at it, nothing else"
        raise RefusedError(ResponseCode.NO_PERMISSION, text)
