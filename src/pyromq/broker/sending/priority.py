"""Priority messages: the queue is the priority, and pops of a topic of type PRIORITY begin with its last queue."""

from __future__ import annotations

from typing import Final

from pyromq.model import property_names as names
from pyromq.wire.property_text import item_key, number_of, value_of, without

_OTHER_KINDS: Final = tuple(
    item_key(name)
    for name in (
        names.DELAY,
        names.TIMER_DELIVER_MS,
        names.TIMER_DELAY_SEC,
        names.TIMER_DELAY_MS,
        names.SHARDING_KEY,
    )
)


def queue_by_priority(text: str, queue_id: int, write_queues: int) -> tuple[int, str]:
    """Return the queue of a message and its properties; RocketMQ's rule.

    A message that is also delayed, ordered or prepared is not a priority message: it loses the property.
    """
    priority = number_of(text, names.PRIORITY)
    if priority is None or priority < 0:
        return queue_id, text
    is_prepared = value_of(text, names.PREPARED).lower() == "true"
    if is_prepared or any(key in text for key in _OTHER_KINDS):
        return queue_id, without(text, (names.PRIORITY,))
    return min(priority, max(1, write_queues) - 1), text
