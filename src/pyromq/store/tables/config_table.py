"""Configuration table: what the JSON tables in the config folder share; the others in this room are such tables.

Each is one file of RocketMQ's, read and written whole (``whole_file``): in its dialect (tabs, fields sorted, integer
keys bare) plus the checksum that ``WholeFile`` adds; read in that form and in ordinary JSON. Fields that PyroMQ does
not know are passed over, so they are gone after a save.

A table lives in memory, with one owner; nothing is durable before ``save``, or before a ``save_job`` has run on some
other thread.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, ItemsView, Iterable, Mapping
from functools import partial
from pathlib import Path
from threading import Lock
from typing import ClassVar, Final, Generic, Self, TypeVar

import msgspec

from pyromq.errors import ProtocolError, StoreReadOnlyError
from pyromq.model.topic import DataVersion
from pyromq.store.files.disk import Disk
from pyromq.store.files.layout import Layout
from pyromq.store.files.whole_file import WholeFile
from pyromq.store.tables.steps import InSteps, all_steps
from pyromq.wire.json import java_json

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=msgspec.Struct)
C = TypeVar("C", bound=msgspec.Struct)
_FILE_BYTES_MAX: Final = 1 << 30  # our own disk: the bound is against damage, not against an attack


class ConfigTable(ABC):
    """What the tables share: a file, a version, and how they are saved."""

    file_name: ClassVar[str]

    def __init__(self, file: WholeFile) -> None:
        self._file = file
        self.version = DataVersion()
        self.unsaved = False  # something changed since the last save
        self.found = False  # there was a text to load, or one was saved since
        self.trouble = ""  # why the newest text was not loaded: it is damaged, empty or gone
        self._given: bytes | None = None  # a text that is read in place of the file's
        self._saves = 0  # number of the newest save that was asked for
        self._written = 0  # number of the save that is on disk
        self._writing = Lock()

    @classmethod
    def load(cls, disk: Disk, root: Path, now_ms: int = 0) -> Self:
        """The table of the store in ``root``, empty when there is none; CorruptFileError when both copies are damaged.

        A damaged first copy (torn, flipped bits) is passed over for the second one. ``now_ms`` is the time of a version
        that has none, because nothing ever changed.
        """
        table = cls(WholeFile(disk, Layout(root).config / cls.file_name))
        table._read()
        if table.trouble:
            instead = "its backup is used, without the last change" if table.found else "it starts anew"
            logger.error("table damaged: file=%s reason=%s result=%s", table._file.path, table.trouble, instead)
        if not table.version.timestamp:
            table.version = msgspec.structs.replace(table.version, timestamp=now_ms)
        table.unsaved = bool(table.trouble)  # a save puts a whole text in the place of the damaged one
        return table

    def adopt(self, text: bytes) -> None:
        """Be what another broker's table is, version and all; ``save`` follows. Raises ValueError, and is unchanged."""
        self._given = text
        try:
            self._read()
        except ProtocolError as error:
            raise ValueError(f"it is no text of {self.file_name}: {error}") from error
        finally:
            self._given = None
        self.unsaved = True

    def save(self) -> None:
        """Make the table durable; OSError when the disk refuses, and then the old or the new text is on it, whole."""
        self._save(self._next_save(), self._stored())

    def save_job(self) -> Callable[[], None]:
        """``save`` of the table as it is now, for a worker thread."""
        return partial(self._save, self._next_save(), self._stored())

    def _next_save(self) -> int:
        self.unsaved = False
        self._saves += 1
        return self._saves

    @property
    def is_durable(self) -> bool:
        """Whether the file has everything that the table has."""
        return not self.unsaved and self._written == self._saves

    def save_in_steps(self) -> InSteps[None]:
        """``save`` of the table as it is now; a caller that drops it in between leaves it to the next save."""
        number, stored = self._next_save(), self._stored()
        try:
            text = yield from self._encoded_in_steps(stored)
            yield partial(self._write, number, lambda: text)
        except BaseException:  # whatever the reason, the change is unsaved; raised again
            self.unsaved = True
            raise

    def _save(self, number: int, stored: msgspec.Struct) -> None:
        try:
            self._write(number, partial(self._encoded, stored))
        except BaseException:  # likewise
            self.unsaved = True
            raise

    def _write(self, number: int, text: Callable[[], bytes]) -> None:
        with self._writing:
            if number > self._written:  # else a later save was faster
                self._file.save(text())
                self._written, self.found = number, True

    def save_or_undo(self, undo: Callable[[], object]) -> None:
        """``save``, or take the last change back in memory too and raise StoreReadOnlyError."""
        all_steps(self.save_in_steps_or_undo(undo))

    def save_in_steps_or_undo(self, undo: Callable[[], object]) -> InSteps[None]:
        """Save in steps, and undo the change when that fails or the caller drops it in between."""
        try:
            yield from self.save_in_steps()
        except GeneratorExit:
            undo()
            raise
        except OSError as error:
            undo()
            raise StoreReadOnlyError(f"{self.file_name} could not be saved: {error}") from error

    def text(self) -> bytes:
        """The table as its file holds it, without checksum; what RocketMQ hands out to replicas."""
        return java_json.dumps_pretty(self._stored())

    def text_job(self) -> Callable[[], bytes]:
        """``text`` of the table as it is now, for a worker thread."""
        return partial(java_json.dumps_pretty, self._stored())

    def bump(self, now_ms: int) -> None:
        """Move the version: the components that compare it see that something changed."""
        self.version = self.version.next(now_ms)
        self.unsaved = True

    def _parsed(self, type_: type[T]) -> T:
        if self._given is not None:
            return _decode(self._given, type_)
        stored = self._file.load(partial(_decode, type_=type_))
        self.found, self.trouble = stored is not None, self._file.trouble
        return stored or type_()

    def _encoded(self, stored: msgspec.Struct) -> bytes:
        """The text of the file; may run on a worker thread."""
        return java_json.dumps_pretty(stored)

    def _encoded_in_steps(self, stored: msgspec.Struct) -> Generator[None, None, bytes]:
        yield
        return self._encoded(stored)

    @abstractmethod
    def _read(self) -> None: ...

    @abstractmethod
    def _stored(self) -> msgspec.Struct:
        """What is to be saved; later changes of the table do not show in it."""


