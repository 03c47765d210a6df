"""Where a message is now, and why: facts that lookups brought together, put into words.

    stored in its topic      each group: consumed, waiting, passed over, retrying, given up (``group_story``)
    in a delay topic         not visible before its time
    prepared                 not visible before its transaction is committed

Pure: ``gathering`` asks brokers for the facts.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from pyromq.operate.explaining.facts import Facts, MessageOrigin, StoredCopy
from pyromq.operate.explaining.group_story import GroupStory, story_of
from pyromq.wire.trace import TraceRecord
from pyromq.wording import ago, shown_time, until


class MessageState(StrEnum):
    STORED = "stored"
    DELAYED = "delayed"
    RECALLED = "recalled"
    PREPARED = "prepared"
    ROLLED_BACK = "rolled back"
    DISCARDED = "discarded"


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """``text`` tells of the message itself, ``groups`` of each group that consumes its topic."""

    topic: str
    message_id: str
    state: MessageState
    text: str
    tags: str = ""
    keys: tuple[str, ...] = ()
    born_ms: int = 0
    due_ms: int = 0
    place: StoredCopy | None = None
    groups: tuple[GroupStory, ...] = ()
    origin: MessageOrigin | None = None
    trace: tuple[TraceRecord, ...] = ()


def explain(facts: Facts) -> Explanation | None:
    """None when there is no copy of it anywhere."""
    told = _of_message(facts)
    if told is None:
        return None
    state, text, place, due_ms = told
    groups = tuple(story_of(facts, group) for group in facts.groups) if state is MessageState.STORED else ()
    return Explanation(
        topic=facts.topic,
        message_id=facts.message_id,
        state=state,
        text=text,
        tags=facts.tags,
        keys=facts.keys,
        born_ms=facts.born_ms,
        due_ms=due_ms,
        place=place,
        groups=groups,
        origin=facts.origin,
        trace=facts.trace,
    )


def _of_message(facts: Facts) -> tuple[MessageState, str, StoredCopy, int] | None:
    if facts.visible:
        return MessageState.STORED, _stored_text(facts), facts.visible[-1], 0
    if facts.delayed:
        return _of_delayed(facts.delayed[-1], facts.now_ms)
    if facts.discarded:
        place = facts.discarded[-1]
        text = f"Its transaction was checked too often without an outcome: it lies in {place.topic} since"
        return MessageState.DISCARDED, f"{text} {shown_time(place.stored_ms)}.", place, 0
    if facts.prepared:
        place = facts.prepared[-1]
        if place.is_pending:
            since = ago(facts.prepared[0].stored_ms, facts.now_ms)  # checks append it again, and again
            text = (
                f"Prepared {since}, neither committed nor rolled back: no consumer sees it until its producer answers."
            )
            return MessageState.PREPARED, text, place, 0
        text = "Its transaction was rolled back: no consumer will see it."
        return MessageState.ROLLED_BACK, text, place, 0
    return None


def _stored_text(facts: Facts) -> str:
    place = facts.visible[-1]
    where = f"{place.broker}, queue {place.queue}, offset {place.offset}"
    text = f"Stored on {where} at {shown_time(place.stored_ms)} ({ago(place.stored_ms, facts.now_ms)})."
    if len(facts.visible) > 1:
        text += f" It is there {len(facts.visible)} times: its producer sent it again after a response got lost."
    if facts.delayed:
        text += f" It was delayed before, since {shown_time(facts.delayed[0].stored_ms)}."
    if facts.prepared:
        text += f" Its transaction, prepared at {shown_time(facts.prepared[0].stored_ms)}, was committed."
    if not facts.groups:
        text += " No group has ever consumed this topic."
    return text


def _of_delayed(place: StoredCopy, now_ms: int) -> tuple[MessageState, str, StoredCopy, int]:
    if place.is_pending or place.due_ms > now_ms:
        text = f"Delayed until {shown_time(place.due_ms)} ({until(place.due_ms, now_ms)}); no consumer sees it before."
        return MessageState.DELAYED, text, place, place.due_ms
    text = f"It was due at {shown_time(place.due_ms)} and is not in its topic: it was called back, or is too old."
    return MessageState.RECALLED, text, place, place.due_ms
