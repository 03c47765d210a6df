"""Entry tag: the third field of a queue entry, by which tag filters and delay levels work.

The only rule for it: appends, copies of a master's log, rebuilds and checks ask ``entry_tag``. It must come out the
same from properties as a sender gave them and as they are stored, without a checksum that the sender made up. The
compiled core takes the tag of plain properties alone, and leaves the others to Python.
"""

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
    tag = behind.partition(_ITEM_END)[0]  # ``find_property``, unrolled for what nearly all have
    if not tag or (before and before[-1] != ITEM_END_BYTE):  # the end of another name, part of a value, or without one
        tag = find_property(properties, _TAGS) or b""
    return tag_hash(tag) if tag else 0


def _delay_ms(level: bytes, ladder_ms: tuple[int, ...]) -> int:
    number = min(int(level), len(ladder_ms)) if level.isdigit() else 0
    return ladder_ms[number - 1] if number > 0 else _LEVEL_WITHOUT_STEP_MS
