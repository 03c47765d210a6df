r"""Message properties as text: ``name 0x01 value 0x02`` repeated, as requests carry them.

Everything that makes, reads or changes such a text is here; a text is searched several times faster than bytes, so
requests keep them as they came. ``properties`` has the same for the encoded bytes of a stored record, with the rules
of what may be stored; ``fast.message_properties`` has the text of a message that is sent, unrolled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from pyromq.errors import LocalProtocolError
from pyromq.model.property_names import ITEM_END, NAME_END


def item_key(name: str) -> str:
    """How an item of this name begins: to build constants from."""
    return name + NAME_END


def join_items(items: Iterable[tuple[str, str]]) -> str:
    """The text of these names and values, in their order, unchecked."""
    return "".join([f"{name}\x01{value}\x02" for name, value in items])


def split_items(text: str) -> dict[str, str]:
    """All properties; what has no name or no value is left out, of a repeated name the last one counts."""
    items = (item.partition(NAME_END) for item in text.split(ITEM_END))
    return {name: value for name, _, value in items if name and value}


def encode_text(text: str) -> bytes:
    """The text as it is stored. Raises LocalProtocolError."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"properties cannot be stored as UTF-8: {error}") from error


def value_of(text: str, name: str) -> str:
    """The value of the last item with this name; empty when there is none."""
    key = f"{name}\x01"
    before, found, behind = text.rpartition(key)  # cheaper than rfind, find and a slice
    if not found:
        return ""
    if before and before[-1] != ITEM_END:  # the end of another name, or part of a value
        return _value_further_in_front(text, key, len(before))
    return behind.partition(ITEM_END)[0]


def _value_further_in_front(text: str, key: str, start: int) -> str:
    while start > 0 and text[start - 1] != ITEM_END:
        start = text.rfind(key, 0, start)
    return text[start + len(key) :].partition(ITEM_END)[0] if start >= 0 else ""


def number_of(text: str, name: str) -> int | None:
    """The value as a whole number; None when it is missing or not one."""
    value = value_of(text, name)
    try:
        return int(value) if value else None
    except ValueError:
        return None


def closed(text: str) -> str:
    """With the mark at the end that some writers leave out, so that items can be added."""
    return text if not text or text[-1] == ITEM_END else text + ITEM_END


def without(text: str, names: Iterable[str]) -> str:
    """Without the items of these names."""
    keys = _keys(tuple(names))
    return ITEM_END.join([item for item in closed(text).split(ITEM_END) if not item.startswith(keys)])


def with_values(text: str, values: Mapping[str, str], *, drop: tuple[str, ...] = ()) -> str:
    """With these items in place of those that had the same names, and without those of ``drop``."""
    return without(text, (*drop, *values)) + join_items(values.items())


@lru_cache(maxsize=256)
def _keys(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple([f"{name}\x01" for name in names])
