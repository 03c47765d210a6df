"""Which forms a failed message may take on its way back, and in which order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyromq.client.consumer.rules.send_back_plan import (
    LETTER_REASON_CHARACTERS_MAX,
    Fate,
    SendBackForm,
    Step,
    letter_facts,
    send_back_steps,
)

BACK, COPY = SendBackForm.SEND_BACK, SendBackForm.COPY


def steps(fate: Fate, *, attempt: int = 2, takes_story: bool = True, has_body: bool = True) -> tuple[Step, ...]:
    message = cast(Any, SimpleNamespace(delivery_attempt=attempt))
    return send_back_steps(message, fate, 16, takes_story=takes_story, has_body=has_body)


def test_a_failed_message_is_sent_back_and_copied_if_that_is_refused() -> None:
    assert steps(Fate()) == (Step(BACK, 0), Step(COPY, 5, 16)), "the copy has the level that the broker would choose"
    assert steps(Fate(7)) == (Step(BACK, 7), Step(COPY, 7, 16))


def test_a_broker_that_takes_no_story_gets_the_copy_that_tells_it_first() -> None:
    copy, back = steps(Fate(), takes_story=False)
    assert (copy, back) == (Step(COPY, 5, 16, own_first=True), Step(BACK, 0))


def test_a_dead_letter_without_a_reason_has_one_attempt_more_than_it_may_have() -> None:
    assert steps(Fate(-1)) == (Step(BACK, -1), Step(COPY, 5, 2))


def test_a_dead_letter_with_a_reason_is_a_copy_for_a_send_back_has_no_place_for_it() -> None:
    facts = letter_facts("no", "listener")
    for takes_story in (True, False):
        assert steps(Fate(facts=facts), takes_story=takes_story) == (Step(COPY, 0, 2, facts), Step(BACK, -1))


def test_what_an_orderly_consumer_gives_up_is_a_copy_alone() -> None:
    assert [step.form for step in steps(Fate(is_orderly=True))] == [COPY]


def test_without_a_body_there_is_no_copy() -> None:
    assert steps(Fate(3), has_body=False) == (Step(BACK, 3),)


@pytest.mark.parametrize(
    ("reason", "text"),
    [("", "no reason given"), (" \x01\x02 ", "no reason given"), ("a\x01b\nc", "a b\\nc")],
)
def test_reasons_are_one_line_without_the_marks_of_properties(reason: str, text: str) -> None:
    assert letter_facts(reason, "decode", {"more": "1"}) == {"DLQ_ERROR": text, "DLQ_STAGE": "decode", "more": "1"}


def test_reasons_have_an_end() -> None:
    assert len(letter_facts("x" * 5_000, "listener")["DLQ_ERROR"]) == LETTER_REASON_CHARACTERS_MAX
