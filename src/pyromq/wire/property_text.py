r"""Message properties as the text they travel in, read and changed without taking everything apart.

A text is searched several times faster than bytes, so requests keep them as they came.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache


def value_of(text: str, name: str) -> str:
    """The value of the last item with this name; empty when there is none."""
    key = f"{name}\x01"
    start = text.rfind(key)
    while start > 0 and text[start - 1] != "\x02":
        start = text.rfind(key, 0, start)
    if start < 0:
        return ""
    start += len(key)
    end = text.find("\x02", start)
    return text[start:] if end < 0 else text[start:end]


def number_of(text: str, name: str) -> int | None:
    """The value as a whole number; None when it is missing or not one."""
    value = value_of(text, name)
    try:
        return int(value) if value else None
    except ValueError:
        return None


def closed(text: str) -> str:
    """With the mark at the end that some writers leave out, so that items can be added."""
    return text if not text or text[-1] == "\x02" else text + "\x02"


def without(text: str, names: Iterable[str]) -> str:
    """Without the items of these names."""
    keys = _keys(tuple(names))
    return "\x02".join([item for item in closed(text).split("\x02") if not item.startswith(keys)])


def with_values(text: str, values: Mapping[str, str], *, drop: tuple[str, ...] = ()) -> str:
    """With these items in place of those that had the same names, and without those of ``drop``."""
    return without(text, (*drop, *values)) + "".join([f"{name}\x01{value}\x02" for name, value in values.items()])


@lru_cache(maxsize=256)
def _keys(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple([f"{name}\x01" for name in names])
