"""Audit log: who changed what, from where, what it was before, and what was refused.

    audit/audit-0000000000000001.jsonl    entries, one a line; the file with the largest number is the newest

A file is replaced whole by one with the new entries, so what was written once stays; when it is full the next begins,
and the oldest goes when there are too many. Entries are written by ``flush``, which the owner calls every moment on a
worker thread: a crash may take those of the last moment. A refusal that comes again and again is one entry for a
minute, and then one that says how often: a flood of them cannot wash the log out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from pyromq.errors import ConfigError
from pyromq.whole_text import SystemDisk, TextDisk, replace_text
from pyromq.wire.json import bodies

logger = logging.getLogger(__name__)

FOLDER: Final = "audit"
WAITING_MAX: Final = 10_000  # entries that are not written yet
REPEATS_MAX: Final = 1_000  # refusals that are counted
FOUND_MAX: Final = 1_000  # entries in one response
REPEAT_MS: Final = 60_000
ENTRY_BYTES_MAX: Final = 131_072  # as JSON; a longer one loses what was before and after
_PREFIX: Final = "audit-"
_SUFFIX: Final = ".jsonl"

NowMs = Callable[[], int]


class AuditDisk(TextDisk, Protocol):
    """What is needed of a disk. All raise OSError."""

    def names(self, folder: Path) -> list[str]: ...

    def remove(self, path: Path) -> None: ...


_SYSTEM: Final[AuditDisk] = SystemDisk()


class Outcome(StrEnum):
    DONE = "done"
    ASKED = "asked"  # another client does it, or it happens later
    REFUSED = "refused"


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that was done, or refused."""

    time_ms: int
    server: str  # name of the broker, or "nameserver"
    address: str  # where the request came from
    action: str  # name of the request
    outcome: Outcome
    user: str = ""  # empty when requests are not verified, or this one could not be
    resources: tuple[str, ...] = ()  # Topic:orders, Group:billing, …
    changes: dict[str, tuple[Any, Any]] = {}  # by resource: before and after; None: it was, or is, not there
    reason: str = ""  # of a refusal
    times: int = 1  # how often, of a refusal that came again


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries; the newest come first."""

    since_ms: int = 0
    until_ms: int = 1 << 62
    user: str = ""
    resource: str = ""  # that contain this text
    outcome: str = ""
    limit: int = 100

    def wants(self, entry: AuditEntry) -> bool:
        return (
            self.since_ms <= entry.time_ms <= self.until_ms
            and (not self.user or entry.user == self.user)
            and (not self.outcome or entry.outcome == self.outcome)
            and (not self.resource or any(self.resource in each for each in entry.resources))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """Raises ConfigError for what cannot work."""

    enabled: bool = True
    file_bytes_max: int = 1 << 20
    files_max: int = 64

    def __post_init__(self) -> None:
        if self.file_bytes_max < 1 << 16 or self.files_max < 1:
            raise ConfigError("audit.file_bytes_max must be at least 65536, audit.files_max at least 1")


class AuditLog:
    """``flush`` may run on another thread than the rest, one at a time."""

    def __init__(
        self, folder: Path, server: str, settings: AuditSettings, now_ms: NowMs, *, disk: AuditDisk = _SYSTEM
    ) -> None:
        self.server = server
        self._folder = folder
        self._settings = settings
        self._now_ms = now_ms
        self._disk = disk
        self._waiting: list[AuditEntry] = []
        self._lost = 0  # entries that there was no room for
        self._repeats: dict[tuple[str, str, str], tuple[int, int, AuditEntry]] = {}  # until when, how many more

    @property
    def has_news(self) -> bool:
        return bool(self._waiting)

    def record(self, entry: AuditEntry) -> None:
        if not self._settings.enabled:
            return
        if len(self._waiting) >= WAITING_MAX:
            self._lost += 1
            return
        self._waiting.append(_bounded(entry))

    def refused(self, entry: AuditEntry) -> None:
        """A refusal: the first is recorded at once, those of the following minute are counted."""
        key = (entry.address, entry.action, entry.reason)
        found = self._repeats.get(key)
        if found is not None and entry.time_ms < found[0]:
            self._repeats[key] = (found[0], found[1] + 1, entry)
            return
        if found is None and len(self._repeats) >= REPEATS_MAX:
            self._forget_repeats(everything=True)
        elif found is not None:
            self._tell_repeats(found)
        self._repeats[key] = (entry.time_ms + REPEAT_MS, 0, entry)
        self.record(entry)

    def tick(self) -> None:
        """Refusals whose minute is over are told with their number."""
        self._forget_repeats()

    def _forget_repeats(self, *, everything: bool = False) -> None:
        now_ms = self._now_ms()
        for key, found in list(self._repeats.items()):
            if everything or now_ms >= found[0]:
                del self._repeats[key]
                self._tell_repeats(found)

    def _tell_repeats(self, found: tuple[int, int, AuditEntry]) -> None:
        _, times, last = found
        if times:
            self.record(msgspec.structs.replace(last, times=times))

    def flush(self) -> None:
        """Write what waits. An error is logged, and what could not be written stays for the next time."""
        entries, lost = self._waiting[:], self._lost
        if not entries:
            return
        try:
            self._write(b"".join(_encode(entry) + b"\n" for entry in entries))
        except OSError as error:
            logger.error("audit log not written: folder=%s entries=%d reason=%s", self._folder, len(entries), error)
            return
        del self._waiting[: len(entries)]
        if lost:
            self._lost -= lost
            logger.error("audit log: %d entries lost, there was no room for them", lost)

    def close(self) -> None:
        self._forget_repeats(everything=True)
        self.flush()

    def _write(self, data: bytes) -> None:
        names = _files(self._folder, self._disk)
        newest = self._folder / names[-1] if names else None
        known = self._disk.read(newest) if newest else b""
        if newest is None or (known and len(known) + len(data) > self._settings.file_bytes_max):
            newest, known = self._folder / _following(names), b""
        replace_text(newest, known + data, aside=self._folder / "audit.tmp", disk=self._disk)
        for name in names[: max(0, len(names) + (newest.name not in names) - self._settings.files_max)]:
            self._disk.remove(self._folder / name)

    def search(self, question: Question) -> Callable[[], list[AuditEntry]]:
        """A job that finds the newest entries that are wanted, newest first; it may run on another thread."""
        waiting = self._waiting[:]
        return lambda: _found(_newest_first(self._folder, self._disk, waiting), question)

    def find(self, question: Question) -> list[AuditEntry]:
        return self.search(question)()


def answer_of(log: AuditLog, body: bytes) -> Callable[[], bytes]:
    """A job that finds entries, newest first, as JSON; it may run on another thread. Raises RemoteProtocolError."""
    question = bodies.decode(body or b"{}", Question)
    limit = max(1, min(question.limit, FOUND_MAX))
    search = log.search(msgspec.structs.replace(question, limit=limit))
    return lambda: msgspec.json.encode(search())


def find_entries(folder: Path, question: Question) -> list[AuditEntry]:
    """Of the files in a folder, with or without a server that writes them. Raises OSError."""
    return _found(_newest_first(folder, _SYSTEM, []), question)


def _found(entries: Iterator[AuditEntry], question: Question) -> list[AuditEntry]:
    found: list[AuditEntry] = []
    for entry in entries:
        if entry.time_ms < question.since_ms:
            break
        if question.wants(entry):
            found.append(entry)
            if len(found) >= question.limit:
                break
    return found


def _newest_first(folder: Path, disk: AuditDisk, waiting: list[AuditEntry]) -> Iterator[AuditEntry]:
    """Those that wait come first; they may be written while this runs, and are told once."""
    yield from reversed(waiting)
    told = {_encode(entry) for entry in waiting}
    for name in reversed(_files(folder, disk)):
        try:
            lines = disk.read(folder / name).splitlines()
        except FileNotFoundError:  # the oldest, which was removed meanwhile
            return
        for line in reversed(lines):
            try:
                if line not in told:
                    yield _decode(line)
            except msgspec.DecodeError:  # damaged, or not ours
                continue


def _files(folder: Path, disk: AuditDisk) -> list[str]:
    """Oldest first."""
    found = [name for name in disk.names(folder) if name.startswith(_PREFIX) and name.endswith(_SUFFIX)]
    return sorted(name for name in found if name[len(_PREFIX) : -len(_SUFFIX)].isdecimal())


def _following(names: list[str]) -> str:
    number = int(names[-1][len(_PREFIX) : -len(_SUFFIX)]) + 1 if names else 1
    return f"{_PREFIX}{number:016}{_SUFFIX}"


def _bounded(entry: AuditEntry) -> AuditEntry:
    if len(_encode(entry)) <= ENTRY_BYTES_MAX:
        return entry
    return msgspec.structs.replace(entry, changes={}, resources=entry.resources[:100])


_encode: Final[Callable[[AuditEntry], bytes]] = msgspec.json.Encoder().encode
_decode: Final[Callable[[bytes], AuditEntry]] = msgspec.json.Decoder(AuditEntry).decode
