"""Timer wheel: for each second of two weeks, the chain of timer log units that are due in it.

    byte   0        8       16     24      28      32
           second   first   last   count   magic        slot n at n * 32, big-endian; 1 209 600 slots, 38 707 200 bytes

The slot of a second is its number modulo the slots. A slot that names another second is empty. ``first`` and ``last``
are positions in the timer log, -1 for none; ``count`` are messages that wait, cancelled ones subtracted.

Changes wait in memory until ``write``. A slot never lies across two sectors, so a crash leaves its old or its new
state; what points behind the end of the timer log is mended by ``files``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from pyromq.store.files.disk import Disk, DiskFile
from pyromq.store.timers.log import NOWHERE

SLOT: Final = struct.Struct(">qqqii")
SLOT_BYTES: Final = SLOT.size
_SLOTS_AT_ONCE: Final = 16_384
_BLANK: Final = bytes(_SLOTS_AT_ONCE * SLOT_BYTES)


class WheelSlot(NamedTuple):
    second: int
    first: int = NOWHERE
    last: int = NOWHERE
    messages: int = 0
    magic: int = 0


class TimerWheel:
    """Owns the file, which is made when the first message waits."""

    def __init__(self, disk: Disk, path: Path, slots: int) -> None:
        self._disk = disk
        self._path = path
        self.slots = slots
        self._file: DiskFile | None = None  # None until it is used
        self._changed: dict[int, WheelSlot] = {}  # by second, not written yet

    def has_file(self) -> bool:
        """Asks the disk, and so does ``has_usable_file``."""
        return self._disk.exists(self._path)

    def has_usable_file(self) -> bool:
        """A file of the right size is there."""
        return self.has_file() and self._disk.size_of(self._path) == self.slots * SLOT_BYTES

    def open_once(self) -> DiskFile | None:
        """The file, opened by the first call that finds it; None as long as nothing waited. Raises OSError."""
        if self._file is None and self.has_usable_file():
            self._file = self._disk.open(self._path)
        return self._file

    def get(self, second: int) -> WheelSlot:
        if found := self._changed.get(second):
            return found
        if (file := self.open_once()) is None:
            return WheelSlot(second)
        found = WheelSlot._make(SLOT.unpack(file.read_at(second % self.slots * SLOT_BYTES, SLOT_BYTES)))
        return found if found.second == second else WheelSlot(second)

    def put(self, slot: WheelSlot) -> None:
        self._changed[slot.second] = slot

    def link(self, second: int, position: int, change: int) -> None:
        """A unit joins the chain of its second; ``change`` of the count is -1 for a cancellation."""
        slot = self.get(second)
        first = position if slot.first == NOWHERE else slot.first
        self._changed[second] = WheelSlot(second, first, position, slot.messages + change, slot.magic)

    def occupied(self, first: int, end: int) -> Iterator[WheelSlot]:
        """Slots of seconds in [first, end) that have a chain, in order."""
        end = min(end, first + self.slots)
        file = self.open_once()
        if file is None:
            yield from (
                slot for _, slot in sorted(self._changed.items()) if first <= slot.second < end and slot.last >= 0
            )
            return
        while first < end:
            at = first % self.slots
            count = min(_SLOTS_AT_ONCE, end - first, self.slots - at)
            data = file.read_at(at * SLOT_BYTES, count * SLOT_BYTES)
            is_blank = data == (_BLANK if count == _SLOTS_AT_ONCE else bytes(len(data)))
            if is_blank and not any(first <= second < first + count for second in self._changed):
                first += count  # most of a wheel: hours in which nothing is due
                continue
            for second, slot in enumerate(SLOT.iter_unpack(data), first):
                if second in self._changed:
                    slot = self._changed[second]
                if slot[0] == second and slot[2] >= 0:
                    yield WheelSlot._make(slot)
            first += count

    def write(self) -> None:
        """Neighbours are written together. Raises OSError, and then changes go on waiting."""
        if not self._changed:
            return
        file = self.open_once()
        if file is None:
            file = self._file = self._disk.create(self._path, self.slots * SLOT_BYTES)
            self._disk.sync_folder(self._path.parent)
        run: list[bytes] = []
        start = behind = NOWHERE
        for index, slot in sorted((second % self.slots, slot) for second, slot in self._changed.items()):
            if index != behind and run:
                file.write_at(start * SLOT_BYTES, b"".join(run))
                run = []
            start = start if run else index
            run.append(SLOT.pack(*slot))
            behind = index + 1
        file.write_at(start * SLOT_BYTES, b"".join(run))
        self._changed = {}

    def clear(self) -> None:
        """Forget everything; the next message creates the file again."""
        self.close()
        self._changed = {}
        self._disk.remove(self._path)
        self._disk.sync_folder(self._path.parent)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
