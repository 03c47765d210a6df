"""The story of a message in causal order, whatever clocks say."""

from __future__ import annotations

from typing import Any

from pyromq.model.failure import Failure, FailureStory
from pyromq.operate.explaining.explanation import explain
from pyromq.operate.explaining.facts import Facts, GroupFacts, RedrivenCopy, StoredCopy
from pyromq.operate.explaining.timeline import StoryEvent, StoryKind, timeline_of
from pyromq.operate.subjects import SubjectKind
from pyromq.wire.trace import ConsumeBegan, ConsumeEnded, Published, TraceRecord

T = 1_700_000_000_000
PLACE = StoredCopy(topic="orders", broker="a", queue=1, offset=10, stored_ms=T + 2)
LETTER = "7F0000012A9F00000000000000000042"


def story(*trace: TraceRecord, **group: Any) -> list[StoryEvent]:
    facts = GroupFacts(group="billing", is_online=True, **group)
    given = Facts(
        topic="orders", message_id="ID", now_ms=T + 9_000, born_ms=T, visible=(PLACE,), groups=(facts,), trace=trace
    )
    told = explain(given)
    assert told is not None
    return timeline_of(told)


def failed(attempt: int, **fields: Any) -> StoredCopy:
    failure = Failure(
        error_class="ValueError", text="no price", attempt=attempt, time_ms=T + 100 * attempt, host="web-1"
    )
    given = {
        "topic": "%RETRY%billing",
        "broker": "a",
        "queue": 0,
        "offset": attempt,
        "stored_ms": T + 100 * attempt + 5,
    }
    return StoredCopy(**{**given, "attempt": attempt, "failure": FailureStory.begun_by(failure), **fields})


def began(request: str, at_ms: int, attempt: int = 0, host: str = "10.0.0.1:5") -> ConsumeBegan:
    return ConsumeBegan(
        time_ms=at_ms, group="billing", request_id=request, message_id="ID", delivery_attempt=attempt, client_host=host
    )


def ended(request: str, at_ms: int, cost_ms: int, *, ok: bool = True, host: str = "10.0.0.1:5") -> ConsumeEnded:
    return ConsumeEnded(
        request_id=request,
        message_id="ID",
        group="billing",
        time_ms=at_ms,
        cost_ms=cost_ms,
        is_success=ok,
        client_host=host,
    )


def kinds(events: list[StoryEvent]) -> list[str]:
    return [event.kind.value for event in events]


def test_the_receipt_stands_at_its_end_behind_the_stored_message() -> None:
    published = Published(time_ms=T, group="shop", topic="orders", message_id="ID", cost_ms=7, client_host="10.0.0.9:1")
    events = story(published, committed=11)
    assert kinds(events)[:3] == ["sent", "stored", "receipt"]
    assert (events[2].at_ms, events[2].took_ms) == (T + 7, 7)
    assert events[0].text == "by 10.0.0.9:1"


def test_a_broker_whose_clock_is_ahead_does_not_turn_the_order_round() -> None:
    published = Published(time_ms=T - 50, group="shop", topic="orders", message_id="ID", cost_ms=7)
    assert kinds(story(published, committed=11))[:3] == ["sent", "stored", "receipt"]


def test_an_attempt_is_one_line_with_member_duration_and_error() -> None:
    events = story(
        began("R", T + 90),
        ended("R", T + 100, 10, ok=False),
        committed=11,
        waiting=(failed(1, is_pending=True, due_ms=T + 9_999),),
    )
    (attempt,) = [event for event in events if event.kind is StoryKind.FAILED]
    assert (attempt.title, attempt.at_ms, attempt.took_ms) == ("Attempt 1 of billing failed", T + 90, 10)
    assert (attempt.text, attempt.member) == ("ValueError: no price", "10.0.0.1:5")
    assert kinds(events)[-1] == "comes again"


def test_attempts_without_a_trace_are_told_by_the_copies() -> None:
    events = story(
        committed=11,
        retries=(failed(1), failed(2)),
        dead=(failed(2, topic="%DLQ%billing", offset_message_id=LETTER, stored_ms=T + 300),),
    )
    assert kinds(events) == ["sent", "stored", "failed", "failed", "dead letter"]
    assert [event.member for event in events[2:4]] == ["web-1", "web-1"]
    subject = events[-1].subject
    assert subject is not None
    assert (subject.kind, subject.name, subject.within) == (SubjectKind.DEAD_LETTERS, "billing", LETTER)


def test_a_redriven_letter_goes_on_with_what_became_of_its_copy() -> None:
    place = StoredCopy(
        topic="orders", broker="a", queue=1, offset=44, stored_ms=T + 5_300, offset_message_id="COPY-PLACE"
    )
    done = (began("S", T + 5_310), ended("S", T + 5_320, 10, host="10.0.0.2:6"))
    copy = RedrivenCopy(message_id="COPY", place=place, group=GroupFacts(group="billing", committed=45), trace=done)
    letter = failed(1, topic="%DLQ%billing", offset_message_id=LETTER, stored_ms=T + 300)
    events = story(committed=11, dead=(letter,), redriven=(copy,))
    assert kinds(events) == ["sent", "stored", "failed", "dead letter", "redriven", "consumed"]
    assert events[4].subject is not None and events[4].subject.name == "COPY-PLACE"
    assert "after 5 s as a dead letter" in events[4].text
    assert (events[5].at_ms, events[5].member) == (T + 5_310, "10.0.0.1:5")


def test_two_deliveries_are_two_lines_with_their_members() -> None:
    trace = (
        began("R", T + 90),
        ended("R", T + 95, 5),
        began("S", T + 200, host="10.0.0.2:6"),
        ended("S", T + 205, 5, host="10.0.0.2:6"),
    )
    done = [event for event in story(*trace, committed=11) if event.kind is StoryKind.CONSUMED]
    assert [event.member for event in done] == ["10.0.0.1:5", "10.0.0.2:6"]


def test_a_consumed_message_without_a_trace_says_that_the_time_is_not_known() -> None:
    last = story(committed=11)[-1]
    assert (last.kind, last.at_ms) == (StoryKind.CONSUMED, None) and "When is not known" in last.text


def test_a_listener_that_has_not_returned_is_an_attempt_that_began() -> None:
    last = story(began("R", T + 90), committed=10)[-1]
    assert (last.kind, last.title) == (StoryKind.STARTED, "Attempt 1 of billing began")
