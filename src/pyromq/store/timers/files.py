"""Timer files: timer log, timer wheel, and the note of how far they have come, as one.

    timer topic ──▶ timer log (units) ──▶ wheel (a chain for each second)        flushed together, then noted
    (the truth)

They are derived from the timer topic, whose queue is followed from ``queue_offset``. Opening drops what is behind the
last note, and mends chains that point there. Files that are missing or make no sense, as those of a replica that is
master now, are rebuilt from the topic: what the note says was done, by its place and time, is passed over. So a note
names no time behind that of a message that came too late for its own second, as long as the second that it got instead
is not over.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final, NamedTuple, Self

from pyromq.errors import CorruptRecordError, LogGapError, PositionOutOfRangeError
from pyromq.model.names import TIMER_TOPIC
from pyromq.store.files.disk import Disk, DiskFile
from pyromq.store.files.layout import Layout
from pyromq.store.files.segments import SegmentList
from pyromq.store.log.log_reader import LogReader
from pyromq.store.read_result import QueueRange
from pyromq.store.settings import StoreSettings
from pyromq.store.timers.check import TimerCheck, load_timer_check, save_timer_check
from pyromq.store.timers.log import NOWHERE, SECOND_MS, UNIT_BYTES, TimerAction, TimerLog, TimerUnit
from pyromq.store.timers.wheel import TimerWheel, WheelSlot

logger = logging.getLogger(__name__)

_DELAY_MS_MAX: Final = 0x7FFFFFFF
_SLACK_S: Final = 60
_TOPIC: Final = TIMER_TOPIC.encode()


class Waiting(NamedTuple):
    """A record of the timer topic on its way into the files; ``due_ms`` is its TIMER_OUT_MS."""

    due_ms: int
    position: int
    size: int
    stored_ms: int
    is_cancel: bool = False
    by_second: bool = False  # RocketMQ gave it the second before its time
    topic_hash: int = 0


class TimerFlush:
    """One note on its way, for a worker thread: what it speaks of is made durable first."""

    def __init__(self, disk: Disk, path: Path, check: TimerCheck, files: list[DiskFile]) -> None:
        self._disk = disk
        self._path = path
        self.check = check
        self._files = files
        self.is_in_doubt = False  # a sync failed: a later one that succeeds proves nothing

    def run(self) -> None:
        """Flush timer log and wheel. Raises OSError."""
        self.is_in_doubt = True
        for file in self._files:
            file.sync()
        self.is_in_doubt = False
        save_timer_check(self._disk, self._path, self.check)


class TimerFiles:
    """Owned by the broker's timers, on their thread."""

    def __init__(self, disk: Disk, root: Path, log: TimerLog, wheel: TimerWheel, roll_ms: int) -> None:
        self._disk = disk
        self._log = log
        self._wheel = wheel
        self._roll_ms = roll_ms
        self._check_path = Layout(root).config / "timercheck"
        self._noted = TimerCheck()  # what the file says
        self._synced_to = 0  # the timer log is durable up to this position
        self.queue_offset = 0  # of the timer topic: what is to be followed next
        self.read_second = 0  # everything due before it is done
        self._done_before = (0, 0)  # offsets and seconds before these are done, if the files are rebuilt
        self._late: dict[int, int] = {}  # seconds that got late messages, and the earliest in which one of them was due

    # --- opening ---

    @classmethod
    def open(
        cls, disk: Disk, root: Path, settings: StoreSettings, records: LogReader, queue: QueueRange, now_ms: int
    ) -> Self:
        """What is on disk, mended; raises OSError."""
        wheel = TimerWheel(disk, root / "timerwheel", settings.timer_wheel_slots)
        folder, file_bytes = root / "timerlog", settings.timer_log_bytes
        try:
            segments = SegmentList.load(disk, folder, file_bytes)
        except LogGapError as error:
            logger.warning("timer log rebuilt from the topic: reason=%s", error)
            for name in disk.names(folder):
                disk.remove(folder / name)
            segments = SegmentList(disk, folder, file_bytes, [])
        # a record must go through the topic again before retention takes it
        files = cls(disk, root, TimerLog(segments), wheel, min(settings.timer_roll_ms, settings.keep_ms * 2 // 3))
        files._recover(records, queue, now_ms)
        return files

    def _recover(self, records: LogReader, queue: QueueRange, now_ms: int) -> None:
        found, now_second = load_timer_check(self._disk, self._check_path), now_ms // SECOND_MS
        if found is None:
            self._rebuild(queue, now_second)
            return
        self._noted, is_ours = found
        self.read_second = self._noted.read_ms // SECOND_MS
        offset = None
        if self._end_second(now_second) - self.read_second <= self._wheel.slots:  # else seconds would share slots
            offset = self._cut_to_note() if is_ours else self._follow_rocketmq(records)
        if offset is None:
            logger.warning("timer files rebuilt from the topic: offset=%d", queue.first)
            self._done_before = (self._noted.queue_offset, self.read_second)
            self._rebuild(queue, now_second)
            return
        self._mend(now_second)
        self._late = {now_second: self.read_second}  # an earlier life may have had some
        self.queue_offset = max(queue.first, min(offset, queue.end))
        if self.read_second > now_second:  # the clock went back: what was done stays done
            for slot in list(self._wheel.occupied(now_second, self.read_second)):
                self._wheel.put(WheelSlot(slot.second))
            self.read_second = now_second

    def _rebuild(self, queue: QueueRange, read_second: int) -> None:
        self._log.restart(self._noted.log_end)
        if self._wheel.has_file():
            self._wheel.clear()
        self.queue_offset, self.read_second, self._synced_to = queue.first, read_second, self._log.end

    def _end_second(self, now_second: int) -> int:
        """Nothing waits in a second as late as this one."""
        return max(now_second, self.read_second) + self._roll_ms // SECOND_MS + _SLACK_S

    def _cut_to_note(self) -> int | None:
        """Where to follow the topic from; None when the files are not what the note says."""
        end = self._noted.log_end
        if end == 0 and not self._wheel.has_file():
            self._log.cut(0)
            return self._noted.queue_offset
        if not self._wheel.has_usable_file() or self._log.read(end - UNIT_BYTES) is None:
            return None
        self._log.cut(end)
        self._synced_to = end
        return self._noted.queue_offset

    def _follow_rocketmq(self, records: LogReader) -> int | None:
        """RocketMQ's rule: units behind its note count too, and the topic goes on behind the last of them."""
        if not self._wheel.has_usable_file():
            return None
        start = max(self._log.first, self._noted.log_end - self._log.file_bytes)
        end, newest = start - start % self._log.file_bytes, None
        for position, unit in self._log.scan(end):
            if unit.position + unit.size > records.end:
                break
            end, newest = position + UNIT_BYTES, unit
            slot = self._wheel.get(unit.second)
            if unit.second >= self.read_second and position > slot.last:
                self._wheel.link(unit.second, position, -1 if unit.kind & TimerAction.CANCEL else 1)
        self._log.cut(end)
        self._synced_to = start
        if newest is None:
            return self._noted.queue_offset
        try:
            record = records.verify(newest.position)
        except (CorruptRecordError, PositionOutOfRangeError):
            return self._noted.queue_offset
        return record.offset + 1 if record.topic == _TOPIC else None

    def _mend(self, now_second: int) -> None:
        """Chains that point behind the end of the log are linked anew from the units that are left."""
        broken = {
            slot.second: slot
            for slot in self._wheel.occupied(self.read_second, self._end_second(now_second))
            if slot.last >= self._log.end
        }
        if not broken:
            return
        for second in broken:
            self._wheel.put(WheelSlot(second))
        for position, unit in self._log.scan(min(slot.first for slot in broken.values())):
            if unit.second in broken:
                self._wheel.link(unit.second, position, -1 if unit.kind & TimerAction.CANCEL else 1)

    # --- writing ---

    @property
    def noted(self) -> TimerCheck:
        return self._noted

    def add(self, waiting: Waiting, offset: int) -> tuple[int, TimerUnit] | None:
        """Give the record at ``offset`` of the topic its second; None when it is known to be done. Raises OSError."""
        due_ms, kind = self._plan(waiting)
        done_offset, done_second = self._done_before
        if offset < done_offset and due_ms // SECOND_MS < done_second:
            return None
        if due_ms // SECOND_MS < self.read_second:  # too late for its own second
            self._late[self.read_second] = min(self._late.get(self.read_second, 1 << 62), due_ms // SECOND_MS)
            due_ms = self.read_second * SECOND_MS
        written_ms = waiting.stored_ms - (waiting.stored_ms % SECOND_MS == 0)
        if waiting.by_second:
            written_ms, due_ms = waiting.stored_ms - waiting.stored_ms % SECOND_MS, due_ms - due_ms % SECOND_MS
        if due_ms - written_ms > _DELAY_MS_MAX:
            written_ms = due_ms - _DELAY_MS_MAX + _DELAY_MS_MAX % SECOND_MS
        second = due_ms // SECOND_MS
        delay_ms, previous = due_ms - written_ms, self._wheel.get(second).last
        unit = TimerUnit(previous, kind, written_ms, delay_ms, waiting.position, waiting.size, waiting.topic_hash)
        position = self._log.append(unit)
        self._wheel.link(second, position, -1 if waiting.is_cancel else 1)
        return position, unit

    def _plan(self, waiting: Waiting) -> tuple[int, int]:
        """When and why to look at it: when it is due or, far before that, to take it along (RocketMQ's rule)."""
        kind = TimerAction.DELIVER | TimerAction.CANCEL if waiting.is_cancel else TimerAction.DELIVER
        beyond_ms = waiting.due_ms - waiting.stored_ms - self._roll_ms
        if beyond_ms < 0:
            return waiting.due_ms, int(kind)
        step_ms = self._roll_ms // 2 if beyond_ms < self._roll_ms // 3 else self._roll_ms
        return waiting.stored_ms + step_ms, int(kind | TimerAction.ROLL)

    def write(self) -> None:
        """Units in memory go into their file, so that chains can be read. Raises OSError."""
        self._log.write()

    def flush(self, now_ms: int) -> TimerFlush:
        """What a worker has to do so that the present state outlives a crash; ``flushed`` follows. Raises OSError."""
        self._log.write()
        self._wheel.write()
        self._late = {second: due for second, due in self._late.items() if second >= self.read_second}
        check = TimerCheck(
            read_ms=min((self.read_second, *self._late.values())) * SECOND_MS,
            log_end=self._log.end,
            queue_offset=self.queue_offset,
            master_queue_offset=self.queue_offset,
            state_version=self._noted.state_version,
            changed_ms=now_ms,
            counter=self._noted.counter + 1,
        )
        files = [segment.open_once() for segment in self._log.dirty_files(self._synced_to)]
        if (wheel := self._wheel.open_once()) is not None:
            files.append(wheel)
        return TimerFlush(self._disk, self._check_path, check, files)

    def flushed(self, flush: TimerFlush) -> None:
        self._noted, self._synced_to = flush.check, flush.check.log_end
        if self.queue_offset >= self._done_before[0]:
            self._done_before = (0, 0)

    # --- reading ---

    def occupied(self, first: int, end: int) -> list[int]:
        """Seconds in [first, end) in which something is due."""
        return [slot.second for slot in self._wheel.occupied(first, end)]

    def units(self, second: int) -> list[tuple[int, TimerUnit]]:
        """What is due in a second, with positions, in the order of arrival; ``write`` comes before."""
        last = self._wheel.get(second).last
        return self._log.chain(last) if last != NOWHERE else []

    def pending(self, now_second: int) -> int:
        """Messages that wait, by the counts of the wheel."""
        slots = self._wheel.occupied(self.read_second, self._end_second(now_second))
        return max(0, sum(slot.messages for slot in slots))

    # --- the end ---

    def forget_before(self, log_first: int) -> None:
        """Remove timer log files about records that are gone. Raises OSError."""
        self._log.forget_before(log_first)

    def close(self) -> None:
        self._log.close()
        self._wheel.close()


def remove_timer_files(disk: Disk, root: Path) -> None:
    """Timer log and wheel; the next opening makes them from the topic. Raises OSError."""
    wheel, folder = root / "timerwheel", root / "timerlog"
    if disk.exists(wheel):
        disk.remove(wheel)
    for name in disk.names(folder):
        disk.remove(folder / name)
