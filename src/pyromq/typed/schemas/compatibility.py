"""Whether a schema may follow another one: who reads what of whom.

    backward   consumers with the new schema read messages of the old one      consumers change first
    forward    consumers with the old schema read messages of the new one      producers change first
    full       both                                                            none

A reader passes over fields that it does not know, and takes a field that is missing for null; it reads numbers that are
narrower than its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

from pyromq.typed.schemas.fields import FieldType, SchemaField

_WIDER: Final = {
    "tinyint": ("smallint", "int", "bigint", "float", "double"),
    "smallint": ("int", "bigint", "float", "double"),
    "int": ("bigint", "double"),
    "bigint": (),
    "float": ("double",),
}


class Compatibility(StrEnum):
    BACKWARD = "backward"
    FORWARD = "forward"
    FULL = "full"
    NONE = "none"


def breaks(old: Sequence[SchemaField], new: Sequence[SchemaField], promise: Compatibility) -> list[str]:
    """What a new schema would break, in words; nothing where it keeps the promise."""
    found: list[str] = []
    if promise in (Compatibility.BACKWARD, Compatibility.FULL):
        found += [f"{text}, so the new schema does not read older messages" for text in _unreadable(new, old, "")]
    if promise in (Compatibility.FORWARD, Compatibility.FULL):
        found += [f"{text}, so the old schema does not read newer messages" for text in _unreadable(old, new, "")]
    return found


def _unreadable(reader: Sequence[SchemaField], writer: Sequence[SchemaField], place: str) -> Iterator[str]:
    """What a reader of some fields misses in bodies of others."""
    written = {each.name: each for each in writer}
    for field in reader:
        name = f"{place}{field.name}"
        other = written.get(field.name)
        if other is None:
            if field.required:
                yield f"field {name} is required, and not there"
            continue
        if field.required and not other.required:
            yield f"field {name} is required, and may be null"
        yield from _unlike(field.type, other.type, name)


def _unlike(reader: FieldType, writer: FieldType, name: str) -> Iterator[str]:
    if reader.name != writer.name:
        if reader.name not in _WIDER.get(writer.name, ()):
            yield f"field {name} is {reader}, and {writer} is not read as that"
    elif reader.name == "struct":
        yield from _unreadable(reader.fields, writer.fields, f"{name}.")
    elif reader.name in ("array", "map"):
        for number, (own, other) in enumerate(zip(reader.items, writer.items, strict=True)):
            yield from _unlike(own, other, f"{name}[{number if reader.name == 'map' else ''}]")
    elif reader.name == "decimal":
        digits = reader.precision - reader.scale, writer.precision - writer.scale
        if digits[0] < digits[1] or reader.scale < writer.scale:
            yield f"field {name} is {reader}, and {writer} is not read as that"
