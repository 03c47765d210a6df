"""Audit log: who changed what, from where, what it was before, and what was refused.

    audit/audit-0000000000000001.jsonl    entries, one a line; the file with the largest number is the newest

A file is replaced whole by one with the new entries, so what was written once stays; when it is full the next begins,
and the oldest goes when there are too many. Entries are written by ``flush``, which the owner calls every moment on a
worker thread: a crash may take those of the last moment. A refusal that comes again and again is one entry for a
minute, and then one that says how often; an address with very many kinds of them has one entry for the rest. So a
flood of refusals cannot wash the log out. Every text of an entry is bounded, whatever a request says.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from pyromq.errors import ConfigError, shortened
from pyromq.whole_text import SystemDisk, TextDisk, replace_text
from pyromq.wire.json import bodies

logger = logging.getLogger(__name__)

FOLDER: Final = "audit"
WAITING_BYTES_MAX: Final = 8 << 20  # entries that are not written yet
REPEATS_MAX: Final = 1_000  # refusals that are counted
REPEATS_OF_ADDRESS_MAX: Final = 100
FOUND_MAX: Final = 1_000  # entries in one response
REPEAT_MS: Final = 60_000
ENTRY_BYTES_MAX: Final = 49_152  # as JSON; a longer one loses what was before and after
RESOURCES_MAX: Final = 100
RESOURCE_CHARACTERS_MAX: Final = 300
REASON_CHARACTERS_MAX: Final = 500
MANY: Final = "refused for many different reasons; these are not listed one by one"
_PREFIX: Final = "audit-"
_SUFFIX: Final = ".jsonl"

NowMs = Callable[[], int]


class AuditDisk(TextDisk, Protocol):
    """What is needed of a disk. All raise OSError."""

    def names(self, folder: Path) -> list[str]: ...

    def remove(self, path: Path) -> None: ...


_SYSTEM: Final[AuditDisk] = SystemDisk()
_Key = tuple[str, str, str]  # address, action, reason


class AuditOutcome(StrEnum):
    DONE = "done"
    ASKED = "asked"  # another client does it, or it happens later
    REFUSED = "refused"


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that was done, or refused."""

    time_ms: int
    server: str  # name of the broker, or "nameserver"
    address: str  # where the request came from
    action: str  # name of the request
    outcome: AuditOutcome
    user: str = ""  # empty when requests are not verified, or this one could not be
    resources: tuple[str, ...] = ()  # Topic:orders, Group:billing, …
    changes: dict[str, tuple[Any, Any]] = {}  # by resource: before and after; None: it was, or is, not there
    reason: str = ""  # of a refusal
    times: int = 1  # how often, of a refusal that came again


