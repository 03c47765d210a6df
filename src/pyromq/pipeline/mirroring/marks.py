"""Where a copy comes from, and what it keeps of its message.

    MIRRORED_FROM    broker-a:3:1250        broker, queue and offset in the cluster that is mirrored

The mark is the progress of a mirror: the newest copy in a queue says where to go on, so message and progress are stored
by one write, and no crash comes between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from pyromq.model import property_names as names
from pyromq.model.failure import STORY_NAMES
from pyromq.model.queue import QueueId
from pyromq.operate.resend.outgoing import application_properties

MIRRORED_FROM: Final = "MIRRORED_FROM"
_KEPT: Final = (names.UNIQUE_KEY,)
_KEPT_OF_RETRIES: Final = (
    *_KEPT, names.RETRY_TOPIC, names.ORIGIN_MESSAGE_ID, names.DLQ_ERROR, names.DLQ_STAGE, *STORY_NAMES,
)  # fmt: skip


class MirroredFrom(NamedTuple):
    """The place of a message in the cluster that is mirrored; its topic has the same name in both."""

    broker: str
    queue: int
    offset: int

    def is_of(self, queue: QueueId) -> bool:
        return (self.broker, self.queue) == (queue.broker, queue.number)


def mark_of(queue: QueueId, offset: int) -> str:
    return f"{queue.broker}:{queue.number}:{offset}"


def mirrored_from(text: str | None) -> MirroredFrom | None:
    """Read a mark; None where there is none, or one that no mirror wrote."""
    broker, *numbers = (text or "").rsplit(":", 2)
    if len(numbers) != 2 or not all(part.isascii() and part.isdigit() for part in numbers):
        return None
    return MirroredFrom(broker, int(numbers[0]), int(numbers[1]))


def copied_properties(given: Mapping[str, str], queue: QueueId, offset: int, *, is_retry: bool) -> dict[str, str]:
    """Properties of a copy: those of the application, its id, its mark; a retry also keeps whose it is, and why."""
    kept = _KEPT_OF_RETRIES if is_retry else _KEPT
    found = dict(application_properties(given))
    found.update((name, given[name]) for name in kept if name in given)
    return found | {MIRRORED_FROM: mark_of(queue, offset)}
