"""Letters of one message: one of them is sent."""

from __future__ import annotations

from typing import Any

from pyromq.client.admin.original_messages import redriven_id
from pyromq.pipeline.jobs.resending.originals import Originals
from pyromq.pipeline.jobs.resending.outgoing import SendOutcome
from tests.unit.pipeline.jobs.resending.rows import row


def letter(place: str, message: str, topic: str = "orders", redriven_from: str | None = None) -> dict[str, Any]:
    return {
        "offset_message_id": place, "message_id": message, "origin_topic": topic, "redriven_from": redriven_from,
    }  # fmt: skip


def outcomes(*letters: dict[str, Any]) -> list[SendOutcome | None]:
    originals = Originals(letters)
    found = [originals.decided(row(offset_message_id=each["offset_message_id"])) for each in letters]
    return [each and each.outcome for each in found]


def test_of_the_letters_of_a_message_the_oldest_is_sent() -> None:
    same = SendOutcome.SAME_MESSAGE
    letters = [letter("A", "M"), letter("B", "N"), letter("C", "M"), letter("D", "M", topic="others")]
    assert outcomes(*letters) == [None, None, same, None]
    originals = Originals(letters)
    assert originals.ids("A") == (redriven_id("A"), redriven_id("C")) and len(originals) == 4
    told = originals.decided(row(offset_message_id="C"))
    assert told is not None and "older letter, A" in told.error


def test_a_letter_whose_copy_died_was_sent_and_the_copy_is_sent_now() -> None:
    before = SendOutcome.SENT_BEFORE
    letters = [letter("A", "M"), letter("B", "M"), letter("C", redriven_id("A"), redriven_from="A")]
    assert outcomes(*letters) == [before, before, None]
