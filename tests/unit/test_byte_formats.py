"""Formats that travel live in ``wire``: other packages pack no struct, and write no separator or name of a property."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pyromq
from pyromq.model.property_names import ITEM_END, NAME_END, RESERVED

SOURCE = Path(pyromq.__file__).parent
# Formats of one file or one protocol that RocketMQ's wire does not have; each module begins with its layout.
OWN_STRUCTS = {
    "console/history/files.py",  # samples of the console, on disk
    "net/preamble.py",  # the PROXY protocol
    "store/derived/queue_entry.py",
    "store/derived/index_file.py",
    "store/files/disk.py",
    "store/files/marked_page.py",
    "store/sealing/checkpoint.py",
    "store/timers/check.py",
    "store/timers/log.py",
    "store/timers/wheel.py",
}
# Programs of filters read stored properties, and know errors alone; an address has the byte 1 in it.
OWN_SEPARATORS = {"filters/program.py", "model/property_names.py", "store/message_store.py"}
# Headers have fields that are called like properties; "TAGS" is also how help texts call an option.
OWN_NAMES = {"wire/headers/producer.py", "model/property_names.py", "cli/pipeline/options.py"}


class Module(NamedTuple):
    """What these tests ask of a module; its tree of syntax would take memory until the last test."""

    name: str
    makes_structs: bool
    texts: frozenset[str]


@cache
def modules() -> list[Module]:
    return [_looked_at(path) for path in sorted(SOURCE.rglob("*.py"))]


def _looked_at(path: Path) -> Module:
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    name = path.relative_to(SOURCE).as_posix()
    return Module(name, any(map(makes_struct, nodes)), frozenset(texts_of(nodes)))


def texts_of(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            yield node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value


def makes_struct(node: ast.AST) -> bool:
    """``Struct(…)`` or ``struct.Struct(…)``, and not msgspec's."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("Struct", "struct.Struct")


def has_separator(text: str) -> bool:
    return NAME_END in text or ITEM_END in text


def test_what_travels_is_packed_in_wire_alone() -> None:
    found = {each.name for each in modules() if each.makes_structs}
    assert {name for name in found if not name.startswith("wire/")} <= OWN_STRUCTS


def test_wire_alone_knows_what_separates_properties() -> None:
    found = {each.name for each in modules() if any(map(has_separator, each.texts))}
    assert {name for name in found if not name.startswith("wire/")} <= OWN_SEPARATORS


def test_names_of_properties_are_written_once() -> None:
    found = {each.name for each in modules() if not each.texts.isdisjoint(RESERVED)}
    assert found <= OWN_NAMES