class KeyedTable(ConfigTable, Generic[C]):
    """A table of configurations, each under its name."""

    def __init__(self, file: WholeFile) -> None:
        super().__init__(file)
        self._entries: dict[str, C] = {}

    def get(self, name: str) -> C | None:
        return self._entries.get(name)

    def __len__(self) -> int:
        return len(self._entries)

    def items(self) -> ItemsView[str, C]:
        return self._entries.items()

    def put(self, config: C, now_ms: int) -> None:
        self._entries[self.name_of(config)] = config
        self.bump(now_ms)

    def remove(self, name: str, now_ms: int) -> C | None:
        """What was removed; the version moves only if something was."""
        removed = self._entries.pop(name, None)
        if removed is not None:
            self.bump(now_ms)
        return removed

    def missing(self, configs: Iterable[C]) -> dict[str, C]:
        """Those that are not in the table as they are; of several with one name the last."""
        wanted = {self.name_of(config): config for config in configs}
        return {name: config for name, config in wanted.items() if self._entries.get(name) != config}

    def put_all(self, configs: Mapping[str, C], now_ms: int) -> InSteps[None]:
        """Put them in at once and save them in steps, or take them all back and raise StoreReadOnlyError."""
        before = {name: self._entries.get(name) for name in configs}
        for config in configs.values():
            self.put(config, now_ms)
        yield from self.save_in_steps_or_undo(partial(self._put_back, configs, before, now_ms))

    def _put_back(self, configs: Mapping[str, C], before: Mapping[str, C | None], now_ms: int) -> None:
        for name, config in configs.items():
            if self._entries.get(name) is config:  # else it was changed again meanwhile
                if (known := before[name]) is None:
                    self.remove(name, now_ms)
                else:
                    self.put(known, now_ms)

    @staticmethod
    @abstractmethod
    def name_of(config: C) -> str: ...


def _decode(text: bytes, type_: type[T]) -> T:
    return java_json.decode(text, type_, bytes_max=_FILE_BYTES_MAX)
