"""The message as the rules see it: what they need to know of it; any class with these attributes fits."""

from __future__ import annotations

from typing import Protocol, Self, TypeVar


class PulledMessage(Protocol):
    """A message as it came out of a pull response."""

    @property
    def offset(self) -> int:
        """Its ordinal in the queue."""

    @property
    def size_bytes(self) -> int:
        """What it counts for in flow control: its body, or the whole record, as long as it never changes."""

    @property
    def delivery_attempt(self) -> int:
        """How often it was delivered before; 0 the first time (RocketMQ: reconsumeTimes)."""

    def after_failure(self) -> Self:
        """Return the message with one attempt more."""

    @property
    def tags(self) -> str | None:
        """None or an empty text when it has none."""


PulledT = TypeVar("PulledT", bound=PulledMessage)
