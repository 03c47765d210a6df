"""Kinds of annotations: what a type is, told without importing the package it comes from.

A class of pydantic or protobuf can only be there if its package is imported already, so looking at the class is enough.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

_UNIONS: Final = (Union, types.UnionType)
RAW: Final = (bytes, bytearray, memoryview)


def is_pydantic(kind: object) -> bool:
    """A model or a dataclass of pydantic 2."""
    return isinstance(kind, type) and hasattr(kind, "__pydantic_validator__")


def is_protobuf(kind: object) -> bool:
    return isinstance(kind, type) and any(
        each.__module__ == "google.protobuf.message" and each.__name__ == "Message" for each in kind.__mro__[1:]
    )


def is_message(kind: object) -> bool:
    """A class that is a message by its looks: ReceivedMessage, and what imitates it."""
    return isinstance(kind, type) and all(hasattr(kind, name) for name in ("body", "get", "message_id"))


def without_annotated(annotation: Any) -> Any:
    """``Annotated[X, …]`` is X; msgspec and pydantic get to see the whole."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return annotation


def members(annotation: Any) -> tuple[Any, ...]:
    """Those of a union; of everything else itself."""
    plain = without_annotated(annotation)
    if get_origin(plain) in _UNIONS:
        return tuple(each for member in get_args(plain) for each in members(member))
    return (plain,)


def without_none(annotation: Any) -> Any:
    """``X | None`` is X; other unions stay as they are."""
    some = [each for each in members(annotation) if each is not type(None)]
    return some[0] if len(some) == 1 else annotation


def parts(annotation: Any) -> Iterator[Any]:
    """All types that an annotation mentions: ``dict[str, list[Order]]`` has dict, str, list and Order."""
    for member in members(annotation):
        origin = get_origin(member)
        yield origin or member
        for argument in () if origin is Literal else get_args(member):
            yield from parts(argument)


def name_of(annotation: Any) -> str:
    """Name of a type as its author would write it."""
    if annotation is None or annotation is type(None):
        return "None"
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation.__qualname__.rpartition("<locals>.")[2]
    plain = without_annotated(annotation)
    if get_origin(plain) in _UNIONS:
        return " | ".join(map(name_of, get_args(plain)))
    if (arguments := get_args(plain)) and isinstance(origin := get_origin(plain), type):
        return f"{origin.__qualname__}[{', '.join('…' if each is ... else name_of(each) for each in arguments)}]"
    return str(plain).replace("typing.", "")


def schema_name(kind: object) -> str:
    """What a class is called in messages: its ``__schema_name__``, or its name; types of Python have none."""
    if not isinstance(kind, type) or kind.__module__ == "builtins":
        return ""
    own = kind.__dict__.get("__schema_name__")
    return own if isinstance(own, str) else kind.__name__
