"""Java's String.hashCode: tags are filtered by it, message keys are indexed by it (many at once: ``fast/key_hashes``).

h = 0; for each UTF-16 unit c: h = 31 * h + c  (mod 2^32, read as signed)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import mul

_WORD = 0xFFFFFFFF
_UNITS_IN_TABLE = 512
_POWERS: tuple[int, ...] = tuple(pow(31, n, 1 << 32) for n in range(_UNITS_IN_TABLE - 1, -1, -1))


def java_hash(text: str) -> int:
    """The signed 32-bit hash of a string."""
    return _signed(_unsigned_hash(text))


@lru_cache(maxsize=1024)  # a tag has at most 32 KiB, so these take at most 33 MB
def tag_hash(tag: bytes) -> int:
    """Hash of a tag as it lies in a consume queue; a message without tag has 0."""
    return java_hash(tag.decode("utf-8", "replace"))


def _unsigned_hash(text: str) -> int:
    units: Sequence[int] = text.encode("ascii") if text.isascii() else _utf16_units(text)
    if len(units) <= _UNITS_IN_TABLE:
        return int(sum(map(mul, units, _POWERS[_UNITS_IN_TABLE - len(units) :]))) & _WORD
    value = 0
    for unit in units:
        value = (31 * value + unit) & _WORD
    return value


def _utf16_units(text: str) -> list[int]:
    """Code units as Java counts them: characters beyond the basic plane are two."""
    raw = text.encode("utf-16-be", "surrogatepass")
    return [raw[at] << 8 | raw[at + 1] for at in range(0, len(raw), 2)]


def _signed(word: int) -> int:
    return word - (1 << 32) if word >= 1 << 31 else word
