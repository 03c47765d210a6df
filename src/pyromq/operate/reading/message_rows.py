"""Messages as rows: what commands write as JSON, what the HTTP API gives, and lines of exports."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import MQError
from pyromq.model.same_fields import same_fields


class MessageSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A message without its body and properties. ``stored_topic`` is another than ``topic`` for a retry or dead letter.

    ``attempt`` counts the deliveries that failed before.
    """

    message_id: str
    offset_message_id: str
    topic: str
    stored_topic: str
    broker: str
    queue: int
    offset: int
    tags: str
    keys: tuple[str, ...]
    attempt: int
    born_ms: int
    stored_ms: int
    body_bytes: int


class MessageRow(MessageSummary, frozen=True, kw_only=True, omit_defaults=True):
    """A whole message, which ``pyromq send --jsonl`` takes back. A body that is not UTF-8 is in ``body_base64``.

    ``problem`` says why a body is as it is stored, compressed. JSON leaves out what follows ``properties`` where it is
    empty.
    """

    born_host: str
    store_host: str
    properties: dict[str, str]
    sharding_key: str = ""
    priority: int | None = None
    flag: int = 0
    body: str | None = None
    body_base64: str | None = None
    problem: str = ""


def row_of(message: ReceivedMessage) -> MessageRow:
    """Make a row of a message."""
    body, problem = body_of(message)
    return MessageRow(
        **summary_fields(message, body),
        born_host=str(message.born_host),
        store_host=str(message.store_host),
        properties=dict(sorted(message.properties.items())),
        sharding_key=message.sharding_key,
        priority=message.priority,
        flag=message.flag,
        problem=problem,
        **_body_fields(body),
    )


def summary_fields(message: ReceivedMessage, body: bytes) -> dict[str, Any]:
    """Return the fields of a ``MessageSummary``."""
    counted = {"queue": message.queue_id, "attempt": message.delivery_attempt, "body_bytes": len(body)}
    return {**same_fields(MessageSummary, message, "queue"), **counted}


def body_of(message: ReceivedMessage) -> tuple[bytes, str]:
    """Return the body, decompressed; or as it is stored, and why it cannot be."""
    try:
        return message.body, ""
    except MQError as error:
        return message.packed_body, f"the body cannot be decompressed: {error}"


def _body_fields(body: bytes) -> dict[str, Any]:
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}
