"""What is sent for a dead letter, and why something is not."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from pyromq.client.admin.dead_letters import REDRIVEN_FROM
from pyromq.client.admin.original_messages import redriven_id
from pyromq.model import property_names as names
from pyromq.pipeline.jobs.common.patching import PatchInput
from pyromq.pipeline.jobs.resending.originals import Originals
from pyromq.pipeline.jobs.resending.outgoing import Outgoing, Resent, SendOutcome, source_of
from pyromq.pipeline.jobs.resending.redrive import CanaryVerdict, as_any_letter, letter_to_send, summary
from tests.unit.pipeline.jobs.resending.rows import row


def test_a_dead_letter_goes_to_its_first_topic_or_to_its_group_alone() -> None:
    for_all = letter_to_send(row(), "g", None, only_group=False)
    alone = letter_to_send(row(), "g", None, only_group=True)
    assert isinstance(for_all, Outgoing) and isinstance(alone, Outgoing)
    assert for_all.topic == "orders" and for_all.message_id == redriven_id("O")
    assert dict(for_all.properties)[REDRIVEN_FROM] == "O" and names.RETRY_TOPIC not in dict(for_all.properties)
    assert alone.topic == "%RETRY%g" and dict(alone.properties)[names.RETRY_TOPIC] == "orders"


def test_a_dead_letter_that_does_not_say_where_it_came_from_fails() -> None:
    made = letter_to_send(row(properties={}), "g", None, only_group=False)
    assert isinstance(made, Resent) and "which topic" in made.error


def test_a_patch_may_change_everything_but_the_id() -> None:
    def patch(letter: PatchInput) -> PatchInput:
        assert (letter.body, letter.keys, letter.tags, letter.topic) == (b"x", "k", "t", "orders")
        assert letter.properties == {"colour": "green", names.SHARDING_KEY: "s"}
        return msgspec.structs.replace(letter, topic="other", body=b"y", keys="", properties={"colour": "blue"})

    made = letter_to_send(row(), "g", patch, only_group=False)
    assert isinstance(made, Outgoing) and made.topic == "other" and made.body == b"y"
    assert made.message_id == redriven_id("O")
    assert dict(made.properties) == {
        names.UNIQUE_KEY: redriven_id("O"), REDRIVEN_FROM: "O", names.TAGS: "t", "colour": "blue",
    }  # fmt: skip


def test_a_patch_that_returns_something_else_fails_its_dead_letter() -> None:
    made = letter_to_send(row(), "g", lambda letter: cast(Any, "text"), only_group=False)
    assert isinstance(made, Resent) and made.outcome is SendOutcome.FAILED and "returned str" in made.error


def test_a_dead_letter_is_looked_for_under_the_ids_of_all_letters_of_its_message() -> None:
    facts = {"message_id": "M", "origin_topic": "orders", "redriven_from": None}
    originals = Originals([{"offset_message_id": place, **facts} for place in ("O", "P")])
    made = as_any_letter(letter_to_send(row(), "g", None, only_group=False), originals)
    assert isinstance(made, Outgoing) and made.sent_as == (redriven_id("O"), redriven_id("P"))
    failed = letter_to_send(row(properties={}), "g", None, only_group=False)
    assert as_any_letter(failed, originals) is failed


def test_a_dead_letter_is_looked_for_wherever_an_earlier_run_may_have_sent_it() -> None:
    def patch(letter: PatchInput) -> PatchInput:
        return msgspec.structs.replace(letter, topic="other")

    for only_group, patched, places in (
        (False, None, ("orders", "%RETRY%g")),
        (True, None, ("%RETRY%g", "orders")),
        (False, patch, ("other", "orders", "%RETRY%g")),
    ):
        made = letter_to_send(row(), "g", patched, only_group=only_group)
        assert isinstance(made, Outgoing) and made.sent_to == places


def test_a_summary_counts_outcomes() -> None:
    outcomes = [source_of(row(), outcome) for outcome in (SendOutcome.SENT, SendOutcome.SENT, SendOutcome.HELD_BACK)]
    found = summary("g", False, CanaryVerdict.PASSED, outcomes, 1.23456)
    assert (found.found, found.sent, found.failed, found.held_back, found.took_s) == (3, 2, 0, 1, 1.235)
