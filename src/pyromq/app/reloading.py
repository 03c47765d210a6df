"""Whether source files have changed: their times are looked at now and then, without help of the system."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

POLL_S: Final = 0.5
FILES_MAX: Final = 20_000
_NOT_SOURCE: Final = frozenset(("__pycache__", "node_modules", "build", "dist", "venv", "site-packages"))


class Sources:
    """The ``.py`` files below some folders; hidden folders and those of tools are left out."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._times = self._look()

    def changed(self) -> list[Path]:
        """Those that are new, gone or written since the last look."""
        before, self._times = self._times, self._look()
        different = before.items() ^ self._times.items()
        return sorted({path for path, _ in different})

    def _look(self) -> dict[Path, int]:
        found: dict[Path, int] = {}
        for path in self._files():
            try:
                found[path] = path.stat().st_mtime_ns
            except OSError:  # gone meanwhile
                continue
            if len(found) >= FILES_MAX:
                break
        return found

    def _files(self) -> Iterator[Path]:
        for folder in self._folders:
            for place, folders, files in os.walk(folder):
                folders[:] = sorted(name for name in folders if name[0] != "." and name not in _NOT_SOURCE)
                yield from (Path(place, name) for name in sorted(files) if name.endswith(".py"))
