"""Docstrings are written for people who read code: drawings, tables and programs are indented, nothing else marks them.

Sphinx reads reStructuredText, where such a block has to be announced. Everything else in them is valid as it is.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from sphinx.application import Sphinx

PUBLIC: Final = ("pyromq", "pyromq.aio", "pyromq.testing", "pyromq.pipeline", "pyromq.pipeline.jobs")


def import_public_names() -> None:
    """Some modules import a name when it is first used; Sphinx describes those that are there."""
    for module in map(import_module, PUBLIC):
        for name in module.__all__:
            setattr(module, name, getattr(module, name))


def as_restructured_text(app: Sphinx, what: str, name: str, obj: object, options: Any, lines: list[str]) -> None:
    """Sphinx read a docstring: announce its indented blocks."""
    announced: list[str] = []
    in_block = False
    for line in lines:
        is_indented = line.startswith(" ")
        if is_indented and not in_block:
            announced += ["", "::", ""]
        if line and not is_indented and in_block:
            announced.append("")
        if line:
            in_block = is_indented
        announced.append(line)
    lines[:] = announced


def is_elsewhere(app: Sphinx, what: str, name: str, obj: object, skip: bool, options: Any) -> bool | None:
    """Of ``pyromq.aio`` only what differs from ``pyromq`` is described: the rest is the same objects."""
    import pyromq

    on_aio_page = app.env.current_document.docname == "reference/api-aio"
    if what == "module" and on_aio_page and name in pyromq.__all__:
        return getattr(pyromq, name) is obj or None
    return None
