"""Modules of a folder that declare something: nobody has to list them, and none is forgotten."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")


def declared_in(package: ModuleType, name: str, kind: type[T]) -> list[T]:
    """What the modules of a package have under a name, in the order of their names."""
    found = []
    for module in sorted(each.name for each in iter_modules(package.__path__)):
        declared = getattr(import_module(f"{package.__name__}.{module}"), name, None)
        if isinstance(declared, kind):
            found.append(declared)
    return found
