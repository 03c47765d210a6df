"""A row for tests."""

from __future__ import annotations

from typing import Any

from pyromq.pipeline.consuming.rows import Record


def record(body: bytes | None = b"x", **facts: Any) -> Record:
    given = {
        "stored_topic": "orders", "broker": "a", "queue_id": 1, "queue_offset": 7, "delivery_attempt": 0, "flag": 0,
        "position": 99, "raw_properties": "UNIQ_KEY\x01ID\x02TAGS\x01red\x02KEYS\x01k\x02", "body": body, **facts,
    }  # fmt: skip
    return Record(**given)
