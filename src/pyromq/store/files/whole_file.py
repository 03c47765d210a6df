"""Small files of the store: they appear whole (``pyromq.whole_text``), with a checksum, in two copies from the start.

The text ends in a checksum that JSON readers take for one more field, ``"crc32":"0123abcd"}``. A copy whose checksum
does not match (torn, flipped bit) is passed over for the other one; a text without one, as RocketMQ writes it, is taken
as it is if its reader can parse it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pyromq.checksum import crc32
from pyromq.store.files.disk import Disk
from pyromq.whole_text import WholeText

T = TypeVar("T")
_checksum_at_end = re.compile(rb',\s*"crc32":"([0-9a-f]{8})"\}\s*\Z').search


class WholeFile:
    """One JSON file with its backup."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self.path = path
        self._text = WholeText(path, is_whole, disk=disk, copied=True)

    @property
    def trouble(self) -> str:
        """Why ``load`` did not get the newest text; empty when it did, or when there never was one."""
        return self._text.trouble

    def save(self, text: bytes) -> None:
        """Replace the file; ``text`` is a JSON object.

        After a crash or an OSError either the old or the new one is there, whole.
        """
        body = text.rstrip()
        assert body.endswith(b"}") and not body.endswith(b"{}"), "a non-empty JSON object"
        body = body[:-1].rstrip()
        self._text.save(body + b',"crc32":"%08x"}\n' % crc32(body))

    def load(self, parse: Callable[[bytes], T]) -> T | None:
        """The newest whole copy, parsed; None when there never was one; CorruptFileError when all are damaged.

        ``parse`` raises ProtocolError or ValueError for a text that it cannot take.
        """
        return self._text.load(lambda text: parse(checked(text)))


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
