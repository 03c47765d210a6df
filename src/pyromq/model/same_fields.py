"""Rows that share fields with what they are made from."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from pyromq.model.queue import QueueId

_MISSING: Final = object()


def same_fields(row: type[msgspec.Struct], source: object, *others: str) -> dict[str, Any]:
    """Return the fields of a row that its source has under the same names, except for others."""
    found = {name: getattr(source, name, _MISSING) for name in row.__struct_fields__ if name not in others}
    return {name: value for name, value in found.items() if value is not _MISSING}


def place_fields(queue: QueueId) -> dict[str, Any]:
    """Return the fields that name a queue in a row."""
    return {"topic": queue.topic, "broker": queue.broker, "queue": queue.number}
