"""Messages as rows: what ``message``, ``tail`` and ``consume`` show of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyromq.cli.nouns.message_lines import body_fields

if TYPE_CHECKING:
    from pyromq.aio import ReceivedMessage


def message_row(message: ReceivedMessage) -> dict[str, Any]:
    """What programs get of a message; ``send --jsonl`` takes it back."""
    row = {
        "message_id": message.message_id,
        "offset_message_id": message.offset_message_id,
        "topic": message.topic,
        "broker": message.broker,
        "queue": message.queue_id,
        "offset": message.offset,
        "tags": message.tags,
        "keys": " ".join(message.keys),
        "attempt": message.delivery_attempt,
        "born_ms": message.born_ms,
        "born_host": str(message.born_host),
        "stored_ms": message.stored_ms,
        "body_bytes": len(message.body),
        "properties": dict(sorted(message.properties.items())),
        "body": body_text(message),
    }
    if "body_base64" in (exact := body_fields(message.body)):
        row["body_base64"] = exact["body_base64"]  # ``body`` is for reading then
    return row


def body_text(message: ReceivedMessage) -> str:
    """Bytes that are not UTF-8 are escaped."""
    return message.body.decode("utf-8", "backslashreplace")


def place_of(row: dict[str, Any]) -> str:
    """Where a message is stored, for a table: ``broker-a:3@42``."""
    return f"{row['broker']}:{row['queue']}@{row['offset']}"
