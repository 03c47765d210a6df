"""Dead letters of one message: which of them is sent, so that the message goes out once.

A message leaves several letters when its group reads it again (an offset was reset, a member died before it committed)
and gives up on it again. They have the id of the message. A redriven copy that dies has an id of its own, and says
which letter it was made from: that letter was sent, whether or not brokers still have its copy.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyromq.client.admin.dead_letters import redriven_id
from pyromq.pipeline.jobs.resending.outgoing import MessageRow, Resent, SendOutcome, source_of


class Originals:
    """``letters`` have ``offset_message_id``, ``message_id``, ``origin_topic`` and ``redriven_from``, oldest first."""

    def __init__(self, letters: Iterable[Any]) -> None:
        self._places: dict[tuple[str, str], list[str]] = {}  # of the letters of each message
        self._message_of: dict[str, tuple[str, str]] = {}
        self._copied: set[str] = set()  # letters whose copies died as well
        for letter in letters:
            place, message = letter["offset_message_id"], (letter["origin_topic"] or "", letter["message_id"] or "")
            self._places.setdefault(message, []).append(place)
            self._message_of[place] = message
            if letter["redriven_from"]:
                self._copied.add(letter["redriven_from"])

    def __len__(self) -> int:
        return len(self._message_of)

    def decided(self, row: MessageRow) -> Resent | None:
        """Why this letter is not to be sent; None where it is the one of its message."""
        places = self._letters_of(row["offset_message_id"])
        if not self._copied.isdisjoint(places):
            return source_of(row, SendOutcome.SENT_BEFORE, error="the copy that was sent is a dead letter, too")
        if row["offset_message_id"] != places[0]:
            return source_of(row, SendOutcome.SAME_MESSAGE, error=f"the message has an older letter, {places[0]}")
        return None

    def ids(self, place: str) -> tuple[str, ...]:
        """Under which the message may have been sent before, for whichever of its letters."""
        return tuple(map(redriven_id, self._letters_of(place)))

    def _letters_of(self, place: str) -> list[str]:
        return self._places[self._message_of[place]]
