"""What makes two messages the same."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TypeAlias

from pyromq.client.core.received_message import ReceivedMessage

Key: TypeAlias = Callable[[ReceivedMessage], str]


def message_key(message: ReceivedMessage) -> str:
    """Topic, tag and keys, if it has keys; else the id its producer gave it.

    A producer that sends again after a doubtful failure makes another id, but not other keys. They must name the event
    then, not just what it is about: of two messages with the same topic, tag and keys the second is not consumed.
    """
    if keys := message.keys:
        return "\x00".join((message.topic, message.tags, " ".join(keys)))
    return message.message_id


def key_hash(scope: str, key: str) -> str:
    """Hash a key within its scope to a text of fixed length, which differs by case whatever a database thinks of
    letters' cases.
    """
    return hashlib.sha256(f"{len(scope)}:{scope}{key}".encode("utf-8", "surrogatepass")).hexdigest()
