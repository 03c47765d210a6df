"""A dead letter as a row of the source."""

from __future__ import annotations

from typing import Any

from pyromq.model import property_names as names


def row(**more: Any) -> dict[str, Any]:
    given = {
        "topic": "%DLQ%g", "message_id": "M", "offset_message_id": "O", "keys": "k", "tags": "t", "flag": 7,
        "body": b"x", "properties": {
            names.KEYS: "k", names.TAGS: "t", names.UNIQUE_KEY: "M", names.RETRY_TOPIC: "orders",
            names.SHARDING_KEY: "s", "RECONSUME_TIME": "3", "colour": "green",
        },
    }  # fmt: skip
    return {**given, **more}
