"""The glossary names classes and modules that exist, and explains each word once."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "pyromq"
_code = re.compile(r"`([^`]+)`").findall


class Row(NamedTuple):
    word: str
    meaning: str
    in_the_code: str
    in_rocketmq: str


def rows() -> Iterator[Row]:
    for line in (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if cells and cells[0] != "word" and set(cells[0]) != {"-"}:
            yield Row(*cells)


@cache
def modules() -> frozenset[str]:
    """Modules and packages below ``pyromq``, with dots."""
    found = (path.relative_to(PACKAGE).with_suffix("").as_posix() for path in PACKAGE.rglob("*.py"))
    return frozenset(name.removesuffix("/__init__").replace("/", ".") for name in found)


@cache
def classes() -> frozenset[str]:
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py"))
    return frozenset(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


@pytest.mark.parametrize("row", list(rows()), ids=lambda row: row.word)
def test_what_a_row_names_exists(row: Row) -> None:
    missing = [name for name in _code(row.in_the_code) if name not in modules() and name not in classes()]
    assert not missing, f"{row.word}: no class and no module of this name"
    assert row.in_the_code == ", ".join(f"`{name}`" for name in _code(row.in_the_code))


def test_every_word_has_one_row_and_a_meaning() -> None:
    words = [row.word for row in rows()]
    assert len(words) == len(set(words)) > 80
    assert all(row.meaning and row.in_rocketmq for row in rows())
