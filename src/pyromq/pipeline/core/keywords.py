"""Keyword options of public functions: a settings value from what was given, and a hint for a misspelt name.

class Options(TypedDict, total=False)          names and types, for type checkers and editors: **options: Unpack[…]
@dataclass(frozen=True) class Settings         the same names with their defaults: what the function works with
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, TypeVar

T = TypeVar("T")


def settings_from(kind: type[T], given: Mapping[str, object], function: str) -> T:
    """A value of the dataclass ``kind``. Raises TypeError for a name that it does not have, with the closest it has."""
    known = [each.name for each in fields(kind)]  # type: ignore[arg-type]  # any dataclass
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known) or f"its options are {', '.join(known)}"
            raise TypeError(f"{function}() has no option {name!r}; {hint}")
    values: Mapping[str, Any] = given
    return kind(**values)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question with the closest known name, whatever the case; empty when none is close."""
    found = closest(name, known)
    return f"did you mean {found}?" if found else ""


def closest(name: str, known: Iterable[str]) -> str:
    """Known name that is closest, whatever the case; empty when none is close."""
    by_lower = {each.lower(): each for each in known}
    close = get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[close[0]] if close else ""
