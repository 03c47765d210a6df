"""Original messages behind dead letters: which letter stands for its message, so that the message goes out once.

A message leaves several letters when its group reads it again (an offset was reset, a member died before it committed)
and gives up on it again. They have the id of the message. A redriven copy that dies has an id of its own, and says
which letter it was made from: that letter was sent, whether or not brokers still have its copy.
"""

from __future__ import annotations

import msgspec

from pyromq.operate.resend.outcomes import ItemOutcome, ItemStatus
from pyromq.operate.resend.outgoing import redriven_id


class OriginalMessages:
    """The letters of a group, added oldest first; ``place`` is the ``offset_message_id`` of a letter."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], list[str]] = {}  # of the letters of each message
        self._message_of: dict[str, tuple[str, str]] = {}
        self._copied: set[str] = set()  # letters whose copies died as well

    def __len__(self) -> int:
        return len(self._message_of)

    def add(self, place: str, *, topic: str, message_id: str, redriven_from: str) -> None:
        """Add a letter; ``topic`` is where its message was sent first, one without an id is like no other."""
        message = (topic, message_id or place)
        self._places.setdefault(message, []).append(place)
        self._message_of[place] = message
        if redriven_from:
            self._copied.add(redriven_from)

    def decided(self, source: ItemOutcome) -> ItemOutcome | None:
        """Return why a letter is not to be sent; None where it is the one that stands for its message."""
        if self.is_to_be_sent(source.offset_message_id):
            return None
        places = self._letters_of(source.offset_message_id)
        if not self._copied.isdisjoint(places):
            return source.ended(ItemStatus.SENT_BEFORE)
        return msgspec.structs.replace(
            source, status=ItemStatus.SAME_MESSAGE, same_as=places[0], new_message_id=redriven_id(places[0])
        )

    def is_to_be_sent(self, place: str) -> bool:
        """Whether a letter stands for its message, and no copy of that was made and died."""
        places = self._letters_of(place)
        return place == places[0] and self._copied.isdisjoint(places)

    def ids(self, place: str) -> tuple[str, ...]:
        """Return the ids under which the message may have been sent before, for whichever of its letters."""
        return tuple(map(redriven_id, self._letters_of(place)))

    def related(self) -> OriginalMessages:
        """Return what decides letters that have others beside them; without it a letter stands for itself."""
        found = OriginalMessages()
        for message, places in self._places.items():
            if len(places) > 1 or not self._copied.isdisjoint(places):
                found._places[message] = places
                found._message_of |= dict.fromkeys(places, message)
                found._copied |= self._copied.intersection(places)
        return found

    def _letters_of(self, place: str) -> list[str]:
        message = self._message_of.get(place)
        return [place] if message is None else self._places[message]
