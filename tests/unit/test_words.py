"""Words of the source: a class name means one thing, a docstring is a sentence with a subject."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
TWO_MEANINGS_MAX = 30  # faces of one thing: sync and asyncio, core and Python, the same plug-in for two frameworks
TELLING = re.compile(r"\b(told|tells?|telling)\b", re.IGNORECASE)
TELLING_MAX = 560
WITHOUT_SUBJECT = ("Of ", "Likewise", "The same", "As ")


class Definition(NamedTuple):
    """A function or class, without its tree: all trees together are large."""

    place: str
    public_class: str  # empty: it is none
    docstring: str


@cache
def definitions() -> tuple[Definition, ...]:
    return tuple(_definitions())


def _definitions() -> Iterator[Definition]:
    for path in sorted((ROOT / "src" / "pyromq").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                is_public_class = isinstance(node, ast.ClassDef) and not node.name.startswith("_")
                place = f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
                yield Definition(place, node.name if is_public_class else "", ast.get_docstring(node) or "")


def is_without_subject(docstring: str) -> bool:
    """Whether it leaves the subject to the reader, or says only what is raised."""
    return docstring.startswith(WITHOUT_SUBJECT) or (docstring.startswith("Raises ") and "\n" not in docstring)


def test_class_names_mean_one_thing() -> None:
    """A name that is taken: use the field's word for what the new class is (``docs/glossary.md``)."""
    places: dict[str, list[str]] = defaultdict(list)
    for each in definitions():
        if each.public_class:
            places[each.public_class].append(each.place)
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert len(twice) <= TWO_MEANINGS_MAX, "\n".join(f"{name}: {', '.join(found)}" for name, found in twice.items())


def test_docstrings_have_a_subject() -> None:
    """Say what it is or does, then what it raises: "Decode a route. Raises RemoteProtocolError."."""
    found = [each.place for each in definitions() if is_without_subject(each.docstring)]
    assert found == []


def test_what_these_tests_look_for_is_found() -> None:
    assert all(map(is_without_subject, ("Of every metric.", "Likewise for sends.", "The same.", "Raises OSError.")))
    assert not any(map(is_without_subject, ("Labels of every metric.", "Raises OSError.\n\nMore.", "", "Offset.")))


def test_what_is_told_gets_fewer() -> None:
    """Use the plain verb: says, reports, passes, answers, notifies. The limit only falls."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "src" / "pyromq").rglob("*.py")]
    assert sum(len(TELLING.findall(text)) for text in texts) <= TELLING_MAX
