"""Letter filter: one matcher for every face."""

from __future__ import annotations

from typing import Any

import pytest

from pyromq.model.failure import Failure, FailureStory
from pyromq.operate.letter_filter import EVERY_LETTER, DeadLetter, LetterFilter


def letter(**more: Any) -> DeadLetter:
    given: dict[str, Any] = {
        "group": "g", "topic": "orders", "message_id": "ID-7", "broker": "a", "queue": 0, "offset": 0, "born_ms": 1,
        "dead_ms": 2, "attempts": 3, "keys": ("k1", "k2"), "tags": "new", "offset_message_id": "O7",
        "reason": "card refused",
    }  # fmt: skip
    return DeadLetter(**{**given, **more})


TOLD = Failure(error_class="shop.errors.CardDeclined", text="card 7 declined", stack="abc123")
STORY = FailureStory(newest=TOLD, first=TOLD, count=1, same=1)


@pytest.mark.parametrize(
    "choice",
    [
        {}, {"letters": ["O7", "O8"]}, {"keys": "k2"}, {"tags": ["old", "new"]}, {"topics": "orders"},
        {"errors": "CardDeclined"}, {"errors": ["KeyError", "abc123"]}, {"errors": "shop.errors.CardDeclined"},
        {"errors": "card 7 declined"}, {"errors": "card refused"}, {"search": " DECLINED "}, {"search": "id-7"},
        {"search": "k2"}, {"keys": "k1", "tags": "new", "search": "refused"},
    ],
    ids=repr,
)  # fmt: skip
def test_letters_that_are_chosen(choice: Any) -> None:
    which = LetterFilter.of(choice)
    assert which.takes(letter(story=STORY)) and which.matcher()(letter(story=STORY))


@pytest.mark.parametrize(
    "choice",
    [
        {"letters": ["O8"]}, {"keys": "k"}, {"tags": "ne"}, {"topics": "others"}, {"errors": "Declined"},
        {"errors": "card"}, {"search": "ID-8"}, {"keys": "k1", "tags": "old"}, {"letters": ["O7"], "keys": "k3"},
    ],
    ids=repr,
)  # fmt: skip
def test_letters_that_are_not_chosen(choice: Any) -> None:
    which = LetterFilter.of(choice)
    assert not which.takes(letter(story=STORY)) and not which.matcher()(letter(story=STORY))


def test_a_text_is_not_taken_for_its_characters() -> None:
    assert LetterFilter.of({"keys": "order-7"}).keys == ("order-7",)
    assert LetterFilter.of({"keys": "", "tags": ()}) == EVERY_LETTER


def test_a_filter_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError):
        LetterFilter.of({"key": "k"})  # type: ignore[typeddict-unknown-key]


def test_an_empty_filter_is_no_condition_and_texts_are_quoted() -> None:
    assert EVERY_LETTER.sql() == ""
    assert LetterFilter(tags=("it's \\",)).sql() == "(tags IN ('it\\'s \\\\'))"
