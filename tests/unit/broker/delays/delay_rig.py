"""A store in which messages wait, with everything that lets them go, driven by hand on a disk in memory."""

from __future__ import annotations

from pathlib import Path

from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.base.stats import Counters
from pyromq.broker.base.steady_clock import SteadyClock
from pyromq.broker.commit.commit import OnStored
from pyromq.broker.delays.delays import Delays
from pyromq.broker.delays.delivered import DeliveredBefore
from pyromq.broker.delays.due_messages import DueMessages
from pyromq.broker.delays.schedule import Schedule
from pyromq.broker.delays.timers import Timers
from pyromq.broker.state.topics import Topics
from pyromq.errors import StoreError
from pyromq.model.names import TIMER_TOPIC
from pyromq.model.property_names import TIMER_DELETED_KEY as CANCEL
from pyromq.store.maintenance import Maintenance
from pyromq.store.message_store import MessageStore, Placed
from pyromq.store.read_result import QueueRange
from pyromq.store.settings import StoreSettings
from pyromq.store.tables.offsets import DelayOffsets
from pyromq.store.tables.topics import TopicTable
from pyromq.store.timers.files import TimerFiles
from pyromq.store.timers.metrics import TimerMetrics
from pyromq.testing import FaultyDisk, ManualClock
from pyromq.wire.property_text import closed
from pyromq.wire.record import Draft, Record, split_records

ROOT = Path("/store")
UNITS_PER_FILE = 10
SMALL = StoreSettings(
    segment_bytes=8192,
    queue_file_entries=16,
    index_slots=16,
    index_entries=64,
    index_backlog_max=8,
    timer_wheel_slots=1_000,
    timer_log_bytes=UNITS_PER_FILE * 52 + 16,
    timer_roll_ms=100_000,
    delay_ladder_ms=(1_000, 5_000, 10_000),
)
HOUR_MS = 3_600_000


class DelayRig:
    """What a broker has for delayed messages; ``run`` stands for its loop, ``save`` for its clock of ten seconds."""

    def __init__(
        self, disk: FaultyDisk | None = None, clock: ManualClock | None = None, settings: StoreSettings = SMALL
    ) -> None:
        self.wall = clock or ManualClock()
        self.disk = disk or FaultyDisk(clock_ms=self.wall.now_ms)
        self.clock = SteadyClock(self.wall)
        self.store = MessageStore.open(ROOT, settings, disk=self.disk, clock=self.clock)
        broker = BrokerSettings(store=settings)
        self.delays = Delays(broker, self.clock)
        self.topics = Topics(TopicTable.load(self.disk, ROOT), broker, self.clock)
        self.counters = Counters()
        due = DueMessages(self.store, self.topics, DeliveredBefore(self.store, self.clock))
        self.offsets = DelayOffsets.load(self.disk, ROOT)
        queue = self.store.reader.range_of(TIMER_TOPIC, 0) or QueueRange(0, 0)
        now_ms = self.clock.now_ms()
        self.files = TimerFiles.open(self.disk, ROOT, settings, self.store.records, queue, now_ms)
        self.schedule = Schedule(self.store, self.offsets, due, self.put, self.counters, self.clock)
        metrics = TimerMetrics.load(self.disk, ROOT)
        self.timers = Timers(self.store, self.files, due, self.put, self.counters, self.clock, metrics)
        self.maintenance = Maintenance(self.store, self.disk, self.clock)
        self._told: list[OnStored] = []
        self.failing = False  # commits fail while this is set
        self.attempt = 2  # of what is sent

    # --- what a broker does ---

    def put(self, draft: Draft, on_stored: OnStored) -> Placed:
        placed = self.store.stage(draft)
        self._told.append(on_stored)
        return placed

    def commit(self) -> bool:
        told, self._told = self._told, []
        error = None
        if self.failing and told:
            self.store._drop_staged()
            error = StoreError("no")
        elif told:
            self.store.commit()
            self.store.flush()
        for on_stored in told:
            on_stored(error)
        return bool(told)

    def run(self) -> None:
        """Until nothing more is to be done at this moment."""
        for _ in range(10_000):
            next_ms = min(self.schedule.run(), self.timers.run())
            if not self.commit() and next_ms > self.clock.now_ms():
                return
        raise AssertionError("it never rests")

    def save(self) -> None:
        self.schedule.note(self.offsets)
        if self.offsets.unsaved:
            self.offsets.save()
        flush = self.files.flush(self.clock.now_ms())
        flush.run()
        self.files.flushed(flush)

    def pass_time(self, duration_ms: int, step_ms: int = 1_000) -> None:
        while duration_ms > 0:
            self.wall.advance_ms(min(step_ms, duration_ms))
            duration_ms -= step_ms
            self.run()

    def reopened(self, *, settings: StoreSettings = SMALL) -> DelayRig:
        """After a clean stop."""
        self.save()
        self.files.close()
        self.store.close()
        return DelayRig(self.disk, self.wall, settings)

    # --- what clients do ---

    def send(self, name: str, properties: str = "", *, topic: str = "orders", queue_id: int = 0) -> Placed:
        """A message with this body; its unique key is made of it."""
        text = closed(properties) + f"UNIQ_KEY\x01{name}\x02TAGS\x01blue\x02"
        place = self.delays.place(topic, queue_id, text)
        draft = Draft(
            topic=place.topic,
            queue_id=place.queue_id,
            body=name.encode(),
            properties=place.properties.encode(),
            born_ms=7,
            flag=3,
            delivery_attempt=self.attempt,
        )
        (placed,) = self.store.append([draft])
        self.store.flush()
        return placed

    def send_at_level(self, name: str, level: int, *, topic: str = "orders", queue_id: int = 0) -> Placed:
        return self.send(name, f"DELAY\x01{level}", topic=topic, queue_id=queue_id)

    def send_in(self, name: str, delay_ms: int, *, topic: str = "orders", queue_id: int = 0) -> Placed:
        return self.send(name, f"TIMER_DELAY_MS\x01{delay_ms}", topic=topic, queue_id=queue_id)

    def cancel(self, name: str, due_ms: int, *, topic: str = "orders") -> None:
        key = f"{topic}+{name}"
        text = f"UNIQ_KEY\x01{name}\x02{CANCEL}\x01{name}\x02TIMER_DELIVER_MS\x01{due_ms}\x02"
        place = self.delays.place(topic, 0, text)
        assert self.timers.hold(key.encode())
        draft = Draft(topic=place.topic, queue_id=0, body=b"0", properties=place.properties.encode())
        self.store.append([draft])
        self.store.flush()

    # --- what a disk does ---

    def flip(self, placed: Placed) -> None:
        """One bit in the body of that message; the second time it is whole again."""
        segment = self.store.log.segments.holding(placed.position)
        assert segment is not None
        self.disk.flip_bit(segment.path, (placed.position - segment.base + 90) * 8)

    # --- what they find ---

    def records(self, topic: str = "orders", queue_id: int = 0) -> list[Record]:
        found = self.store.reader.range_of(topic, queue_id)
        offset, records = (found.first if found else 0), []
        while found and offset < found.end:
            result = self.store.reader.read(topic, queue_id, offset)
            records += split_records(result.to_bytes())
            offset = result.next_offset
        return records

    def delivered(self, topic: str = "orders", queue_id: int = 0) -> list[str]:
        return [record.body.decode() for record in self.records(topic, queue_id)]
