"""Outgoing copies of stored messages: target, id and properties.

    redriven_id   follows from the dead letter          REDRIVEN_FROM   the letter that a copy was made from
    copy_id       from message, target and run          COPIED_FROM     the message that a copy was made from

A copy keeps the properties of the application; what the system did to the message is gone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from pyromq.client.core.client import Client
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.model import property_names as names
from pyromq.model.failure import STORY_NAMES
from pyromq.model.names import DEAD_LETTER_PREFIX
from pyromq.operate.resend.outcomes import ItemOutcome, ItemStatus
from pyromq.wire.flags import COMPRESSION_MASK, SysFlag

REDRIVEN_FROM: Final = "REDRIVEN_FROM"
COPIED_FROM: Final = "COPIED_FROM"
_KEPT: Final = (names.KEYS, names.TAGS, names.SHARDING_KEY, names.PRIORITY, names.INSTANCE_ID)
LEFT_OUT: Final = (names.RESERVED | {names.DLQ_ERROR, names.DLQ_STAGE, *STORY_NAMES}).difference(_KEPT)
_BODY_FLAGS: Final = int(SysFlag.COMPRESSED | COMPRESSION_MASK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A copy that can be sent; ``source`` becomes its outcome. The body travels as it is stored.

    An earlier run may have sent it to one of the topics ``sent_to``, under one of the ids ``sent_as``; its own topic
    and id where they are empty. ``is_checked``: the engine looks there first.
    """

    source: ItemOutcome
    topic: str
    message_id: str
    body: bytes
    properties: tuple[tuple[str, str], ...]
    flag: int = 0
    sys_flag: int = 0
    sent_to: tuple[str, ...] = ()
    sent_as: tuple[str, ...] = ()
    is_checked: bool = True

    @property
    def sharding_key(self) -> str:
        return next((value for name, value in self.properties if name == names.SHARDING_KEY), "")


Item: TypeAlias = Outgoing | ItemOutcome
"""A message to send, or why there is none."""


def application_properties(given: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the properties that a message keeps when it is sent again."""
    return [(name, value) for name, value in given.items() if name not in LEFT_OUT]


def copied_properties(
    given: Mapping[str, str], message_id: str, marks: Iterable[tuple[str, str]]
) -> tuple[tuple[str, str], ...]:
    """Return the properties of a copy: its id, ``marks``, and those of the application."""
    own = {names.UNIQUE_KEY: message_id, **dict(marks)}
    return (*own.items(), *(each for each in application_properties(given) if each[0] not in own))


def source_of(message: ReceivedMessage) -> ItemOutcome:
    """Return the item that a stored message is, before anything became of it."""
    return ItemOutcome(
        offset_message_id=message.offset_message_id,
        status=ItemStatus.WOULD_SEND,
        message_id=message.message_id,
        keys=" ".join(message.keys),
        tags=message.tags,
    )


def outgoing(
    message: ReceivedMessage, source: ItemOutcome, marks: Iterable[tuple[str, str]], **more: tuple[str, ...] | bool
) -> Outgoing:
    """Return the copy of a stored message; ``source`` says where it goes and under which id."""
    return Outgoing(
        source=source,
        topic=source.to_topic,
        message_id=source.new_message_id,
        body=message.packed_body,
        properties=copied_properties(message.properties, source.new_message_id, marks),
        flag=message.flag,
        sys_flag=message.sys_flag & _BODY_FLAGS,
        **more,  # type: ignore[arg-type]
    )


def first_topic(client: Client, message: ReceivedMessage) -> str:
    """Return the topic that a message was sent to, also of a dead letter; without namespace."""
    if message.stored_topic.startswith(DEAD_LETTER_PREFIX):
        return client.plain_name(origin_topic(message.properties) or message.stored_topic)
    return client.plain_name(message.topic)


def origin_topic(properties: Mapping[str, str]) -> str:
    """Return the topic that a dead letter was sent to first, as servers know it; empty where it does not say."""
    return properties.get(names.RETRY_TOPIC) or properties.get(names.DLQ_ORIGIN_TOPIC) or ""


def redriven_id(offset_message_id: str) -> str:
    """Return the id of the message that a dead letter becomes: always the same, and no other message has it."""
    return hashlib.blake2b(offset_message_id.encode(), digest_size=16, person=b"redriven").hexdigest().upper()


def copy_id(message: ReceivedMessage, target: str, run_id: str) -> str:
    """Return the id of a copy: always the same for a message, a topic and a run, and no other message has it."""
    text = f"{message.offset_message_id} {target} {run_id}"
    return hashlib.blake2b(text.encode(), digest_size=16, person=b"copied").hexdigest().upper()
