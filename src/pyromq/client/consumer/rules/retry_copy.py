"""The copy of a message that goes to the group's retry topic as an ordinary send.

Used when the broker that holds the original cannot take it back (36 failed), and by orderly consumers to bury a message
that failed too often: the broker reads attempts and limit from the copy, and moves it to the dead letters when the
limit is exceeded or the group holds locks on queues, which only orderly consumers do.
"""

from __future__ import annotations

from typing import Final

from pyromq.client.consumer.rules.message_protocol import PulledMessage
from pyromq.model import property_names as names

ATTEMPT: Final = names.RECONSUME_TIME  # the producer moves this and the next one into the header of the send
ATTEMPTS_MAX: Final = names.MAX_RECONSUME_TIMES
FIRST_RETRY_LEVEL: Final = 3
UNLIMITED: Final = (1 << 31) - 1

# true of the original alone
_LEFT_OUT: Final = (names.PREPARED, names.MIN_OFFSET, names.MAX_OFFSET, names.CONSUME_START_TIME)


def resend_properties(
    message: PulledMessage, *, stored_topic: str, message_id: str, attempts_max: int | None, delay_level: int = 0
) -> dict[str, str]:
    """Properties of the copy; ``stored_topic`` is the topic of the original as servers know it.

    This failure is added to those before; more than ``attempts_max`` make it a dead letter. ``delay_level`` 0 stands
    for the level that a broker would choose. A message that was retried before keeps the topic and the id of its first
    copy.
    """
    attempt = message.delivery_attempt
    properties = {name: value for name, value in message.properties.items() if name not in _LEFT_OUT}
    properties.setdefault(names.RETRY_TOPIC, stored_topic)
    properties.setdefault(names.ORIGIN_MESSAGE_ID, message_id)
    properties[ATTEMPT] = str(attempt + 1)
    properties[ATTEMPTS_MAX] = str(UNLIMITED if attempts_max is None else attempts_max)
    properties[names.DELAY] = str(delay_level if delay_level > 0 else FIRST_RETRY_LEVEL + attempt)
    return properties
