"""Documents as YAML, for people: mappings and lists by indentation, texts as JSON has them, which is YAML, too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_/ .-]*[A-Za-z0-9_]|[A-Za-z_]")
_WORDS: Final = frozenset(("true", "false", "yes", "no", "on", "off", "null", "y", "n"))


def to_yaml(document: dict[str, Any]) -> str:
    return "".join(f"{line}\n" for line in _lines(document, 0))


def _lines(value: Any, depth: int) -> Iterator[str]:
    pad = "  " * depth
    if isinstance(value, dict) and value:
        for name, each in value.items():
            if _is_flat(each):
                yield f"{pad}{_scalar(name)}: {_scalar(each)}"
            else:
                yield f"{pad}{_scalar(name)}:"
                yield from _lines(each, depth + 1)
    elif isinstance(value, list) and value:
        for each in value:
            first, *rest = _lines(each, depth + 1) if not _is_flat(each) else (f"{pad}  {_scalar(each)}",)
            yield f"{pad}- {first[len(pad) + 2 :]}"
            yield from rest
    else:
        yield f"{pad}{_scalar(value)}"


def _is_flat(value: Any) -> bool:
    return not (isinstance(value, dict | list) and value)


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return msgspec.json.encode(value).decode()
