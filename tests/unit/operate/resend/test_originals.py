"""Original messages of dead letters: one of their letters is sent."""

from __future__ import annotations

from pyromq.operate.resend.originals import OriginalMessages
from pyromq.operate.resend.outcomes import ItemOutcome, ItemStatus
from pyromq.operate.resend.outgoing import redriven_id

SENDS, BEFORE, SAME = None, ItemStatus.SENT_BEFORE, ItemStatus.SAME_MESSAGE


def originals(*letters: tuple[str, str, str, str]) -> OriginalMessages:
    """``letters`` are place, topic, message id and what they were redriven from."""
    found = OriginalMessages()
    for place, topic, message_id, redriven_from in letters:
        found.add(place, topic=topic, message_id=message_id, redriven_from=redriven_from)
    return found


def decided(found: OriginalMessages, place: str) -> ItemOutcome | None:
    return found.decided(ItemOutcome(offset_message_id=place, status=ItemStatus.WOULD_SEND))


def roles(found: OriginalMessages, places: str) -> list[ItemStatus | None]:
    return [each and each.status for each in (decided(found, place) for place in places)]


def test_a_letter_becomes_the_same_message_every_time() -> None:
    assert redriven_id("0A00") == redriven_id("0A00") != redriven_id("0A01")
    assert len(redriven_id("0A00")) == 32 and redriven_id("0A00").isupper()


def test_of_the_letters_of_a_message_the_oldest_is_sent() -> None:
    found = originals(("A", "t", "M", ""), ("B", "t", "N", ""), ("C", "t", "M", ""), ("D", "other", "M", ""))
    assert roles(found, "ABCD") == [SENDS, SENDS, SAME, SENDS] and len(found) == 4
    told = decided(found, "C")
    assert told is not None and "older letter, A" in told.why
    assert found.ids("C") == (redriven_id("A"), redriven_id("C"))


def test_a_letter_whose_copy_died_was_sent_and_the_copy_is_a_message_of_its_own() -> None:
    found = originals(("A", "t", "M", ""), ("B", "t", "M", ""), ("C", "t", redriven_id("A"), "A"))
    assert roles(found, "ABC") == [BEFORE, BEFORE, SENDS]


def test_messages_without_an_id_are_not_taken_for_one() -> None:
    assert roles(originals(("A", "t", "", ""), ("B", "t", "", "")), "AB") == [SENDS, SENDS]
