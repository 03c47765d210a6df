"""Properties of timer messages: when they are due, what they cancel, how often they went through their topic."""

from __future__ import annotations

from typing import Final

from pyromq.broker.base.record_copy import properties_of
from pyromq.model import property_names as names
from pyromq.model.property_names import REAL_TOPIC
from pyromq.model.property_names import TIMER_DELETED_KEY as CANCEL
from pyromq.model.property_names import TIMER_OUT_MS as DUE
from pyromq.store.timers.files import Waiting
from pyromq.store.timers.log import SECOND_MS
from pyromq.wire.java_hash import tag_hash
from pyromq.wire.properties import find_property
from pyromq.wire.property_text import number_of, with_values
from pyromq.wire.record import Record, RecordFound

_SENDING_MS: Final = 5  # between the time a message was given and the time it was stored
_NEVER_MS: Final = 1 << 62


def cancelled_key(properties: bytes) -> bytes:
    """``topic+key`` of the message that a cancellation is about."""
    return full_key(properties, CANCEL.encode())


def full_key(properties: bytes, name: bytes) -> bytes:
    """``topic+key``, with the key that stands in the property ``name``."""
    topic, key = find_property(properties, REAL_TOPIC.encode()) or b"", find_property(properties, name) or b""
    return key if key.startswith(topic + b"+") else topic + b"+" + key  # RocketMQ can be asked to write it either way


def due_of(properties: bytes) -> int | None:
    """The time at which a timer is due by its own account, whatever second the files have given it."""
    due = find_property(properties, DUE.encode())
    return int(due) if due is not None and due.isdigit() else None


def waiting_of(record: RecordFound, position: int, size: int) -> Waiting | None:
    """What the files need to know of a message of the timer topic; None when it says no time."""
    properties = record.properties
    due_ms = due_of(properties)
    if due_ms is None:
        return None
    return Waiting(
        due_ms=due_ms,
        position=position,
        size=size,
        stored_ms=record.stored_ms,
        is_cancel=find_property(properties, CANCEL.encode()) is not None,
        by_second=due_ms % SECOND_MS == 0 and _wanted_ms(properties, record.stored_ms) > due_ms + _SENDING_MS,
        topic_hash=tag_hash(find_property(properties, REAL_TOPIC.encode()) or b""),
    )


def _wanted_ms(properties: bytes, stored_ms: int) -> int:
    """The time that the sender asked for, which RocketMQ moves to the second before it."""
    text = properties.decode("utf-8", "replace")
    if (at_ms := number_of(text, names.TIMER_DELIVER_MS)) is not None:
        return at_ms
    if number_of(text, names.TIMER_ROLL_TIMES):
        return _NEVER_MS  # when it was sent is not known any more: rather a second late than one early
    seconds, more_ms = number_of(text, names.TIMER_DELAY_SEC) or 0, number_of(text, names.TIMER_DELAY_MS) or 0
    return stored_ms + seconds * 1_000 + more_ms


def rolled(record: Record, now_ms: int) -> bytes:
    """Properties of a message that goes through the topic once more."""
    text = properties_of(record).decode("utf-8", "surrogateescape")
    times = (number_of(text, names.TIMER_ROLL_TIMES) or 0) + 1
    changes = {names.TIMER_ENQUEUE_MS: record.stored_ms, names.TIMER_DEQUEUE_MS: now_ms, names.TIMER_ROLL_TIMES: times}
    text = with_values(text, {name: str(value) for name, value in changes.items()})
    return text.encode("utf-8", "surrogateescape")
