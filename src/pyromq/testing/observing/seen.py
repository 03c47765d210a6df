"""Messages as values that a test compares."""

from __future__ import annotations

from typing import Any

import msgspec

from pyromq.client.core.received_message import ReceivedMessage
from pyromq.model import property_names as names


class SeenMessage(msgspec.Struct, frozen=True, kw_only=True):
    """What a test wants to know of a message. ``attempt`` is how often it had failed before: 0 at first."""

    topic: str
    body: bytes
    keys: tuple[str, ...] = ()
    tags: str = ""
    attempt: int = 0
    message_id: str = ""
    properties: dict[str, str] = {}
    queue: int = 0
    offset: int = 0
    stored_ms: int = 0

    def __repr__(self) -> str:
        more = [f"keys={','.join(self.keys)}"] if self.keys else []
        more += [f"tags={self.tags}"] if self.tags else []
        more += [f"attempt={self.attempt}"] if self.attempt else []
        return f"<{self.topic} {self.body[:60]!r}{''.join(' ' + each for each in more)}>"

    def json(self) -> Any:
        """The body, which must be JSON. Raises msgspec.DecodeError."""
        return msgspec.json.decode(self.body)


class SeenMessages(list[SeenMessage]):
    """A list whose messages can be looked at by one of their sides."""

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self]

    @property
    def keys(self) -> list[str]:
        """The first of each; empty for a message that has none."""
        return [message.keys[0] if message.keys else "" for message in self]

    @property
    def attempts(self) -> list[int]:
        return [message.attempt for message in self]


def seen(message: ReceivedMessage, topic: str = "") -> SeenMessage:
    """``topic`` is the one that its producer sent it to, where the copy itself does not say."""
    home = message.get(names.RETRY_TOPIC) or message.get(names.REAL_TOPIC) or message.stored_topic
    return SeenMessage(
        topic=topic or home,
        body=message.body,
        keys=message.keys,
        tags=message.tags,
        attempt=message.delivery_attempt,
        message_id=message.message_id,
        properties=dict(message.properties),
        queue=message.queue_id,
        offset=message.offset,
        stored_ms=message.stored_ms,
    )
