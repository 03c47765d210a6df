"""Send-back without I/O: the request that gives a failed message back, and the copy that replaces it.

A message that failed goes back to its broker in one of two forms:

    send-back   36 CONSUMER_SEND_MSG_BACK names the stored message; the broker delivers a copy of it again later, or
                makes it a dead letter (level below 0, or too many attempts)
    retry copy  an ordinary send to the group's retry topic, with the body: for a broker that cannot find the message
                any more, or cannot be reached; and for dead letters that carry properties of ours, or come from
                orderly consumers. The broker reads attempts and limit from the copy's header: one with more attempts
                than it may have becomes a dead letter, and so does any copy of a group that holds locks on queues,
                which only orderly consumers do

``base.send_back`` sends both, for consumers and for the pipeline. Either says why the message failed
(``model.failure``): a send-back to a broker that is known to take that (PyroMQ's; Apache's would drop it), else the
copy. A story that makes the properties too long loses its traceback, or is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from pyromq.model import property_names as names
from pyromq.model.failure import STORY_BYTES_MAX, STORY_NAMES, FailureStory
from pyromq.wire.headers.consumer import SendBackHeader
from pyromq.wire.properties import PROPERTIES_BYTES_MAX
from pyromq.wire.property_text import join_items, value_of, with_values, without

FIRST_RETRY_LEVEL: Final = 3
COPY_BYTES_MAX: Final = PROPERTIES_BYTES_MAX - 1_024
"""Of the properties of a copy with a story: brokers add some of their own (where it goes after its delay)."""

_LEFT_OUT: Final = (
    *(names.PREPARED, names.MIN_OFFSET, names.MAX_OFFSET, names.CONSUME_START_TIME),  # true of the original alone
    *(names.DELAY, names.WAIT),  # its producer's wishes; a copy counts only when it is stored as safely as can be
)
_NOTHING: Final[Mapping[str, str]] = {}


class FailedMessage(Protocol):
    """What a send-back needs to know; messages of consumers and rows of Spark have it."""

    @property
    def broker(self) -> str: ...

    @property
    def position(self) -> int:
        """Where the broker has stored it."""

    @property
    def stored_topic(self) -> str:
        """The topic whose queue it came from."""

    @property
    def message_id(self) -> str:
        """Empty when it has none."""

    @property
    def delivery_attempt(self) -> int:
        """How often it was delivered before; 0 the first time."""

    @property
    def flag(self) -> int: ...

    @property
    def unreported_story(self) -> FailureStory | None:
        """Why it failed, this time and before; None when its properties say all there is."""


def send_back_header(
    message: FailedMessage, group: str, delay_level: int, *, topic: str, attempts_max: int | None
) -> SendBackHeader:
    """``topic`` is the one it came from, as servers know it; ``attempts_max`` None means that of the group."""
    return SendBackHeader(
        position=message.position,
        group=group,
        delay_level=delay_level,
        origin_msg_id=message.message_id or None,
        origin_topic=topic,
        max_reconsume_times=attempts_max,
        failure_story=story_text(message.unreported_story) or None,
    )


def story_text(story: FailureStory | None) -> str:
    """Encode a failure story as properties; empty when there is none, or it is too large."""
    text = "" if story is None else join_items(story.properties().items())
    return text if len(text) <= STORY_BYTES_MAX and len(text.encode()) <= STORY_BYTES_MAX else ""


def copy_properties(
    properties: str,
    *,
    topic: str,
    message_id: str,
    delay_level: int = 0,
    story: FailureStory | None = None,
    more: Mapping[str, str] = _NOTHING,
) -> str:
    """Properties of a retry copy, from those of the original; ``topic`` is where that is stored.

    A message that was retried before keeps the topic and the id of its first copy. ``more`` is added, and ``story``
    where there is room for it; a level of 0 leaves the delay out.
    """
    text = without(properties, _LEFT_OUT)
    origin = {names.RETRY_TOPIC: topic, names.ORIGIN_MESSAGE_ID: message_id}
    values = {name: value for name, value in origin.items() if value and not value_of(text, name)}
    if delay_level:
        values[names.DELAY] = str(delay_level)
    whole = with_values(text, {**values, **more})
    if story is None:
        return whole
    for with_traceback in (True, False):
        copied = with_values(whole, story.properties(with_traceback=with_traceback), drop=STORY_NAMES)
        if len(copied.encode("utf-8", "replace")) <= COPY_BYTES_MAX:
            return copied
    return without(whole, STORY_NAMES)


def copy_level(delay_level: int, delivery_attempt: int) -> int:
    """The delay of a retry copy; 0 and less stand for the level that a broker would choose."""
    return delay_level if delay_level > 0 else FIRST_RETRY_LEVEL + delivery_attempt
