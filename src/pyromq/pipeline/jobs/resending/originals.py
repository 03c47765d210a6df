"""Dead letters of one message: which of them is sent, so that the message goes out once.

The rule is that of ``pyromq dlq redrive`` (``client.admin.original_messages``); here letters are rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyromq.client.admin.original_messages import LetterRole, OriginalMessages
from pyromq.pipeline.jobs.resending.outgoing import MessageRow, Resent, SendOutcome, source_of


class Originals:
    """``letters`` have ``offset_message_id``, ``message_id``, ``origin_topic`` and ``redriven_from``, oldest first."""

    def __init__(self, letters: Iterable[Any]) -> None:
        self._messages = OriginalMessages()
        for letter in letters:
            self._messages.add(
                letter["offset_message_id"],
                topic=letter["origin_topic"] or "",
                message_id=letter["message_id"] or "",
                redriven_from=letter["redriven_from"] or "",
            )

    def __len__(self) -> int:
        return len(self._messages)

    def decided(self, row: MessageRow) -> Resent | None:
        """Why this letter is not to be sent; None where it is the one of its message."""
        place = row["offset_message_id"]
        match self._messages.role(place):
            case LetterRole.SENT_BEFORE as role:
                return source_of(row, SendOutcome.SENT_BEFORE, error=role.value)
            case LetterRole.SAME_MESSAGE:
                reason = f"the message has an older letter, {self._messages.oldest(place)}"
                return source_of(row, SendOutcome.SAME_MESSAGE, error=reason)
        return None

    def ids(self, place: str) -> tuple[str, ...]:
        """Under which the message may have been sent before, for whichever of its letters."""
        return self._messages.ids(place)
