"""What goes back to a broker for a message that failed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from pyromq.client.consumer.rules.retry_copy import copy_level, copy_properties, send_back_header
from pyromq.model.failure import STORY_NAMES, FailureStory, failure_from_text
from pyromq.wire.properties import decode_properties, encode_properties


def copied(properties: dict[str, str], **given: Any) -> dict[str, str]:
    given = {"topic": "orders", "message_id": "ID", **given}
    return decode_properties(copy_properties(encode_properties(properties).decode(), **given).encode())


def test_a_copy_tells_where_it_comes_from_and_leaves_out_what_was_true_of_the_original_alone() -> None:
    original = {"KEYS": "k", "TRAN_MSG": "true", "MAX_OFFSET": "9", "DELAY": "1", "WAIT": "false"}
    assert copied(original) == {"KEYS": "k", "RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": "ID"}


def test_a_copy_of_a_retried_message_keeps_topic_and_id_of_the_first() -> None:
    found = copied({"RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": "FIRST"}, topic="%RETRY%g", delay_level=19)
    assert found == {"RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": "FIRST", "DELAY": "19"}


def test_a_copy_without_an_id_has_none_and_takes_what_is_added() -> None:
    assert copied({}, message_id="", more={"WHY": "x"}) == {"RETRY_TOPIC": "orders", "WHY": "x"}


def test_a_copy_tells_the_story_if_there_is_room_for_it() -> None:
    story = FailureStory.begun_by(failure_from_text("E", "bad"))
    told = copied({"shop": "north", "FAILURE_HOST": "of an older story"}, story=story)
    assert told == {"shop": "north", **story.properties(), "RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": "ID"}
    full = copied({"big": "x" * 31_700, **story.properties()}, story=story)
    assert full["big"] == "x" * 31_700 and FailureStory.of(full) is None and not set(full) & set(STORY_NAMES)


@pytest.mark.parametrize(("wished", "attempt", "level"), [(9, 2, 9), (0, 0, 3), (0, 2, 5), (-1, 16, 19)])
def test_a_copy_waits_as_long_as_was_wished_or_as_a_broker_would_choose(wished: int, attempt: int, level: int) -> None:
    assert copy_level(wished, attempt) == level


def test_a_send_back_names_the_stored_message() -> None:
    message: Any = SimpleNamespace(position=99, message_id="", unreported_story=None)
    header = send_back_header(message, "g", 4, topic="ns%orders", attempts_max=None)
    assert (header.position, header.group, header.delay_level) == (99, "g", 4)
    assert (header.origin_msg_id, header.origin_topic, header.max_reconsume_times) == (None, "ns%orders", None)
    assert header.failure_story is None


def test_a_copy_without_room_for_a_traceback_tells_the_story_without_it() -> None:
    failure = msgspec.structs.replace(failure_from_text("E", "bad"), traceback="\n".join(["  File"] * 300))
    story = FailureStory.begun_by(failure)
    assert FailureStory.of(copied({}, story=story)) == story
    told = FailureStory.of(copied({"big": "x" * 30_000}, story=story))
    assert told is not None and (told.newest.text, told.newest.traceback) == ("bad", "")
