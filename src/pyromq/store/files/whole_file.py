"""Small files that must appear whole: written aside, flushed, renamed, their folder flushed, the previous copy kept.

    name        newest text            name.bak    the text before it        name.tmp    being written

The previous text becomes the backup first, and only if it is whole; then the new one takes its place. The first text of
all is its own backup. So at every moment ``name`` is whole, and after the first save there are always two copies.

The text ends in a checksum that JSON readers take for one more field, ``"crc32":"0123abcd"}``. A copy whose checksum
does not match (torn, flipped bit) is passed over for the other one; a text without one, as RocketMQ writes it, is taken
as it is if its reader can parse it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pyromq.checksum import crc32
from pyromq.errors import CorruptFileError, ProtocolError
from pyromq.store.files.disk import Disk

logger = logging.getLogger(__name__)

T = TypeVar("T")
_checksum_at_end = re.compile(rb',\s*"crc32":"([0-9a-f]{8})"\}\s*\Z').search


class WholeFile:
    """One JSON file with its backup."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self.path = path
        self._backup = path.with_name(path.name + ".bak")
        self._aside = path.with_name(path.name + ".tmp")

    def save(self, text: bytes) -> None:
        """Replace the file; ``text`` is a JSON object.

        After a crash or an OSError either the old or the new one is there, whole.
        """
        body = text.rstrip()
        assert body.endswith(b"}") and not body.endswith(b"{}"), "a non-empty JSON object"
        body = body[:-1].rstrip()
        sealed = body + b',"crc32":"%08x"}\n' % crc32(body)
        if self._disk.exists(self.path) and is_whole(previous := self._disk.read(self.path)):
            self._replace(self._backup, previous)
        self._replace(self.path, sealed)
        if not self._disk.exists(self._backup):
            self._replace(self._backup, sealed)

    def _replace(self, path: Path, text: bytes) -> None:
        self._disk.write(self._aside, text)
        self._disk.rename(self._aside, path)
        self._disk.sync_folder(path.parent)

    def load(self, parse: Callable[[bytes], T]) -> T | None:
        """The newest whole copy, parsed; None when there never was one; CorruptFileError when all are damaged.

        ``parse`` raises ProtocolError or ValueError for a text that it cannot take.
        """
        found = False
        for path in (self.path, self._backup):
            if not self._disk.exists(path):
                continue
            text = self._disk.read(path)
            if not text.strip():
                continue
            found = True
            try:
                return parse(checked(text))
            except (ProtocolError, ValueError) as error:
                logger.warning("damaged file passed over: path=%s reason=%s", path, error)
        if found:
            raise CorruptFileError(f"{self.path} and its backup are damaged; restore one of them or remove both")
        return None


def is_whole(text: bytes) -> bool:
    """False for an empty text and for one whose checksum does not match."""
    try:
        return bool(checked(text).strip())
    except ValueError:
        return False


def checked(text: bytes) -> bytes:
    """The text without its checksum; ValueError when it has one that does not match."""
    match = _checksum_at_end(text)
    if match is None:
        return text
    body = text[: match.start()]
    if crc32(body) != int(match[1], 16):
        raise ValueError("its checksum does not match")
    return body + b"}"
