"""Docstrings are written for people who read code: drawings, tables and programs are indented, nothing else marks them.

Sphinx reads reStructuredText, where such a block has to be announced. Everything else in them is valid as it is.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from sphinx.application import Sphinx

PUBLIC: Final = ("pyromq", "pyromq.aio", "pyromq.testing", "pyromq.pipeline", "pyromq.pipeline.jobs")
MORE: Final = tuple(f"pyromq.{part}" for part in ("settings", "results", "selectors", "hooks", "offsets", "monitoring"))
REPEATING: Final = ("reference/api-aio", "reference/api-more")  # pages of modules that also have names of ``pyromq``


def import_public_names() -> None:
    """Some modules import a name when it is first used; Sphinx describes those that are there."""
    for module in map(import_module, PUBLIC):
        for name in module.__all__:
            setattr(module, name, getattr(module, name))


def sections_of_more() -> str:
    """The modules beside the top of the package, one after the other."""
    return "".join(f"\n## {name}\n\n```{{eval-rst}}\n.. automodule:: {name}\n   :members:\n```\n" for name in MORE)


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
    """What is the same object in ``pyromq`` is described there and nowhere else."""
    import pyromq

    if what == "module" and app.env.current_document.docname in REPEATING and name in pyromq.__all__:
        return getattr(pyromq, name) is obj or None
    return None
