"""Audit log: who changed what, from where, what it was before, and what was refused.

    audit/audit.jsonl      one entry a line, the newest file
    audit/audit-1.jsonl    the file before it, and so on; the oldest goes when there are too many

Entries are written by ``flush``, which the owner calls every moment on a worker thread: a crash may take the entries of
the last moment, never one that was written. A refusal that comes again and again is one entry for a minute, and then
one that says how often: a flood of them cannot wash the log out.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from threading import Lock
from typing import Any, Final

import msgspec

from pyromq.clock import Clock
from pyromq.errors import ConfigError
from pyromq.wire.json import bodies

logger = logging.getLogger(__name__)

FOLDER: Final = "audit"
WAITING_MAX: Final = 10_000  # entries that are not written yet
REPEATS_MAX: Final = 1_000  # refusals that are counted
FOUND_MAX: Final = 1_000  # entries in one response
REPEAT_MS: Final = 60_000
VALUE_BYTES_MAX: Final = 65_536  # before and after, as JSON


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
    file_bytes_max: int = 16 << 20
    files_max: int = 10

    def __post_init__(self) -> None:
        if self.file_bytes_max < 1 << 16 or self.files_max < 1:
            raise ConfigError("audit.file_bytes_max must be at least 65536, audit.files_max at least 1")


class AuditLog:
    """``record`` and ``refused`` belong to one thread, ``flush`` may run on another."""

    def __init__(self, folder: Path, server: str, settings: AuditSettings, clock: Clock) -> None:
        self.server = server
        self._folder = folder
        self._settings = settings
        self._clock = clock
        self._waiting: list[AuditEntry] = []
        self._lost = 0  # entries that there was no room for
        self._repeats: dict[tuple[str, str, str], tuple[int, int, AuditEntry]] = {}  # until when, how many more
        self._writing = Lock()

    @property
    def has_news(self) -> bool:
        return bool(self._waiting)

    def record(self, entry: AuditEntry) -> None:
        if not self._settings.enabled:
            return
        if len(self._waiting) >= WAITING_MAX:
            self._lost += 1
            return
        self._waiting.append(entry)

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
        now_ms = self._clock.now_ms()
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
        with self._writing:
            entries, lost = self._waiting[:], self._lost
            if not entries:
                return
            try:
                self._write(entries)
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

    def _write(self, entries: list[AuditEntry]) -> None:
        self._folder.mkdir(0o700, parents=True, exist_ok=True)
        data = b"".join(_encoded(entry) for entry in entries)
        path = self._path(0)
        if path.exists() and path.stat().st_size + len(data) > self._settings.file_bytes_max:
            self._rotate()
        number = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            whole = os.fstat(number).st_size
            if os.write(number, data) != len(data):
                os.ftruncate(number, whole)  # the disk is full, perhaps: all of it next time
                raise OSError("the disk took a part of it only")
            os.fsync(number)
        finally:
            os.close(number)

    def _rotate(self) -> None:
        self._path(self._settings.files_max - 1).unlink(missing_ok=True)
        for number in reversed(range(self._settings.files_max - 1)):
            if self._path(number).exists():
                self._path(number).replace(self._path(number + 1))

    def _path(self, number: int) -> Path:
        return _path(self._folder, number)

    def find(self, question: Question) -> list[AuditEntry]:
        """The newest entries that are wanted, newest first; those that wait are written first."""
        self.flush()
        return find_entries(self._folder, question)


def answer_question(log: AuditLog, body: bytes) -> bytes:
    """Entries, newest first, as JSON. Raises RemoteProtocolError."""
    question = bodies.decode(body or b"{}", Question)
    limit = max(1, min(question.limit, FOUND_MAX))
    return msgspec.json.encode(log.find(msgspec.structs.replace(question, limit=limit)))


def find_entries(folder: Path, question: Question) -> list[AuditEntry]:
    """Of the files in a folder, with or without a server that writes them. Raises OSError."""
    found: list[AuditEntry] = []
    for entry in _newest_first(folder):
        if entry.time_ms < question.since_ms:
            break
        if question.wants(entry):
            found.append(entry)
            if len(found) >= question.limit:
                break
    return found


def _newest_first(folder: Path) -> Iterator[AuditEntry]:
    number = 0
    while (path := _path(folder, number)).exists():
        for line in reversed(path.read_bytes().splitlines()):
            try:
                yield _decode(line)
            except msgspec.DecodeError:  # cut by a crash, or not ours
                continue
        number += 1


def _path(folder: Path, number: int) -> Path:
    return folder / (f"audit-{number}.jsonl" if number else "audit.jsonl")


def _encoded(entry: AuditEntry) -> bytes:
    line = _encode(entry)
    if len(line) > 2 * VALUE_BYTES_MAX:
        line = _encode(msgspec.structs.replace(entry, changes={}, resources=entry.resources[:100]))
    return line + b"\n"


_encode: Final[Callable[[AuditEntry], bytes]] = msgspec.json.Encoder().encode
_decode: Final[Callable[[bytes], AuditEntry]] = msgspec.json.Decoder(AuditEntry).decode
