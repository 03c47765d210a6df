"""Item outcomes: what became of one stored message that was to be sent again."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from pyromq.model.message import SendStatus


class ItemStatus(StrEnum):
    """SENT only when a broker has the copy; UNKNOWN when no response came and no copy was found."""

    SENT = "sent"
    WOULD_SEND = "would send"
    SENT_BEFORE = "sent before"
    SAME_MESSAGE = "same message"
    HELD_BACK = "held back"
    FAILED = "failed"
    UNKNOWN = "unknown"

    @property
    def is_problem(self) -> bool:
        """Whether a later run has to try the message again."""
        return self in (ItemStatus.FAILED, ItemStatus.UNKNOWN)


class ItemOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one item. ``offset_message_id`` is where the message stands in the log that it was read from.

    ``to_queue`` (broker:number) and ``to_offset`` are where the copy is stored. ``stored`` says how safely; None for a
    copy that was found after its response got lost. ``same_as`` is an older letter that stands for the same message.
    """

    offset_message_id: str
    status: ItemStatus
    message_id: str = ""
    keys: str = ""
    tags: str = ""
    to_topic: str = ""
    new_message_id: str = ""
    to_queue: str = ""
    to_offset: int | None = None
    stored: SendStatus | None = None
    same_as: str = ""
    error: str = ""

    def ended(self, status: ItemStatus, error: str = "") -> ItemOutcome:
        """Return this item with another end."""
        return msgspec.structs.replace(self, status=status, error=error)

    @property
    def why(self) -> str:
        """One line for people; empty where nothing is to be said."""
        return self.error or (f"the message has an older letter, {self.same_as}" if self.same_as else "")
