"""What a DAG run gets of a message: a dict that JSON can hold."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from pyromq.aio import ReceivedMessage
from pyromq.model.property_names import RESERVED


def event_of(message: ReceivedMessage) -> dict[str, Any]:
    """``body`` is text if it is UTF-8; else it is None, and ``body_base64`` has it."""
    event: dict[str, Any] = {
        "topic": message.topic,
        "tags": message.tags,
        "keys": list(message.keys),
        "message_id": message.message_id,
        "broker": message.broker,
        "queue": message.queue_id,
        "offset": message.offset,
        "born_ms": message.born_ms,
        "properties": {name: value for name, value in message.properties.items() if name not in RESERVED},
    }
    body = message.body
    try:
        return {**event, "body": body.decode()}
    except UnicodeDecodeError:
        return {**event, "body": None, "body_base64": b64encode(body).decode("ascii")}
