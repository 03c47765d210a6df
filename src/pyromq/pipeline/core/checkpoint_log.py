"""Checkpoint log: a few small files beside a query's checkpoint, for what was decided and what was counted.

A file appears whole or not at all. Where the checkpoint is on this machine it is flushed to disk; elsewhere pyarrow's
file systems write it (``s3://…``, ``hdfs://…``), as far as this machine is set up for them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from pyarrow import fs

from pyromq.whole_text import replace_text

FOLDER: Final = "pyromq"
_one_slash = re.compile(r"^file:/+").sub


def files_at(location: str) -> tuple[fs.FileSystem, str]:
    """The file system of a location, and the path in it."""
    location = _one_slash("/", location)  # Spark also writes file:/path
    if "://" in location:
        files, path = fs.FileSystem.from_uri(location)
        return files, str(path)
    return fs.LocalFileSystem(), os.path.abspath(location)  # noqa: PTH100


class CheckpointLog:
    """Under ``location``, in a folder of its own that Spark does not look at."""

    def __init__(self, location: str, part: str) -> None:
        self._files, base = files_at(location)
        self._base = f"{base.rstrip('/')}/{FOLDER}/{part}"

    def write(self, name: str, text: str, *, durable: bool = True) -> None:
        """``durable``: on disk when it returns."""
        self._files.create_dir(self._base, recursive=True)
        path = f"{self._base}/{name}"
        if not isinstance(self._files, fs.LocalFileSystem):
            with self._files.open_output_stream(path) as stream:
                stream.write(text.encode())
            return
        whole, aside = Path(path), Path(self._base, f".{name}.new")
        if durable:
            replace_text(whole, text.encode(), aside=aside)
        else:
            aside.write_bytes(text.encode())
            aside.replace(whole)

    def read(self, name: str) -> str | None:
        try:
            with self._files.open_input_stream(f"{self._base}/{name}") as stream:
                return str(stream.read().decode())
        except FileNotFoundError:
            return None

    def names(self) -> list[str]:
        found = self._files.get_file_info(fs.FileSelector(self._base, allow_not_found=True))
        return sorted(info.base_name for info in found if not info.base_name.startswith("."))

    def forget(self, name: str) -> None:
        self._files.delete_file(f"{self._base}/{name}")
