"""The file of the key-value configuration: RocketMQ's kvConfig.json, replaced whole.

    kvConfig.json        newest text       …json.bak    the text before it       …json.tmp    being written

The text that was loaded or saved before becomes the backup first; then the new one is written aside, flushed, renamed,
and its folder flushed. So after a crash ``kvConfig.json`` is whole, the old or the new one; should it be damaged
nevertheless (a disk that lies, RocketMQ's own way of writing it), the backup is read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from pyromq.errors import CorruptFileError, ProtocolError
from pyromq.whole_text import replace_text

logger = logging.getLogger(__name__)

T = TypeVar("T")


class WholeText(Protocol):
    """A text that is saved whole and loaded whole."""

    def save(self, text: bytes) -> None:
        """Durable when it returns; after an OSError the old or the new text is there."""

    def load(self, parse: Callable[[bytes], T]) -> T | None:
        """What ``parse`` makes of it, None when there is none; raises CorruptFileError."""


class KvFile:
    """A WholeText in a file and its backup."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._backup = path.with_name(path.name + ".bak")
        self._aside = path.with_name(path.name + ".tmp")
        self._saved: bytes | None = None  # what is known to be whole on disk

    def save(self, text: bytes) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if self._saved is not None:
            replace_text(self._backup, self._saved, aside=self._aside)
        replace_text(self._path, text, aside=self._aside)
        self._saved = text

    def load(self, parse: Callable[[bytes], T]) -> T | None:
        texts = [(path, path.read_bytes()) for path in (self._path, self._backup) if path.exists()]
        found = [(path, text) for path, text in texts if text.strip()]
        for path, text in found:
            try:
                parsed = parse(text)
            except ProtocolError as error:
                logger.warning("damaged file passed over: path=%s reason=%s", path, error)
                continue
            self._saved = text
            return parsed
        if found:
            raise CorruptFileError(f"{self._path} and its backup are damaged; restore one of them or remove both")
        return None
