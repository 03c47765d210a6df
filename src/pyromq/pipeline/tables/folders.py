"""Folders that tables are kept in."""

from __future__ import annotations

from pathlib import Path

from pyromq.errors import ConfigError


def take_folder(folder: Path, mark: str, kind: str) -> None:
    """Make the folder of a table, or check that it is empty or has the entry ``mark`` of one. Raises ConfigError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_other = not (folder / mark).exists() and any(folder.iterdir())
    except OSError as error:
        raise ConfigError(f"there can be no {kind} table in {folder}: {error.strerror or error}") from error
    if is_other:
        raise ConfigError(f"{folder} is neither empty nor the folder of a table of {kind}: name another folder")