class AuditSearch(msgspec.Struct, frozen=True, kw_only=True):
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
    """Where the audit log is kept, how large, and what it records. Raises ConfigError for what cannot work."""

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
        self._waiting: list[tuple[AuditEntry, bytes]] = []
        self._recorded_bytes = 0  # since the start
        self._written_bytes = 0  # of these; counted by ``flush`` alone
        self._lost = 0  # entries that there was no room for
        self._repeats: dict[_Key, tuple[int, int, AuditEntry]] = {}  # until when, how many more
        self._of_address: Counter[str] = Counter()  # of these

    @property
    def has_news(self) -> bool:
        return bool(self._waiting)

    def record(self, entry: AuditEntry) -> None:
        if not self._settings.enabled:
            return
        entry, line = _bounded(entry)
        if self._recorded_bytes - self._written_bytes + len(line) > WAITING_BYTES_MAX:
            self._lost += 1
            return
        self._recorded_bytes += len(line)
        self._waiting.append((entry, line))

    def refused(self, entry: AuditEntry) -> None:
        """A refusal: the first is recorded at once, those of the following minute are counted."""
        entry, _ = _bounded(entry)
        key = (entry.address, entry.action, entry.reason)
        if key not in self._repeats and self._has_many(entry.address):
            entry = msgspec.structs.replace(entry, resources=(), reason=MANY)
            key = (entry.address if self._of_address[entry.address] else "", "", MANY)
        found = self._repeats.get(key)
        if found is not None and entry.time_ms < found[0]:
            self._repeats[key] = (found[0], found[1] + 1, entry)
            return
        if found is not None:
            self._report_repeats(found)
        else:
            self._of_address[key[0]] += 1
        self._repeats[key] = (entry.time_ms + REPEAT_MS, 0, entry)
        self.record(entry)

    def _has_many(self, address: str) -> bool:
        return self._of_address[address] >= REPEATS_OF_ADDRESS_MAX or len(self._repeats) >= REPEATS_MAX

    def tick(self) -> None:
        """Refusals whose minute is over are reported with their number."""
        self._forget_repeats()

    def _forget_repeats(self, *, everything: bool = False) -> None:
        now_ms = self._now_ms()
        for key, found in list(self._repeats.items()):
            if everything or now_ms >= found[0]:
                del self._repeats[key]
                self._of_address[key[0]] -= 1
                if not self._of_address[key[0]]:
                    del self._of_address[key[0]]
                self._report_repeats(found)

    def _report_repeats(self, found: tuple[int, int, AuditEntry]) -> None:
        _, times, last = found
        if times:
            self.record(msgspec.structs.replace(last, times=times))

    def flush(self) -> None:
        """Write what waits. An error is logged, and what could not be written stays for the next time."""
        lines, lost = [line for _, line in self._waiting], self._lost
        try:
            while lines:
                taken = self._write(lines)
                self._written_bytes += sum(map(len, lines[:taken]))
                del self._waiting[:taken], lines[:taken]
        except OSError as error:
            logger.error("audit log not written: folder=%s entries=%d reason=%s", self._folder, len(lines), error)
            return
        if lost:
            self._lost -= lost
            logger.error("audit log: %d entries lost, there was no room for them", lost)

    def close(self) -> None:
        self._forget_repeats(everything=True)
        self.flush()

    def _write(self, lines: list[bytes]) -> int:
        """Into the newest file, or one that follows it; says how many of the lines that were."""
        names = _files(self._folder, self._disk)
        newest = self._folder / names[-1] if names else None
        known = self._disk.read(newest) if newest else b""
        taken = _fitting(lines, self._settings.file_bytes_max - len(known))
        if newest is None or not taken:
            newest, known = self._folder / _following(names), b""
            taken = _fitting(lines, self._settings.file_bytes_max)
        replace_text(newest, known + b"".join(lines[:taken]), aside=self._folder / "audit.tmp", disk=self._disk)
        for name in names[: max(0, len(names) + (newest.name not in names) - self._settings.files_max)]:
            self._disk.remove(self._folder / name)
        return taken

    def search(self, question: AuditSearch) -> Callable[[], list[AuditEntry]]:
        """A job that finds the newest entries that are wanted, newest first; it may run on another thread."""
        waiting = [entry for entry, _ in self._waiting]
        return lambda: _found(_newest_first(self._folder, self._disk, waiting), question)

    def find(self, question: AuditSearch) -> list[AuditEntry]:
        return self.search(question)()


def answer_of(log: AuditLog, body: bytes) -> Callable[[], bytes]:
    """A job that finds entries, newest first, as JSON; it may run on another thread. Raises RemoteProtocolError."""
    question = bodies.decode(body or b"{}", AuditSearch)
    limit = max(1, min(question.limit, FOUND_MAX))
    search = log.search(msgspec.structs.replace(question, limit=limit))
    return lambda: msgspec.json.encode(search())


def find_entries(folder: Path, question: AuditSearch) -> list[AuditEntry]:
    """Search the audit files of a folder, with or without a server that writes them. Raises OSError."""
    return _found(_newest_first(folder, _SYSTEM, []), question)


def _found(entries: Iterator[AuditEntry], question: AuditSearch) -> list[AuditEntry]:
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
    """Those that wait come first; they may be written while this runs, and are reported once."""
    yield from reversed(waiting)
    unwritten = {_encode(entry) for entry in waiting}
    for name in reversed(_files(folder, disk)):
        try:
            lines = disk.read(folder / name).splitlines()
        except FileNotFoundError:  # the oldest, which was removed meanwhile
            return
        for line in reversed(lines):
            try:
                if line not in unwritten:
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


def _fitting(lines: list[bytes], room_bytes: int) -> int:
    """How many of them have room."""
    return sum(1 for end in accumulate(map(len, lines)) if end <= room_bytes)


def _bounded(entry: AuditEntry) -> tuple[AuditEntry, bytes]:
    """The entry, without what is absurdly long, and its line: shorter than the smallest file."""
    entry = msgspec.structs.replace(
        entry,
        user=shortened(entry.user, RESOURCE_CHARACTERS_MAX),
        resources=tuple(shortened(each, RESOURCE_CHARACTERS_MAX) for each in entry.resources[:RESOURCES_MAX]),
        reason=shortened(entry.reason, REASON_CHARACTERS_MAX),
    )
    line = _encode(entry)
    if len(line) > ENTRY_BYTES_MAX:
        line = _encode(entry := msgspec.structs.replace(entry, changes={}))
    if len(line) > ENTRY_BYTES_MAX:  # names in letters that take many bytes
        line = _encode(entry := msgspec.structs.replace(entry, resources=entry.resources[:10]))
    return entry, line + b"\n"


_encode: Final[Callable[[AuditEntry], bytes]] = msgspec.json.Encoder().encode
_decode: Final[Callable[[bytes], AuditEntry]] = msgspec.json.Decoder(AuditEntry).decode
