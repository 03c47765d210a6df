"""What a broker takes of the story that a send-back tells."""

from __future__ import annotations

import pytest

from pyromq.broker.sending.send_back import with_story
from pyromq.model.failure import STORY_BYTES_MAX, TRACEBACK, FailureStory, failure_from_text, story_after
from pyromq.wire.properties import PROPERTIES_BYTES_MAX
from pyromq.wire.property_text import join_items, split_items

KEPT = join_items([("UNIQ_KEY", "ID"), ("shop", "north")])
STORY = FailureStory.begun_by(failure_from_text("E", "bad")).properties()
TOLD = join_items(STORY.items())


def test_the_story_is_added_to_what_the_message_has() -> None:
    assert split_items(with_story(KEPT, TOLD)) == {"UNIQ_KEY": "ID", "shop": "north", **STORY}


def test_a_new_story_takes_the_place_of_the_old_one() -> None:
    longer = story_after(FailureStory.of(STORY), failure_from_text("F", "worse")).properties()
    once = with_story(KEPT, join_items(longer.items()))
    assert split_items(with_story(once, TOLD)) == {"UNIQ_KEY": "ID", "shop": "north", **STORY}, "nothing is left of it"


@pytest.mark.parametrize("told", [None, ""])
def test_who_tells_nothing_changes_nothing(told: str | None) -> None:
    """As the clients of others, whose messages may tell of an older failure."""
    before = with_story(KEPT, TOLD)
    assert with_story(before, told) == before


def test_only_the_names_of_a_story_are_taken() -> None:
    hostile = TOLD + join_items([("UNIQ_KEY", "other"), ("RETRY_TOPIC", "secret"), ("DELAY", "18"), ("", "x")])
    assert split_items(with_story(KEPT, hostile)) == {"UNIQ_KEY": "ID", "shop": "north", **STORY}


@pytest.mark.parametrize(
    "told",
    [
        join_items([*STORY.items(), ("FAILURE_TEXT", "x" * STORY_BYTES_MAX)]),
        join_items([("FAILURE_TEXT", "\ud800")]),
    ],
)
def test_what_is_too_long_or_no_text_is_left_out(told: str) -> None:
    assert with_story(with_story(KEPT, TOLD), told) == KEPT


def test_a_message_without_room_goes_without() -> None:
    full = KEPT + join_items([("big", "ä" * ((PROPERTIES_BYTES_MAX - 1_100) // 2))])
    assert with_story(full, TOLD) == full
    assert split_items(with_story(full + TOLD, TOLD)) == split_items(full)


def test_garbage_adds_nothing() -> None:
    assert with_story(KEPT, "\x02\x01\x02 no property \x01\x01\x02") == KEPT


def test_a_traceback_that_has_no_room_goes_before_the_story() -> None:
    told = join_items({**STORY, TRACEBACK: "x" * 2_000}.items())
    assert split_items(with_story(KEPT, told))[TRACEBACK] == "x" * 2_000
    full = join_items({"much": "y" * (PROPERTIES_BYTES_MAX - 2_500)}.items())
    assert split_items(with_story(full, told)) == {**split_items(full), **STORY}
