"""What is sent for a dead letter, and why something is not."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from pyromq.model import property_names as names
from pyromq.operate.resend.originals import OriginalMessages
from pyromq.operate.resend.outcomes import ItemOutcome, ItemStatus
from pyromq.operate.resend.outgoing import REDRIVEN_FROM, Item, Outgoing, redriven_id
from pyromq.pipeline.jobs.common.patching import Patch, PatchInput
from pyromq.pipeline.jobs.resending.outgoing import source_of
from pyromq.pipeline.jobs.resending.redrive import CanaryVerdict, letter_to_send, originals_of, summary
from tests.unit.pipeline.jobs.resending.rows import row


def known(*places: str) -> OriginalMessages:
    facts = {"message_id": "M", "origin_topic": "orders", "redriven_from": None}
    return originals_of([{"offset_message_id": place, **facts} for place in places])


def to_send(given: dict[str, Any], patch: Patch | None = None, *, only_group: bool = False) -> Item:
    return letter_to_send(given, "g", known("O"), patch=patch, only_group=only_group)


def test_a_dead_letter_goes_to_its_first_topic_or_to_its_group_alone() -> None:
    for_all = to_send(row())
    alone = to_send(row(), only_group=True)
    assert isinstance(for_all, Outgoing) and isinstance(alone, Outgoing)
    assert for_all.topic == "orders" and for_all.message_id == redriven_id("O")
    assert dict(for_all.properties)[REDRIVEN_FROM] == "O" and names.RETRY_TOPIC not in dict(for_all.properties)
    assert alone.topic == "%RETRY%g" and dict(alone.properties)[names.RETRY_TOPIC] == "orders"


def test_a_dead_letter_that_does_not_say_where_it_came_from_fails() -> None:
    made = to_send(row(properties={}))
    assert isinstance(made, ItemOutcome) and "which topic" in made.error


def test_a_patch_may_change_everything_but_the_id() -> None:
    def patch(letter: PatchInput) -> PatchInput:
        assert (letter.body, letter.keys, letter.tags, letter.topic) == (b"x", "k", "t", "orders")
        assert letter.properties == {"colour": "green", names.SHARDING_KEY: "s"}
        return msgspec.structs.replace(letter, topic="other", body=b"y", keys="", properties={"colour": "blue"})

    made = to_send(row(), patch)
    assert isinstance(made, Outgoing) and made.topic == "other" and made.body == b"y"
    assert made.message_id == redriven_id("O")
    assert dict(made.properties) == {
        names.UNIQUE_KEY: redriven_id("O"), REDRIVEN_FROM: "O", names.TAGS: "t", "colour": "blue",
    }  # fmt: skip


def test_a_patch_that_returns_something_else_fails_its_dead_letter() -> None:
    made = to_send(row(), lambda letter: cast(Any, "text"))
    assert isinstance(made, ItemOutcome) and made.status is ItemStatus.FAILED and "returned str" in made.error


def test_a_dead_letter_is_looked_for_under_the_ids_of_all_letters_of_its_message() -> None:
    made = letter_to_send(row(), "g", known("O", "P"))
    assert isinstance(made, Outgoing) and made.sent_as == (redriven_id("O"), redriven_id("P"))


def test_a_younger_letter_of_the_same_message_is_not_sent() -> None:
    made = letter_to_send(row(), "g", known("A", "O"))
    assert isinstance(made, ItemOutcome) and made.status is ItemStatus.SAME_MESSAGE and made.same_as == "A"


def test_a_dead_letter_is_looked_for_wherever_an_earlier_run_may_have_sent_it() -> None:
    def patch(letter: PatchInput) -> PatchInput:
        return msgspec.structs.replace(letter, topic="other")

    for only_group, patched, places in (
        (False, None, ("orders", "%RETRY%g")),
        (True, None, ("%RETRY%g", "orders")),
        (False, patch, ("other", "orders", "%RETRY%g")),
    ):
        made = to_send(row(), patched, only_group=only_group)
        assert isinstance(made, Outgoing) and made.sent_to == places


def test_a_summary_counts_outcomes() -> None:
    outcomes = [source_of(row(), outcome) for outcome in (ItemStatus.SENT, ItemStatus.SENT, ItemStatus.HELD_BACK)]
    found = summary("g", False, CanaryVerdict.PASSED, outcomes, 1.23456)
    assert (found.found, found.sent, found.failed, found.held_back, found.took_s) == (3, 2, 0, 1, 1.235)
