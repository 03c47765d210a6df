"""Where marks lie that an app names by a path or a URL (``once="marks.db"``): there, or in the folder of a test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

_folder: Path | None = None


@contextmanager
def marks_kept_in(folder: Path) -> Iterator[None]:
    """Inside the block marks of apps of this process lie in that folder: what one run of a test consumed must not be
    skipped by the next."""
    global _folder
    before, _folder = _folder, folder
    try:
        yield
    finally:
        _folder = before


def place_of(database: Any) -> Any:
    """The database itself, or a file of its own in the folder of a test; engines and connections are what they are."""
    if _folder is None or not isinstance(database, str | os.PathLike):
        return database
    _folder.mkdir(parents=True, exist_ok=True)
    return _folder / f"{blake2b(os.fsencode(database), digest_size=8).hexdigest()}.db"
