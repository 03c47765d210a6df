"""Timeline of a message: what happened to it, and what will, in causal order. Pure.

    the message     sent, prepared or delayed, stored, receipt
    each group      attempt, attempt, … , consumed, or dead letter, redriven, and the same for the copy

Clocks of producers, brokers and consumers differ, so what caused something stands before it, whatever the times say:
within the message and within each group the order is fixed, and only between them times decide. An attempt is one line,
made of what the trace knows of it (member, duration) and of what the failed message carries (error, version).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from heapq import merge

import msgspec

from pyromq.model.failure import Failure
from pyromq.operate.explaining.explanation import Explanation, MessageState
from pyromq.operate.explaining.facts import StoredCopy
from pyromq.operate.explaining.group_story import GroupStory, GroupStoryState
from pyromq.operate.subjects import Subject, SubjectKind
from pyromq.wire.trace import ConsumeBegan, ConsumeEnded, Published, Recalled, TraceRecord, TransactionEnded
from pyromq.wording import shown_span, times


class StoryKind(StrEnum):
    SENT = "sent"
    STORED = "stored"
    RECEIPT = "receipt"
    ENDED = "ended"  # a transaction, or a delay that was called back
    DUE = "due"
    STARTED = "started"  # a listener that has not returned
    FAILED = "failed"
    CONSUMED = "consumed"
    NEXT = "comes again"
    LETTER = "dead letter"
    REDRIVEN = "redriven"


class StoryEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event. ``at_ms`` and ``took_ms`` are None where nobody recorded them, ``failure`` says why it failed."""

    kind: StoryKind
    title: str
    at_ms: int | None = None
    took_ms: int | None = None
    text: str = ""
    group: str = ""
    member: str = ""
    is_bad: bool = False
    failure: Failure | None = None
    subject: Subject | None = None


def timeline_of(known: Explanation) -> list[StoryEvent]:
    """Return what happened to a message, and what will, in causal order."""
    lines = [_of_message(known), *[_of_group(story, known.trace) for story in known.groups]]
    own_end_ms = max((event.at_ms or 0 for event in lines[0]), default=0)
    stored_ms = known.place.stored_ms if known.place is not None else 0
    sorted_by = [_in_time(events, line, stored_ms if line else 0, own_end_ms) for line, events in enumerate(lines)]
    return [event for _, _, event in merge(*sorted_by, key=lambda each: each[:2])]


def _in_time(
    events: Iterable[StoryEvent], line: int, since_ms: int, own_end_ms: int
) -> list[tuple[int, int, StoryEvent]]:
    """Events of one line with the times that they are sorted by: never before the event that caused them.

    Groups get a message after it is stored (``since_ms``); what has no time stands behind what happened to the message
    itself (``own_end_ms``) and to its group before.
    """
    found, latest = [], since_ms
    for event in events:
        latest = max(latest, own_end_ms if event.at_ms is None else event.at_ms)
        found.append((latest, line, event))
    return found


# --- the message ---


def _of_message(known: Explanation) -> list[StoryEvent]:
    published = [each for each in known.trace if isinstance(each, Published)]
    sent_from = published[0].client_host if published else ""
    found = []
    if known.born_ms:
        text = f"by {sent_from}" if sent_from else ""
        found.append(StoryEvent(kind=StoryKind.SENT, title="Sent", at_ms=known.born_ms, text=text))
    if known.place is not None:
        where = f"{known.place.broker}, queue {known.place.queue}, offset {known.place.offset}"
        title = f"Stored in {known.topic}" if known.state is MessageState.STORED else known.state.value.capitalize()
        found.append(StoryEvent(kind=StoryKind.STORED, title=title, at_ms=known.place.stored_ms, text=where))
    found += [_receipt(each) for each in published]
    for each in known.trace:
        if isinstance(each, TransactionEnded):
            text = "asked for by the broker" if each.is_from_check else ""
            title = f"Transaction ended: {each.state.lower().replace('_', ' ')}"
            found.append(StoryEvent(kind=StoryKind.ENDED, title=title, at_ms=each.time_ms, text=text))
        elif isinstance(each, Recalled):
            found.append(StoryEvent(kind=StoryKind.ENDED, title="Called back", at_ms=each.time_ms))
    if known.due_ms:
        found.append(StoryEvent(kind=StoryKind.DUE, title="Due", at_ms=known.due_ms))
    return found


def _receipt(published: Published) -> StoryEvent:
    title = "The producer has its receipt" if published.is_success else "The producer saw its send fail"
    return StoryEvent(
        kind=StoryKind.RECEIPT,
        title=title,
        at_ms=published.time_ms + published.cost_ms,
        took_ms=published.cost_ms,
        text=f"group {published.group}" if published.group else "",
        is_bad=not published.is_success,
    )


# --- one group ---


