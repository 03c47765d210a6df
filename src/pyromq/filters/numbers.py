"""Property texts as numbers, by the rules of Java's ``Long.parseLong`` and ``Double.parseDouble``, else ValueError.

Texts are bytes, as they are stored. The common forms are decided without a regular expression.
"""

from __future__ import annotations

import math
import re
from typing import Final

_LONG_MIN, _LONG_MAX = -(1 << 63), (1 << 63) - 1
_SURELY_LONG: Final = 18  # this many digits always fit
_LAST_OF_PLANE: Final = "\uffff"  # Java looks at UTF-16 units: digits behind this one are none for it
_whole = re.compile(r"[+-]?\d+").fullmatch
_decimal = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?").fullmatch
_hex = re.compile(rb"[+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+").fullmatch
_NAMED: Final = {b"Infinity": math.inf, b"+Infinity": math.inf, b"-Infinity": -math.inf}
_NAN_NAMES: Final = (b"NaN", b"+NaN", b"-NaN")
_BLANKS: Final = bytes(range(33))


class NotANumber(float):
    """Java orders it: greater than every number, equal to itself."""

    def __new__(cls) -> NotANumber:
        return super().__new__(cls, math.nan)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NotANumber)

    def __ne__(self, other: object) -> bool:
        return not isinstance(other, NotANumber)

    def __lt__(self, other: float) -> bool:
        return False

    def __le__(self, other: float) -> bool:
        return isinstance(other, NotANumber)

    def __gt__(self, other: float) -> bool:
        return not isinstance(other, NotANumber)

    def __ge__(self, other: float) -> bool:
        return True

    __hash__ = float.__hash__


_NAN: Final = NotANumber()


def whole(text: bytes) -> int:
    """A whole number of 64 bits."""
    if len(text) <= _SURELY_LONG and text.isdigit():
        return int(text)
    decoded = text.decode()
    if not _whole(decoded) or max(decoded) > _LAST_OF_PLANE:
        raise ValueError("not a whole number")
    value = int(decoded)
    if not _LONG_MIN <= value <= _LONG_MAX:
        raise ValueError("beyond 64 bits")
    return value


def double(text: bytes) -> float:
    """A number with fraction; blanks around it do not count."""
    if text.replace(b".", b"", 1).isdigit():
        return float(text)
    text = text.strip(_BLANKS)
    if text in _NAN_NAMES:
        return _NAN
    if text in _NAMED:
        return _NAMED[text]
    if text[-1:] in b"fFdD" and not _hex(text):
        text = text[:-1]
    if _decimal(text):
        return float(text)
    if _hex(text):
        try:
            return float.fromhex(text.decode())
        except OverflowError:
            return -math.inf if text.startswith(b"-") else math.inf
    raise ValueError("not a number")


def order_of_doubles(left: float, right: float) -> int:
    """-1, 0 or 1; the negative zero comes before the other."""
    if left == 0 == right:
        left, right = math.copysign(1, left), math.copysign(1, right)
    return -1 if left < right else int(left > right)
