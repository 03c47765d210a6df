"""Small files that must appear whole: written aside, flushed, renamed, their folder flushed, the previous text kept.

    name        newest text            name.bak    the text before it        name.tmp    being written

The previous text becomes the backup first, and only if it is whole; then the new one takes its place. So at every
moment ``name`` is whole, the old text or the new one. Should it be damaged nevertheless (a disk that lies, another
program's way of writing it), the backup is read.

Name server, clients, pipeline and store share this; which texts are whole is for each of them to say. The store hands
in its ``Disk``, which tests make fail at every single operation; all others use the file system as it is.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, TypeVar

from pyromq.errors import CorruptFileError, ProtocolError

logger = logging.getLogger(__name__)

T = TypeVar("T")


class TextDisk(Protocol):
    """What is needed of a disk. All raise OSError."""

    def exists(self, path: Path) -> bool: ...

    def read(self, path: Path) -> bytes: ...

    def write(self, path: Path, data: bytes) -> None:
        """Create or replace a file and flush it; folders are made as needed."""

    def rename(self, old: Path, new: Path) -> None: ...

    def sync_folder(self, path: Path) -> None: ...


class SystemDisk:
    """Disk of the machine: its file system."""

    def exists(self, path: Path) -> bool:
        return path.exists()

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def write(self, path: Path, data: bytes) -> None:
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        write_flushed(path, data)

    def rename(self, old: Path, new: Path) -> None:
        old.replace(new)

    def sync_folder(self, path: Path) -> None:
        sync_folder(path)

    def names(self, folder: Path) -> list[str]:
        """Sorted; none where there is no folder."""
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def remove(self, path: Path) -> None:
        path.unlink()


_SYSTEM: Final = SystemDisk()


class WholeText:
    """One text and its backup. ``is_whole`` tells a text that was saved from one that is torn or damaged.

    ``copied``: the first text of all is its own backup, so that after it there are always two copies.
    """

    def __init__(
        self, path: Path, is_whole: Callable[[bytes], bool], *, disk: TextDisk = _SYSTEM, copied: bool = False
    ) -> None:
        self.path = path
        self._is_whole = is_whole
        self._disk = disk
        self._copied = copied
        self._backup = path.with_name(path.name + ".bak")
        self._aside = path.with_name(path.name + ".tmp")
        self.trouble = ""  # why ``load`` did not get the newest text; empty when it did, or when there never was one

    def save(self, text: bytes) -> None:
        """Durable when it returns; after a crash or an OSError the old or the new text is there, whole."""
        if self._disk.exists(self.path) and self._is_whole(previous := self._disk.read(self.path)):
            replace_text(self._backup, previous, aside=self._aside, disk=self._disk)
        replace_text(self.path, text, aside=self._aside, disk=self._disk)
        if self._copied and not self._disk.exists(self._backup):
            replace_text(self._backup, text, aside=self._aside, disk=self._disk)

    def load(self, parse: Callable[[bytes], T]) -> T | None:
        """The newest copy that ``parse`` takes; None when there never was one, or only empty files.

        ``parse`` raises ProtocolError or ValueError for a damaged text. Raises CorruptFileError when all copies are.
        """
        troubles: list[str] = []
        found = False
        for path in (self.path, self._backup):
            self.trouble = troubles[0] if troubles else ""
            text = self._disk.read(path) if self._disk.exists(path) else None
            if text is None or not text.strip():
                troubles.append("it is missing" if text is None else "it is empty")
                continue
            found = True
            try:
                return parse(text)
            except (ProtocolError, ValueError) as error:
                troubles.append(str(error))
                logger.warning("damaged file passed over: path=%s reason=%s", path, error)
        if found:
            raise CorruptFileError(f"{self.path} and its backup are damaged; restore one of them or remove both")
        self.trouble = "it is empty" if "it is empty" in troubles else ""
        return None


def replace_text(path: Path, text: bytes, *, aside: Path, disk: TextDisk = _SYSTEM) -> None:
    """Durable when it returns; after a crash or an OSError the old or the new text is there. ``aside`` is beside it."""
    disk.write(aside, text)
    disk.rename(aside, path)
    disk.sync_folder(path.parent)


def write_flushed(path: Path, data: bytes) -> None:
    """Create or replace a file and flush it, for its owner alone; not whole until it is: write aside, then rename."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(
        descriptor, "wb"
    ) as file:  # buffered: an unbuffered write may be short on a full disk, and says nothing
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