class _Attempt:
    """One delivery to a listener, as far as the trace and the copies of the message say."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.began: ConsumeBegan | None = None
        self.ended: ConsumeEnded | None = None
        self.failure: Failure | None = None

    @property
    def at_ms(self) -> int | None:
        if self.began is not None:
            return self.began.time_ms
        if self.ended is not None and self.ended.time_ms:
            return self.ended.time_ms - self.ended.cost_ms
        return (self.failure.time_ms or None) if self.failure is not None else None

    @property
    def member(self) -> str:
        hosts = [each.client_host for each in (self.began, self.ended) if each is not None]
        known = [self.failure.host] if self.failure is not None else []
        return next(filter(None, [*hosts, *known]), "")

    def event(self, group: str) -> StoryEvent:
        """The line of this attempt."""
        ordinal = f"attempt {self.number}" if self.number else "an attempt"
        took_ms = self.ended.cost_ms if self.ended is not None else None
        if self.failure is not None or (self.ended is not None and not self.ended.is_success):
            kind, title = StoryKind.FAILED, f"{ordinal.capitalize()} of {group} failed"
        elif self.ended is not None:
            kind, title = StoryKind.CONSUMED, f"Consumed by {group}" + (f", {ordinal}" if self.number > 1 else "")
        else:
            kind, title = StoryKind.STARTED, f"{ordinal.capitalize()} of {group} began"
        return StoryEvent(
            kind=kind,
            title=title,
            at_ms=self.at_ms,
            took_ms=took_ms,
            text=_why(self.failure),
            group=group,
            member=self.member,
            is_bad=kind is StoryKind.FAILED,
            failure=self.failure,
        )


def _why(failure: Failure | None) -> str:
    if failure is None:
        return ""
    return failure.line + (f" (version {failure.version})" if failure.version else "")


def _of_group(story: GroupStory, trace: Sequence[TraceRecord]) -> list[StoryEvent]:
    attempts = _attempts(story, trace)
    found = [each.event(story.group) for each in attempts]
    has_success = any(each.kind is StoryKind.CONSUMED for each in found)
    if story.letter is not None:
        found.append(_letter(story, story.letter))
        if story.copy is not None:
            found.append(_redriven(story, story.copy))
            if story.copy_story is not None:
                found += _of_group(story.copy_story, story.copy_trace)
    elif story.state is GroupStoryState.CONSUMED and not has_success:
        text = "" if story.consumed_ms else "When is not known: nothing was traced."
        title, at_ms = f"Consumed by {story.group}", story.consumed_ms or None
        found.append(StoryEvent(kind=StoryKind.CONSUMED, title=title, at_ms=at_ms, text=text, group=story.group))
    if story.next_attempt_ms:
        title = f"Comes again to {story.group}"
        found.append(
            StoryEvent(
                kind=StoryKind.NEXT, title=title, at_ms=story.next_attempt_ms, text=story.text, group=story.group
            )
        )
    return found


def _attempts(story: GroupStory, trace: Sequence[TraceRecord]) -> list[_Attempt]:
    """Deliveries in their order: those of the trace, with the failure that the copies carry."""
    found: dict[str, _Attempt] = {}
    for record in trace:
        if isinstance(record, ConsumeBegan) and record.group == story.group:
            found[record.request_id] = attempt = _Attempt(record.delivery_attempt + 1)
            attempt.began = record
    for record in trace:
        if isinstance(record, ConsumeEnded) and (record.group == story.group or record.request_id in found):
            found.setdefault(record.request_id, _Attempt(0)).ended = record
    attempts = list(found.values())
    for failure in story.attempts:
        known = (each for each in attempts if each.number == failure.attempt and each.failure is None)
        fits = next((each for each in known if each.ended is None or not each.ended.is_success), None)
        if fits is None:
            attempts.append(fits := _Attempt(failure.attempt))
        fits.failure = failure
    return sorted(attempts, key=lambda each: (each.number or 1 << 30, each.at_ms or 0))


def _letter(story: GroupStory, letter: StoredCopy) -> StoryEvent:
    text = f"{letter.broker}, queue {letter.queue}, offset {letter.offset}"
    if letter.attempt:
        text = f"failed {times(letter.attempt)}; {text}"
    return StoryEvent(
        kind=StoryKind.LETTER,
        title=f"{story.group} gave up: dead letter",
        at_ms=letter.stored_ms,
        text=text,
        group=story.group,
        is_bad=True,
        subject=Subject(kind=SubjectKind.DEAD_LETTERS, name=story.group, within=letter.offset_message_id),
    )


def _redriven(story: GroupStory, copy: StoredCopy) -> StoryEvent:
    waited = shown_span(copy.stored_ms - story.letter.stored_ms) if story.letter is not None else ""
    after = f" after {waited} as a dead letter" if waited else ""
    return StoryEvent(
        kind=StoryKind.REDRIVEN,
        title=f"Redriven as message {story.copy_id}",
        at_ms=copy.stored_ms,
        text=f"{copy.broker}, queue {copy.queue}, offset {copy.offset}{after}",
        group=story.group,
        subject=Subject(kind=SubjectKind.MESSAGE, name=copy.offset_message_id, within=copy.topic),
    )
