"""Entry tag: the third field of a queue entry, by which tag filters and delay levels work."""

from __future__ import annotations

from pyromq.model.names import SCHEDULE_TOPIC
from pyromq.wire.java_hash import tag_hash
from pyromq.wire.properties import find_property

_LEVEL_WITHOUT_STEP_MS = 1_000
_ITEM_END = 2


def entry_tag(topic: str, properties: bytes, stored_ms: int, ladder_ms: tuple[int, ...]) -> int:
    """The hash of the message's tag (0 without one) or, in the topic of delay levels, its time of delivery."""
    if topic == SCHEDULE_TOPIC and (level := find_property(properties, b"DELAY")):
        return stored_ms + _delay_ms(level, ladder_ms)
    start = properties.rfind(b"TAGS\x01")
    if start < 0:
        return 0
    if start and properties[start - 1] != _ITEM_END:  # the end of another name, or part of a value
        tag = find_property(properties, b"TAGS") or b""
    else:
        end = properties.find(b"\x02", start)
        tag = properties[start + 5 : end] if end >= 0 else properties[start + 5 :]
    return tag_hash(tag) if tag else 0


def _delay_ms(level: bytes, ladder_ms: tuple[int, ...]) -> int:
    number = min(int(level), len(ladder_ms)) if level.isdigit() else 0
    return ladder_ms[number - 1] if number > 0 else _LEVEL_WITHOUT_STEP_MS
