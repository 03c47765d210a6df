"""Lag, kept from one look to the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.broker.measuring.lag import WORST_MAX, GroupLag, LagTable
from pyromq.broker.state.progress import Progress
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import StoreSettings
from pyromq.store.tables.offsets import OffsetTable
from pyromq.store.tables.steps import all_steps
from pyromq.testing import FaultyDisk, ManualClock
from pyromq.wire.record import Draft

SMALL = StoreSettings(segment_bytes=1 << 20, queue_file_entries=1_000, index_slots=100, index_entries=500)
ROOT = Path("/store")


class Rig:
    def __init__(self) -> None:
        self.clock, disk = ManualClock(), FaultyDisk()
        self.store = MessageStore.open(ROOT, SMALL, disk=disk, clock=self.clock)
        self.progress = Progress(OffsetTable.load(disk, ROOT, self.clock.now_ms()), self.clock)
        self.table = LagTable(self.store, self.progress, self.clock)

    def put(self, topic: str, count: int, queue_id: int = 0) -> None:
        self.store.append([Draft(topic=topic, queue_id=queue_id, body=b"x") for _ in range(count)])
        self.store.flush()
        self.store.write_entries()

    def look(self, topic: str = "orders", group: str = "books") -> GroupLag:
        all_steps(self.table.refresh())  # type: ignore[arg-type]
        return self.table.groups[topic, group]


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_messages_that_are_left_and_how_old_they_are(rig: Rig) -> None:
    rig.put("orders", 3)
    rig.put("orders", 2, queue_id=1)
    rig.progress.commit("books", "orders", 0, 1)
    rig.progress.commit("books", "orders", 1, 2)
    at_ms = rig.clock.now_ms()
    lag = rig.look()
    assert (lag.messages, lag.in_flight, lag.behind) == (2, 0, {0: 2}) and lag.oldest_ms == at_ms
    rig.progress.note_pull("books", "orders", 0, 2)
    rig.clock.advance_ms(5_000)
    lag = rig.look()
    assert (lag.messages, lag.in_flight, lag.oldest_ms) == (2, 1, at_ms)


def test_nothing_is_looked_at_twice_when_nothing_happened(rig: Rig) -> None:
    for number in range(10):
        rig.put(f"t{number}", 1)
        rig.progress.commit("books", f"t{number}", 0, 1)
    rig.look("t0")
    assert rig.table.looked_at == 10
    rig.look("t0")
    assert rig.table.looked_at == 0
    rig.put("t3", 1)
    assert rig.look("t3").messages == 1 and rig.table.looked_at == 1
    rig.look("t3")
    assert rig.table.looked_at == 1, "a group that is behind is looked at"
    rig.progress.commit("books", "t3", 0, 2)
    assert rig.look("t3").messages == 0
    rig.look("t3")
    assert rig.table.looked_at == 0
    rig.progress.reset("books", "t5", 0, 0)
    assert rig.look("t5").messages == 1, "offsets may go back"


def test_a_message_blocks_while_its_offset_does_not_move(rig: Rig) -> None:
    rig.put("orders", 5)
    rig.progress.commit("books", "orders", 0, 0)
    assert rig.look().blocked_since_ms is None, "nobody has fetched it"
    rig.progress.note_pull("books", "orders", 0, 3)
    since_ms = rig.look().blocked_since_ms
    rig.clock.advance_ms(60_000)
    assert since_ms is not None and rig.look().blocked_since_ms == since_ms
    rig.progress.commit("books", "orders", 0, 1)
    assert rig.look().blocked_since_ms == rig.clock.monotonic_ms()
    rig.progress.commit("books", "orders", 0, 5)
    assert rig.look().blocked_since_ms is None


def test_what_a_group_has_finished_only_grows(rig: Rig) -> None:
    rig.put("orders", 9)
    rig.progress.commit("books", "orders", 0, 2)
    assert rig.look().finished == 0, "before the first look nothing is known"
    rig.progress.commit("books", "orders", 0, 7)
    assert rig.look().finished == 5
    rig.progress.commit("books", "orders", 0, 3)
    assert rig.look().finished == 5
    rig.progress.commit("books", "orders", 0, 4)
    assert rig.look().finished == 6


def test_groups_and_topics_that_go_are_forgotten(rig: Rig) -> None:
    rig.put("orders", 2)
    rig.progress.commit("books", "orders", 0, 0)
    rig.look()
    rig.store.delete_topic("orders")
    assert rig.look().messages == 0
    rig.progress.forget_topic("orders")
    all_steps(rig.table.refresh())  # type: ignore[arg-type]
    assert rig.table.groups == {}


def test_offsets_beyond_the_end_and_negative_ones_are_no_lag(rig: Rig) -> None:
    rig.put("orders", 2)
    rig.progress.reset("books", "orders", 0, 99)
    assert rig.look().messages == 0
    rig.progress.reset("books", "orders", 0, -1)
    assert rig.look().messages == 2


def test_the_worst_queues_are_the_worst(rig: Rig) -> None:
    for number in range(WORST_MAX + 300):
        rig.store.append([Draft(topic="orders", queue_id=number, body=b"")] * (1 + number % 7))
        rig.progress.commit("books", "orders", number, 0)
    rig.store.flush()
    rig.look()
    worst = all_steps(rig.table.worst())  # type: ignore[arg-type]
    assert len(worst) == WORST_MAX and worst[0].messages == 7  # type: ignore[arg-type, index]
