"""Key index: find messages by topic and key.

Files (``index_file.py``) named by their creation time, oldest first; the newest is written. Derived data: what a crash
or a bad disk takes from it is built again from the log. Keys of one message never lie in two files.

Adding is done in bulk, apart from the appends (hashing one key alone costs more than appending its message).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import accumulate, chain, repeat
from operator import add
from pathlib import Path
from typing import TypeVar

import msgspec

from pyromq.clock import Clock
from pyromq.compiled_core import HASHED_KEY_BYTES
from pyromq.store.derived.index_file import IndexFile, IndexSeal
from pyromq.store.files.disk import Disk
from pyromq.store.settings import StoreSettings
from pyromq.wire.fast.key_hashes import key_hash, key_hashes
from pyromq.wire.properties import message_keys

is_index_name = re.compile(r"\d{17}").fullmatch
_Value = TypeVar("_Value")


Unindexed = tuple[bytes, bytes, int, int]
"""A message: its topic with ``#`` behind it, its properties, its position, its store time."""


class HashedKeys(msgspec.Struct, gc=False):
    """Keys that the compiled core has hashed, of messages that follow each other in the log; their owner adds more."""

    keys: list[bytes]  # in pieces; ``HASHED_KEY_BYTES`` each
    messages: int
    position: int  # of the first message


class KeyIndex:
    """Owns the index files; one thread."""

    def __init__(self, disk: Disk, folder: Path, settings: StoreSettings, clock: Clock) -> None:
        self._disk = disk
        self._folder = folder
        self._clock = clock
        self._slots = settings.index_slots
        self._capacity = settings.index_entries
        self._files: list[IndexFile] = []

    @property
    def files(self) -> Sequence[IndexFile]:
        return self._files

    @property
    def covered_end(self) -> int:
        """Every record before this position is in the index (as far as it has keys and the log still has it)."""
        if not self._files:
            return 0
        newest = self._files[-1]  # an empty one starts with the end of the one before it
        return newest.end_position + 1 if newest.next_entry > 1 or newest.end_position or len(self._files) > 1 else 0

    def add(self, messages: Sequence[Unindexed]) -> None:
        """Index messages in log order; those that are in the index already are passed over."""
        covered, keys_max = self.covered_end, self.keys_max
        if messages and messages[0][2] < covered:
            messages = [message for message in messages if message[2] >= covered]
        if not messages:
            return
        keys = [message_keys(properties) for _, properties, _, _ in messages]
        counts = list(map(len, keys))
        if max(counts) > keys_max:
            keys = [some[:keys_max] for some in keys]
            counts = list(map(len, keys))
        hashes = _hashes([message[0] for message in messages], keys, counts)
        positions = _for_each_key([message[2] for message in messages], counts)
        times_ms = _for_each_key([message[3] for message in messages], counts)
        ends, start = list(accumulate(counts)), 0  # how many keys there are up to and with each message
        while start < len(hashes):
            room = self._files[-1].room if self._files else 0
            end = ends[bisect_right(ends, start + room) - 1] if ends[0] <= start + room else start
            if end > start:
                self._files[-1].add(hashes[start:end], positions[start:end], times_ms[start:end])
                start = end
            if start < len(hashes):
                self._roll()

    def add_hashed(self, keys: bytes) -> None:
        """``add`` of keys that are hashed already, at most as many of each message as ``keys_max``."""
        count, start = len(keys) // HASHED_KEY_BYTES, 0
        covered = self.covered_end
        if count and _position_of(keys, 0) < covered:
            start = bisect_left(range(count), covered, key=lambda number: _position_of(keys, number))
        while start < count:
            end = min(count, start + self._files[-1].room) if self._files else start
            while start < end < count and _position_of(keys, end) == _position_of(keys, end - 1):
                end -= 1  # those of one message lie in one file
            if end > start:
                self._files[-1].add_hashed(keys[start * HASHED_KEY_BYTES : end * HASHED_KEY_BYTES])
                start = end
            if start < count:
                self._roll()

    @property
    def keys_max(self) -> int:
        """How many keys of one message are indexed: as many as a file has room for."""
        return self._capacity - 1

    def _roll(self) -> None:
        path = self._folder / self._new_name()
        seed = self._files[-1] if self._files else None
        self._files.append(IndexFile.create(self._disk, path, self._slots, self._capacity, seed))

    def _new_name(self) -> str:
        """Local time of creation, moved on where needed so that names stay in order."""
        moment = datetime.fromtimestamp(self._clock.now_ms() / 1000).astimezone()
        name = _time_name(moment)
        while self._files and name <= self._files[-1].path.name:
            last = self._files[-1].path.name
            moment = datetime.strptime(last[:14], "%Y%m%d%H%M%S").astimezone()
            moment += timedelta(milliseconds=int(last[14:]) + 1)
            name = _time_name(moment)
        return name

    def candidates(self, topic: str, key: str, begin_ms: int, end_ms: int) -> Iterator[int | None]:
        """Positions of records that may have the key, newest first; equal hashes make strangers appear among them.

        None stands for a long way between two of them (``IndexFile.positions``).
        """
        wanted = key_hash(f"{topic}#{key}".encode())
        for file in self._files[::-1]:
            if file.begin_ms <= end_ms and file.end_ms + 1000 > begin_ms:
                yield from file.positions(wanted, begin_ms, end_ms)

    # --- sealing, recovery, retention ---

    def seals(self, *, closing: bool) -> list[IndexSeal]:
        return [file.seal(full=closing or file is not self._files[-1]) for file in self._files]

    def open_sealed(self, seals: Sequence[IndexSeal], log_first: int) -> list[str]:
        """Take what the seals confirm; from the first lost or damaged file on all are removed. Says which."""
        names, trusted = set(self._disk.names(self._folder)), {}
        for seal in seals:
            if seal.name in names:
                trusted[seal.name] = seal
            elif seal.end_position >= log_first:  # retention did not remove it
                break
        return self._open(lambda file: file.path.name in trusted and file.accept(trusted[file.path.name]))

    def open_unsealed(self, log_end: int) -> list[str]:
        """Take files of another program, as far as they make sense."""
        return self._open(lambda file: file.accept_unsealed(log_end))

    def _open(self, accept: Callable[[IndexFile], bool]) -> list[str]:
        removed: list[str] = []
        for name in self._disk.names(self._folder):
            if not is_index_name(name):
                continue
            path = self._folder / name
            capacity = IndexFile.shape_of(self._disk.size_of(path), self._slots)
            if not removed and capacity >= 2:
                file = IndexFile(path, self._disk.open(path), self._slots, capacity)
                if accept(file):
                    self._files.append(file)
                    continue
                file.close()
            removed.append(name)
            self._disk.remove(path)
        if removed:
            self._disk.sync_folder(self._folder)
        return removed

    def cut_from(self, position: int, stored_ms: Callable[[int], int]) -> None:
        """Drop everything about records at ``position`` and later."""
        while self._files and self._files[-1].begin_position >= position:
            self._remove(self._files.pop())
        if self._files:
            newest = self._files[-1]
            newest.cut_from(position, newest.end_ms)
            if newest.next_entry > 1:
                newest.end_ms = stored_ms(newest.end_position)

    def forget_before(self, log_first: int) -> int:
        """Remove files about records that the log no longer has; never the newest."""
        removed = 0
        while len(self._files) > 1 and self._files[0].end_position < log_first:
            self._remove(self._files.pop(0))
            removed += 1
        return removed

    def _remove(self, file: IndexFile) -> None:
        file.close()
        self._disk.remove(file.path)
        self._disk.sync_folder(self._folder)

    def close(self) -> None:
        for file in self._files:
            file.close()


