"""Original messages behind dead letters: which letter stands for its message, so that the message goes out once.

A message leaves several letters when its group reads it again (an offset was reset, a member died before it committed)
and gives up on it again. They have the id of the message. A redriven copy that dies has an id of its own, and says
which letter it was made from: that letter was sent, whether or not brokers still have its copy.
"""

from __future__ import annotations

import hashlib
from enum import Enum


class LetterRole(Enum):
    """What a letter is to its message."""

    SENDS = "its message is sent for this letter"
    SENT_BEFORE = "the copy that was sent is a dead letter, too"
    SAME_MESSAGE = "its message has an older letter"


class OriginalMessages:
    """The letters of a group, added oldest first; ``place`` is the ``offset_message_id`` of a letter."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], list[str]] = {}  # of the letters of each message
        self._message_of: dict[str, tuple[str, str]] = {}
        self._copied: set[str] = set()  # letters whose copies died as well

    def __len__(self) -> int:
        return len(self._message_of)

    def add(self, place: str, *, topic: str, message_id: str, redriven_from: str) -> None:
        """``topic`` is where the message was sent first; one without an id is like no other."""
        message = (topic, message_id or place)
        self._places.setdefault(message, []).append(place)
        self._message_of[place] = message
        if redriven_from:
            self._copied.add(redriven_from)

    def role(self, place: str) -> LetterRole:
        places = self._letters_of(place)
        if not self._copied.isdisjoint(places):
            return LetterRole.SENT_BEFORE
        return LetterRole.SENDS if place == places[0] else LetterRole.SAME_MESSAGE

    def oldest(self, place: str) -> str:
        """The letter that stands for the message of this one."""
        return self._letters_of(place)[0]

    def ids(self, place: str) -> tuple[str, ...]:
        """Under which the message may have been sent before, for whichever of its letters."""
        return tuple(map(redriven_id, self._letters_of(place)))

    def _letters_of(self, place: str) -> list[str]:
        return self._places[self._message_of[place]]


def redriven_id(offset_message_id: str) -> str:
    """The id of the message that a dead letter becomes: always the same, and no other message has it."""
    return hashlib.blake2b(offset_message_id.encode(), digest_size=16, person=b"redriven").hexdigest().upper()
