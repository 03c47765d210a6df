"""The parts of a store that other packages may use are listed in the docstring of ``MessageStore``."""

from __future__ import annotations

import re
from pathlib import Path

import pyromq

_inner_part = re.compile(r"(?<!pyromq\.)\bstore\.(log|index)\b|\b_store\.(log|index)\b").search


def test_no_other_package_asks_for_an_inner_part_of_the_store() -> None:
    root = Path(pyromq.__file__).parent
    files = [path for path in root.rglob("*.py") if root / "store" not in path.parents]
    found = [
        f"{path.relative_to(root)}:{number}: {line.strip()}"
        for path in files
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if _inner_part(line)
    ]
    assert len(files) > 100 and found == []
