"""Java's String.hashCode: tags are filtered by it, message keys are indexed by it.

h = 0; for each UTF-16 unit c: h = 31 * h + c  (mod 2^32, read as signed)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import mul
from os.path import commonprefix

_WORD = 0xFFFFFFFF
_LANE_BYTES = 8
_STEPS_PER_MASK = 6  # a lane holds 64 bits; each step adds 5 to the 32 (+ carry) that the mask leaves
_UNITS_IN_TABLE = 512
_POWERS: tuple[int, ...] = tuple(pow(31, n, 1 << 32) for n in range(_UNITS_IN_TABLE - 1, -1, -1))


def java_hash(text: str) -> int:
    """The signed 32-bit hash of a string."""
    return _signed(_unsigned_hash(text))


@lru_cache(maxsize=4096)
def tag_hash(tag: bytes) -> int:
    """Hash of a tag as it lies in a consume queue; a message without tag has 0."""
    return java_hash(tag.decode("utf-8", "replace"))


def ascii_hashes(texts: Sequence[bytes]) -> list[int]:
    """Unsigned 32-bit hashes of many ASCII strings, several times as fast as one by one.

    What all strings begin with is hashed once. From there on they advance together, one character a step: each owns a
    64-bit lane of one big integer, so a step over all of them is one multiplication and one addition.
    """
    if not texts:
        return []
    shared = len(commonprefix((min(texts), max(texts))))  # noqa: RUF071 - these are not paths
    count, length = len(texts), max(map(len, texts))
    if shared and min(map(len, texts)) == length:
        start = _unsigned_hash(texts[0][:shared].decode("ascii"))
        columns, length = b"".join([text[shared:] for text in texts]), length - shared
    else:  # leading NULs do not change a hash that starts from 0, so padding makes lengths equal
        start, columns = 0, b"".join([text.rjust(length, b"\0") for text in texts])
    mask = int.from_bytes(b"\0\0\0\0\xff\xff\xff\xff" * count, "big")
    lanes, column = int.from_bytes(start.to_bytes(_LANE_BYTES, "big") * count, "big"), bytearray(_LANE_BYTES * count)
    for step in range(length):
        column[_LANE_BYTES - 1 :: _LANE_BYTES] = columns[step::length]
        lanes = lanes * 31 + int.from_bytes(column, "big")
        if step % _STEPS_PER_MASK == _STEPS_PER_MASK - 1:
            lanes &= mask
    last_first = memoryview((lanes & mask).to_bytes(_LANE_BYTES * count, "little")).cast("Q").tolist()
    return last_first[::-1]


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
