"""Entry tag: the third field of a queue entry, by which tag filters and delay levels work."""

from __future__ import annotations

from pyromq.model import property_names as names
from pyromq.model.names import SCHEDULE_TOPIC
from pyromq.wire.java_hash import tag_hash
from pyromq.wire.properties import ITEM_END_BYTE, find_property
from pyromq.wire.property_text import item_key

_LEVEL_WITHOUT_STEP_MS = 1_000
_DELAY, _TAGS = names.DELAY.encode(), names.TAGS.encode()
_TAGS_KEY = item_key(names.TAGS).encode()
_ITEM_END = names.ITEM_END.encode()


def entry_tag(topic: str, properties: bytes, stored_ms: int, ladder_ms: tuple[int, ...]) -> int:
    """The hash of the message's tag (0 without one) or, in the topic of delay levels, its time of delivery."""
    if topic == SCHEDULE_TOPIC and (level := find_property(properties, _DELAY)):
        return stored_ms + _delay_ms(level, ladder_ms)
    before, found, behind = properties.rpartition(_TAGS_KEY)
    if not found:
        return 0
    if before and before[-1] != ITEM_END_BYTE:  # the end of another name, or part of a value
        tag = find_property(properties, _TAGS) or b""
    else:
        tag = behind.partition(_ITEM_END)[0]
    return tag_hash(tag) if tag else 0


def _delay_ms(level: bytes, ladder_ms: tuple[int, ...]) -> int:
    number = min(int(level), len(ladder_ms)) if level.isdigit() else 0
    return ladder_ms[number - 1] if number > 0 else _LEVEL_WITHOUT_STEP_MS
