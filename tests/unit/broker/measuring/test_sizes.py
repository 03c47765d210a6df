"""Sizes of messages, from queue entries."""

from __future__ import annotations

from pathlib import Path

from pyromq.broker.measuring.sizes import ENTRIES_AT_ONCE, MessageSizes
from pyromq.metrics.broker_table import MESSAGE_SIZE
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import StoreSettings
from pyromq.store.tables.steps import all_steps
from pyromq.testing import FaultyDisk, ManualClock
from pyromq.wire.record import Draft

ENTRIES = ENTRIES_AT_ONCE // 3
SMALL = StoreSettings(segment_bytes=16 << 20, queue_file_entries=ENTRIES, index_slots=100, index_entries=500)


class Rig:
    def __init__(self) -> None:
        self.store = MessageStore.open(Path("/store"), SMALL, disk=FaultyDisk(), clock=ManualClock())
        self.sizes = MessageSizes(self.store)
        self.look()

    def put(self, topic: str, *bodies: int, queue_id: int = 0) -> list[int]:
        placed = self.store.append([Draft(topic=topic, queue_id=queue_id, body=b"x" * size) for size in bodies])
        self.store.flush()
        self.store.write_entries()
        return [each.size for each in placed]

    def look(self) -> None:
        all_steps(self.sizes.refresh())  # type: ignore[arg-type]


def test_each_message_is_counted_once_in_its_bucket() -> None:
    rig = Rig()
    written = rig.put("orders", 10, 2_000, 3_000, 100_000)
    rig.put("others", 1)
    rig.look()
    rig.look()
    counts, total = rig.sizes.now()["orders"]
    assert counts == (1, 2, 1, 0, 0, 0, 0) and total == sum(written)
    assert rig.sizes.now()["others"].observed == 1 and len(counts) == len(MESSAGE_SIZE.buckets) + 1


def test_what_was_there_before_is_not_counted() -> None:
    rig = Rig()
    rig.put("orders", 1, 1)
    later = MessageSizes(rig.store)
    all_steps(later.refresh())  # type: ignore[arg-type]
    assert later.now() == {}
    rig.put("orders", 1)
    all_steps(later.refresh())  # type: ignore[arg-type]
    assert later.now()["orders"].observed == 1


def test_many_entries_over_several_files() -> None:
    rig = Rig()
    for _ in range(5):
        rig.put("orders", *[10] * (ENTRIES_AT_ONCE // 4))
    rig.look()
    assert rig.sizes.now()["orders"].observed == 5 * (ENTRIES_AT_ONCE // 4)


def test_a_topic_that_is_made_anew_is_counted_anew_and_nothing_falls() -> None:
    rig = Rig()
    rig.put("orders", 1, 1, 1)
    rig.look()
    rig.store.delete_topic("orders")
    rig.look()
    rig.put("orders", 1)
    rig.look()
    assert rig.sizes.now()["orders"].observed == 4
