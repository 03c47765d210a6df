"""Mistakes in a pipeline file: all of them, each with its place, in the order of the file's checks.

structure   keys that are unknown, missing or of another type (``read_struct``); keys that YAML has twice
meaning     what ``pipeline_file`` checks of values; not below a place where a mistake was found already
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec

from pyromq.pipeline.core.keywords import did_you_mean
from pyromq.pipeline.jobs.common.errors import PipelineFileError

T = TypeVar("T", bound=msgspec.Struct)


class FileMistakes:
    """Mistakes of a pipeline file; ``where`` is the file."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._found: dict[str, str] = {}  # by place

    def add(self, place: str, reason: str) -> None:
        """Note a mistake; below a place that has one already nothing more is noted, because it follows from that."""
        if not self.has(place):
            self._found[place] = reason

    def has(self, place: str) -> bool:
        return any(place == found or place.startswith((f"{found}.", f"{found}[")) for found in self._found)

    def raise_any(self) -> None:
        """Raise PipelineFileError if there were mistakes."""
        if self._found:
            lines = [(f"{self._where}: {place}" if place else self._where, why) for place, why in self._found.items()]
            raise PipelineFileError(*lines[0], *lines[1:])


def read_struct(kind: type[T], raw: Any, place: str, mistakes: FileMistakes) -> T | None:
    """A value of ``kind`` with what is right in ``raw``, so that it can be checked further; None if it is no table."""
    if not isinstance(raw, Mapping):
        mistakes.add(place, f"Expected `object`, got `{_named(raw)}`")
        return None
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    prefix = f"{place}." if place else ""
    for key in raw:
        if key not in fields:
            hint = did_you_mean(str(key), fields) or f"its keys are {', '.join(fields)}"
            mistakes.add(f"{prefix}{key}", f"unknown key; {hint}")
    values: dict[str, Any] = {}
    for key, field in fields.items():
        if key not in raw:
            if field.required:
                mistakes.add(f"{prefix}{key}", "it is missing")
                values[field.name] = _EMPTY[get_origin(field.type) or field.type]
            continue
        found = _value(field.type, raw[key], f"{prefix}{key}", mistakes)
        if found is not None:
            values[field.name] = found
        elif field.required:
            values[field.name] = _EMPTY[get_origin(field.type) or field.type]
    return kind(**values)


_EMPTY: dict[Any, Any] = {str: "", dict: {}, tuple: ()}
"""What stands for a key that is missing or wrong, by its type."""


def _value(kind: Any, raw: Any, place: str, mistakes: FileMistakes) -> Any:
    """None when it is of another type."""
    arguments = get_args(kind)
    if get_origin(kind) is tuple and isinstance(arguments[0], type) and issubclass(arguments[0], msgspec.Struct):
        if not isinstance(raw, list):
            mistakes.add(place, f"Expected `array`, got `{_named(raw)}`")
            return None
        read = [read_struct(arguments[0], each, f"{place}[{number}]", mistakes) for number, each in enumerate(raw)]
        return tuple(each for each in read if each is not None)
    if get_origin(kind) is Literal and raw not in arguments:
        hint = did_you_mean(str(raw), arguments)
        mistakes.add(place, f"{raw!r} is not one of {', '.join(arguments)}{f'; {hint}' if hint else ''}")
        return None
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        reason, _, inner = str(error).partition(" - at ")
        mistakes.add(f"{place}{inner.strip('`').removeprefix('$')}".replace("[...]", ""), reason)
        return None


def _named(raw: Any) -> str:
    names = {type(None): "null", dict: "object", list: "array", bool: "bool"}
    return names.get(type(raw), type(raw).__name__)


def repeated_keys(text: str) -> list[tuple[str, str]]:
    """Keys of YAML that stand twice in one table, of which its parsers keep the last: the place, and the lines."""
    import yaml  # type: ignore[import-untyped]

    found: list[tuple[str, str]] = []
    looked_at: set[Any] = set()  # a table that aliases repeat is reported where it stands

    def look(node: Any, place: str) -> None:
        if node in looked_at:
            return
        looked_at.add(node)
        if isinstance(node, yaml.SequenceNode):
            for number, each in enumerate(node.value):
                look(each, f"{place}[{number}]")
        if isinstance(node, yaml.MappingNode):
            lines: dict[str, int] = {}
            for key, value in node.value:
                name, line = str(key.value), key.start_mark.line + 1
                inner = f"{place}.{name}" if place else name
                if name in lines:
                    found.append((inner, f"the key stands twice, in lines {lines[name]} and {line}"))
                lines.setdefault(name, line)
                look(value, inner)

    look(yaml.compose(text, Loader=yaml.SafeLoader), "")
    return found
