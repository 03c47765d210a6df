"""Outgoing copies of stored messages, and the outcome of each.

Their ids follow from the message alone, so what an earlier run sent can be found, and consumers can recognise what
comes twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

import msgspec

from pyromq.client.admin.dead_letters import application_properties
from pyromq.model import property_names as names

COLUMNS: Final = ("topic", "message_id", "offset_message_id", "keys", "tags", "flag", "properties", "body")
"""What of a message it takes to send it again."""


class MessageRow(Protocol):
    """Of a DataFrame, or a plain dict."""

    def __getitem__(self, column: str, /) -> Any: ...


class SendOutcome(StrEnum):
    SENT = "sent"
    WOULD_SEND = "would send"
    SENT_BEFORE = "sent before"
    FAILED = "failed"
    HELD_BACK = "held back"
    SAME_MESSAGE = "same message"


class Resent(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one message; ``offset_message_id`` is where it stands in the log it was read from."""

    message_id: str
    offset_message_id: str
    keys: str
    outcome: SendOutcome
    to_topic: str = ""
    new_message_id: str = ""
    queue: str = ""
    offset: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message on its way; ``source`` tells of where it comes from."""

    source: Resent
    topic: str
    message_id: str
    body: bytes
    properties: tuple[tuple[str, str], ...]
    flag: int = 0
    sent_to: tuple[str, ...] = ()  # topics where an earlier run may have sent it; its own if there are none
    sent_as: tuple[str, ...] = ()  # ids under which it may have; its own if there are none

    @property
    def sharding_key(self) -> str:
        return dict(self.properties).get(names.SHARDING_KEY, "")


def source_of(row: MessageRow, outcome: SendOutcome, **more: Any) -> Resent:
    """``row`` has the columns above."""
    return Resent(
        message_id=row["message_id"] or "",
        offset_message_id=row["offset_message_id"],
        keys=row["keys"] or "",
        outcome=outcome,
        **more,
    )


def outgoing(
    row: MessageRow, topic: str, message_id: str, marks: Sequence[tuple[str, str]], *, sent_to: Iterable[str] = ()
) -> Outgoing | Resent:
    """The message to send for a row; what the system did to it is gone, ``marks`` are added. Resent if it cannot be."""
    body = row["body"]
    if not body:
        reason = "its body is empty" if body is not None else "its body cannot be decompressed"
        return source_of(row, SendOutcome.FAILED, to_topic=topic, error=reason)
    marked = {name for name, _ in marks}
    kept = [(name, value) for name, value in application_properties(row["properties"]) if name not in marked]
    properties = ((names.UNIQUE_KEY, message_id), *marks, *kept)
    source = source_of(row, SendOutcome.SENT, to_topic=topic, new_message_id=message_id)
    places = tuple(dict.fromkeys(sent_to))
    return Outgoing(source, topic, message_id, bytes(body), properties, row["flag"] or 0, places)


def derived_id(kind: str, *parts: str) -> str:
    """32 hexadecimal digits that only these parts give."""
    text = "\0".join(parts).encode()
    return hashlib.blake2b(text, digest_size=16, person=kind.encode()[:16]).hexdigest().upper()
