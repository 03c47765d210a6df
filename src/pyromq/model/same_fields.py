"""Rows that share fields with what they are made from."""

from __future__ import annotations

from typing import Any

import msgspec

from pyromq.model.queue import QueueId


def same_fields(row: type[msgspec.Struct], source: object, *others: str) -> dict[str, Any]:
    """Return the fields of a row that its source has under the same names, except for others."""
    names = [name for name in row.__struct_fields__ if name not in others and hasattr(source, name)]
    return {name: getattr(source, name) for name in names}


def place_fields(queue: QueueId) -> dict[str, Any]:
    """Return the fields that name a queue in a row."""
    return {"topic": queue.topic, "broker": queue.broker, "queue": queue.number}
