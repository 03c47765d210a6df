"""Consume queue: where the n-th message of one queue lies in the commit log; its entry starts at byte n * 20.

The n of a message is its *offset*. Derived data: rebuilt from the log after a crash, trusted only up to the last seal.
One writer, any readers.

An entry is *staged* with its record. When the log has the record, the entry is *owed* to the file: it waits in memory
until ``write_owed``, which comes before a read, when many entries wait, or after a moment. Thousands of queues, each
with a message now and then, would cost a write per message otherwise. When the disk is full, owed entries go on
waiting, in order, and nothing is lost: the log has the records.

    [first ........ end ........ committed_end ........ next_offset)
      in files       owed         staged, their records are not in the log yet
                    └───────────── its tail ─────────────┘
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Self

from pyromq.checksum import crc32
from pyromq.store.derived.queue_entry import ENTRY, ENTRY_BYTES, FILLER_AT_START, FILLER_SIZE, QueueEntry, position_of
from pyromq.store.derived.queue_tail import QueueTail
from pyromq.store.files.disk import Disk
from pyromq.store.files.layout import Layout
from pyromq.store.files.segments import Segment, SegmentList
from pyromq.store.settings import StoreSettings

_CLAIMS_AT_ONCE = 1_000
_FILLERS_AT_ONCE = 10_000
_MAY_BE_MISSING = -1  # as the last position of a file that holds nothing


class QueueSeal(NamedTuple):
    """A promise about one queue file: its first ``used_bytes`` have this CRC-32 and are durable.

    ``last_position``, of the last entry, says whether the file may be missing: only when the log starts behind it.
    """

    base: int
    used_bytes: int
    crc: int
    last_position: int


class ConsumeQueue(QueueTail):
    """A tail and its files: reads what is in them, [first, end), and writes owed entries when asked to."""

    def __init__(self, topic: str, queue_id: int, segments: SegmentList) -> None:
        super().__init__(topic, queue_id)
        self._segments = segments
        self.first = 0  # the oldest offset whose record the log still has
        self.end = 0  # behind the last entry in files; readers make ``write_owed`` bring it up to date
        self.claimed_end = 0  # recovery only: offsets before this one may have been given
        self._seals: dict[int, QueueSeal] = {}  # by base; of the file being written, the CRC runs along
        self.dirty: set[int] = set()  # bases of files with unsynced entries

    @classmethod
    def without_files(cls, disk: Disk, layout: Layout, settings: StoreSettings, topic: str, queue_id: int) -> Self:
        """A queue that has no messages; its first file is made when there is an entry to write."""
        folder, file_bytes = layout.queue(topic, queue_id), settings.queue_file_entries * ENTRY_BYTES
        return cls(topic, queue_id, SegmentList(disk, folder, file_bytes, [], derived=True))

    @property
    def committed_end(self) -> int:
        """Behind the last entry whose record the log has, in a file or owed."""
        return self.end + self.owed_bytes // ENTRY_BYTES

    @property
    def lacks_file(self) -> bool:
        """Whether its first file has to be made before owed entries can be read."""
        return self.owed_bytes > 0 and not len(self._segments)

    # --- recovery ---

    @property
    def segments(self) -> SegmentList:
        return self._segments

    def find_covered_end(self) -> int:
        """Records before this position have their entry, if they belong to this queue; asks the last entry."""
        if self.end <= self.first:
            return 0
        last = self.entry(self.end - 1)
        return last.position if last.size == FILLER_SIZE else last.position + 1  # a filler has the next one's position

    def open_sealed(self, seals: Sequence[QueueSeal], log_first: int, durable_end: int, *, alive_from: int) -> bool:
        """Trust exactly what the seals confirm; False when some of that is damaged (it is dropped, with all behind).

        What is dropped and speaks of records before ``durable_end`` is remembered in ``claimed_end``; not so of records
        before ``alive_from``, which are left from a deleted topic of this name.
        """
        bases = {segment.base for segment in self._segments}
        by_base = {seal.base: seal for seal in seals if seal.base in bases or seal.last_position >= log_first}
        starts_whole = min(by_base, default=0) in bases  # else its start is lost: nothing of it can be kept
        for segment in self._segments if starts_whole else ():
            seal = by_base.get(segment.base)
            if seal is None or crc32(segment.open_once().read_at(0, seal.used_bytes)) != seal.crc:
                break
            self._accept(segment, seal)
            if seal.used_bytes < segment.size:
                break
        self.claimed_end = self.end + self._count_claims(alive_from, durable_end)
        self._drop_behind()
        return len(self._seals) == len(by_base)

    def _count_claims(self, alive_from: int, durable_end: int) -> int:
        """Entries behind ``end`` that make sense and whose records were durable, so that their offsets were given."""
        count, before = 0, max(self.find_covered_end(), alive_from)
        while (segment := self._segments.holding((self.end + count) * ENTRY_BYTES)) is not None:
            at = (self.end + count) * ENTRY_BYTES - segment.base
            some = segment.open_once().read_at(at, min(segment.size - at, _CLAIMS_AT_ONCE * ENTRY_BYTES))
            for position, size, _ in ENTRY.iter_unpack(some):
                if not (before <= position < durable_end and 0 < size < FILLER_SIZE):
                    return count
                count, before = count + 1, position + size
        return count

    def open_unsealed(self, before_position: int) -> bool:
        """Trust entries that make sense and lie before a position; False when one does not make sense."""
        intact = True
        for segment in self._segments:
            data = segment.open_once().read_at(0, segment.size)
            used, before = 0, 0
            for position, size, tag_hash in ENTRY.iter_unpack(data):
                if not (before <= position < before_position and size > 0):
                    intact = position >= before_position or not (position or size or tag_hash)
                    break
                used, before = used + ENTRY_BYTES, position
            last_position = position_of(data[used - ENTRY_BYTES : used]) if used else 0
            self._accept(segment, QueueSeal(segment.base, used, crc32(data[:used]), last_position))
            if used < segment.size:
                break
        self._drop_behind()
        return intact

    def _accept(self, segment: Segment, seal: QueueSeal) -> None:
        if not self._seals:
            self.first = segment.base // ENTRY_BYTES
        self._seals[segment.base] = seal
        self.end = (segment.base + seal.used_bytes) // ENTRY_BYTES
        self.restart_tail(self.end)

    def _drop_behind(self) -> None:
        """Wipe entries behind ``end``: what is there comes from records that are looked at again."""
        at = self.end * ENTRY_BYTES
        segment = self._segments.holding(at) if self._seals else None
        self._segments.remove_from(at + 1 if segment else at)
        if segment is None:
            return
        file, at = segment.open_once(), at - segment.base
        if file.data_end(at) > at:
            file.zero_from(at)
            self.dirty.add(segment.base)
        else:
            file.release_from(at)

    def restart_at(self, offset: int) -> None:
        """An empty queue whose first message will have ``offset``; its file is filled up to there."""
        self._segments.remove_from(0)
        self.forget_all()
        entries_per_file = self._segments.segment_bytes // ENTRY_BYTES
        self.first = self.end = offset - offset % entries_per_file
        self.restart_tail(self.end)
        if offset > self.end:
            self.stage_filler(offset - self.end, 0)
            self.write_staged()
        self.first = offset

    def fill_up_to(self, offset: int, position: int) -> None:
        """Entries for messages that are lost, so that the next one gets ``offset``; written as they are made."""
        while self.next_offset < offset:
            self.stage_filler(min(_FILLERS_AT_ONCE, offset - self.next_offset), position)
            self.write_staged()

    def is_filler(self, offset: int) -> bool:
        """Whether the entry in the file stands for a lost message; also of the offset just before ``first``."""
        segment = self._segments.holding(offset * ENTRY_BYTES)
        if segment is None or offset >= self.end:
            return False
        data = segment.open_once().read_at(offset * ENTRY_BYTES - segment.base, ENTRY_BYTES)
        return QueueEntry._make(ENTRY.unpack(data)).size == FILLER_SIZE

    def replace_filler(self, offset: int, position: int, size: int, tag_hash: int) -> None:
        """Put the entry of a message that was lost, and is there again, in place of its filler. Raises OSError."""
        segment = self._segments.holding(offset * ENTRY_BYTES)
        assert segment is not None and self.is_filler(offset), "only a filler is replaced"
        file, seal = segment.open_once(), self._seals[segment.base]
        file.write_at(offset * ENTRY_BYTES - segment.base, ENTRY.pack(position, size, tag_hash))
        data = file.read_at(0, seal.used_bytes)
        self._seals[segment.base] = seal._replace(crc=crc32(data), last_position=position_of(data[-ENTRY_BYTES:]))
        self.dirty.add(segment.base)
        self.first = min(self.first, offset)

    def correct(self, offset: int, position: int, size: int) -> None:
        """Write an entry as it was before the disk changed it; the sum of its file is right again. Raises OSError."""
        segment = self._segments.holding(offset * ENTRY_BYTES)
        assert segment is not None, "an entry that was read is in a file"
        tag_hash = self.entry(offset).tag_hash
        segment.open_once().write_at(offset * ENTRY_BYTES - segment.base, ENTRY.pack(position, size, tag_hash))
        self.dirty.add(segment.base)

    def forget_all(self) -> None:
        """Be as new, with nothing staged or owed; removing the files is up to the caller."""
        self._seals = {}
        self.dirty.clear()
        self.first = self.end = 0
        self.restart_tail(0)

    # --- writing ---

    def stage_many(self, positions: Sequence[int], sizes: Iterable[int], tag_hashes: Iterable[int]) -> None:
        """``stage`` of many messages at once."""
        self.stage_encoded(b"".join(map(ENTRY.pack, positions, sizes, tag_hashes)))

    def stage_filler(self, count: int, position: int) -> None:
        """Entries for messages that are lost, so that those behind keep their offsets."""
        self.stage_encoded(ENTRY.pack(position, FILLER_SIZE, 0) * count)

    def write_staged(self) -> None:
        """Commit and write at once."""
        self.commit_staged()
        self.write_owed()

    def write_owed(self) -> int:
        """Write owed entries; returns how many. On OSError those that were not written go on waiting."""
        count = self.owed_entries
        while self.owed_bytes:
            segment = self._segments.get_or_create(self.end * ENTRY_BYTES)
            at = self.end * ENTRY_BYTES - segment.base
            data = self.owed(segment.size - at)
            segment.open_once().write_at(at, data)
            seal = self._seals.get(segment.base)
            crc, last_position = crc32(data, seal.crc if seal else 0), position_of(data[-ENTRY_BYTES:])
            self._seals[segment.base] = QueueSeal(segment.base, at + len(data), crc, last_position)
            self.dirty.add(segment.base)
            self.end += len(data) // ENTRY_BYTES
            self.settle(len(data))
        return count

    # --- sealing and retention ---

    def seals(self) -> list[QueueSeal]:
        """What is in the files, and always where the queue ends, even if no file says so."""
        found = [self._seals[segment.base] for segment in self._segments if segment.base in self._seals]
        at = self.end * ENTRY_BYTES
        if self.end and (not found or found[-1].base + found[-1].used_bytes < at):
            found.append(QueueSeal(at, 0, 0, _MAY_BE_MISSING))
        return found

    def dirty_segments(self) -> list[Segment]:
        return [segment for segment in self._segments if segment.base in self.dirty]

    def forget_before(self, log_first: int) -> int:
        """The log lost everything before ``log_first``: move ``first``, remove files that lie before it wholly."""
        self.first = self.first_at_or_after(log_first)
        removed = 0
        while len(self._segments) > 1 and self._segments.first.end <= self.first * ENTRY_BYTES:
            self._seals.pop(self._segments.first.base, None)
            self.dirty.discard(self._segments.first.base)
            self._segments.remove_first()
            removed += 1
        return removed

    # --- reading ---

    def entry(self, offset: int) -> QueueEntry:
        return self.entries(offset, 1)[0]

    def entries(self, offset: int, count: int) -> list[QueueEntry]:
        """Up to ``count`` entries from ``offset`` on, of one file only."""
        return list(map(QueueEntry._make, self.raw_entries(offset, count)))

    def raw_entries(self, offset: int, count: int) -> Iterator[tuple[int, int, int]]:
        """Yield entries as plain tuples of position, size and tag hash, for readers of many."""
        return ENTRY.iter_unpack(self.entry_bytes(offset, count))

    def entry_bytes(self, offset: int, count: int) -> bytes:
        """Read entries as the bytes that lie in the file."""
        at, size = offset * ENTRY_BYTES, min(count, self.end - offset) * ENTRY_BYTES
        segment = self._segments.holding(at)
        if segment is None or size <= 0 or offset < self.first:
            return b""
        return segment.open_once().read_at(at - segment.base, min(size, segment.end - at))

    def first_at_or_after(self, position: int) -> int:
        """The first offset whose record starts at ``position`` or later; ``end`` when there is none."""
        return self.search(lambda entry: entry.position >= position and entry != FILLER_AT_START)

    def search(self, is_behind: Callable[[QueueEntry], bool]) -> int:
        """Binary search: the first offset for which ``is_behind`` holds, given that it holds for all after it."""
        low, high = self.first, self.end
        if low < high and is_behind(self.entry(low)):
            return low
        while low < high:
            middle = (low + high) // 2
            if is_behind(self.entry(middle)):
                high = middle
            else:
                low = middle + 1
        return low
