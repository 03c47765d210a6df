"""A small file that must appear whole: written aside, flushed, renamed, its folder flushed.

The store does the same through its ``Disk``, which tests can make fail.
"""

from __future__ import annotations

import os
from pathlib import Path


def replace_text(path: Path, text: bytes, *, aside: Path) -> None:
    """Durable when it returns; after a crash or an OSError the old or the new text is there. ``aside`` is beside it."""
    with aside.open("wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