def _position_of(keys: bytes, number: int) -> int:
    at = number * HASHED_KEY_BYTES + 4
    return int.from_bytes(keys[at : at + 8], "big", signed=True)


def _time_name(moment: datetime) -> str:
    return moment.strftime("%Y%m%d%H%M%S") + f"{moment.microsecond // 1000:03d}"


def _hashes(prefixes: list[bytes], keys: Sequence[list[bytes]], counts: list[int]) -> list[int]:
    """Hash all keys behind the prefixes of their messages."""
    each, flat = counts[0], list(chain.from_iterable(keys))
    prefix = prefixes[0]
    if prefixes.count(prefix) < len(prefixes):
        prefix, flat = b"", list(map(add, _for_each_key(prefixes, counts), flat))
    if counts.count(each) < len(counts):
        return key_hashes(flat, prefix)
    hashes = [0] * len(flat)
    for number in range(each):  # apart: the first keys of all messages are alike, and so are the second ones
        hashes[number::each] = key_hashes(flat[number::each], prefix)
    return hashes


def _for_each_key(values: list[_Value], counts: list[int]) -> list[_Value]:
    """What belongs to messages, as often as these have keys."""
    each = counts[0]
    if counts.count(each) < len(counts):
        return list(chain.from_iterable(map(repeat, values, counts)))
    repeated = values * each
    for number in range(each):
        repeated[number::each] = values
    return repeated
