"""The table of rooms in CONTRIBUTING.md, made from the first line of each ``__init__`` docstring: ``make rooms``.

Rooms stand in the order of the import rules in pyproject.toml, the lowest layer first, then by name.
"""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "CONTRIBUTING.md"
_SOURCE: Final = ROOT / "src/pyromq"
_HEAD: Final = "| in `src/pyromq` | |\n|---|---|\n"


def page_with_rooms(text: str) -> str:
    """The page with its table of rooms made anew."""
    before, head, rest = text.partition(_HEAD)
    if not head:
        raise SystemExit(f"CONTRIBUTING.md has no table that begins with {_HEAD.splitlines()[0]}")
    return (
        before + head + "".join(f"| `{room}` | {line} |\n" for room, line in rooms()) + "\n" + rest.partition("\n\n")[2]
    )


def rooms() -> list[tuple[str, str]]:
    """Every folder of the package, and what its docstring says first."""
    found = [path.parent.relative_to(_SOURCE).as_posix() for path in _SOURCE.rglob("__init__.py")]
    order = _layers()
    key = lambda room: (order.index(room.split("/")[0]), room.split("/"))  # noqa: E731
    return [(room, _first_line(room)) for room in sorted((each for each in found if each != "."), key=key)]


def _layers() -> list[str]:
    """Packages from the lowest layer to the highest."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (layers,) = (each["layers"] for each in contracts if each.get("containers") == ["pyromq"])
    return [name.strip() for layer in reversed(layers) for name in layer.split("|")]


def _first_line(room: str) -> str:
    docstring = ast.get_docstring(ast.parse((_SOURCE / room / "__init__.py").read_text(encoding="utf-8")))
    if not docstring:
        raise SystemExit(f"src/pyromq/{room}/__init__.py has no docstring: its first line says what belongs there")
    return re.sub(r"``", "`", docstring.splitlines()[0]).rstrip(".")


if __name__ == "__main__":
    PAGE.write_text(page_with_rooms(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
