"""Files go, expired or by force: whatever some group has not read is counted first, and told or kept."""

from __future__ import annotations

import pytest

from pyromq.errors import DiskFullError
from pyromq.store import unread as unread_module
from pyromq.store.maintenance import Maintenance
from pyromq.store.unread import Readers, Unread
from pyromq.wire.record import Draft
from tests.unit.store.test_maintenance import HOUR_MS, Bench

CAPACITY = 1 << 30


class Told:
    """Groups, and what they were told."""

    def __init__(self, **offsets: int) -> None:
        self.offsets = offsets
        self.counts = 0
        self.gone: list[tuple[Unread, bool]] = []
        self.kept_files: list[tuple[str, list[Unread]]] = []

    def readers(self) -> Readers:
        self.counts += 1
        return lambda topic, queue_id: self.offsets if topic == "orders" else None

    def deleted(self, unread: list[Unread], *, forced: bool) -> None:
        self.gone += [(each, forced) for each in unread]

    def kept(self, unread: list[Unread], file: str) -> None:
        self.kept_files.append((file, unread))

    def total(self, group: str) -> int:
        return sum(each.messages for each, _ in self.gone if each.group == group)


class UnreadBench(Bench):
    def __init__(self, groups: Told, **settings: object) -> None:
        self.groups = groups
        super().__init__(**settings)

    def open(self) -> None:
        super().open()
        self.maintenance = Maintenance(self.store, self.disk, self.clock, groups=self.groups)

    def fill_disk(self, percent: int) -> None:
        self.disk.capacity_bytes, self.disk.other_bytes = CAPACITY, CAPACITY * percent // 100

    def missing(self) -> int:
        known = self.store.reader.range_of("orders", 0)
        assert known is not None
        return known.first


def test_what_a_full_disk_takes_is_told_for_each_group_that_has_not_read_it() -> None:
    bench = UnreadBench(Told(fast=80, slow=3, never=0))
    bench.send(80)
    bench.fill_disk(86)
    for _ in range(3):
        bench.tick(1_000)
    gone = bench.missing()
    assert gone > 20
    assert (bench.groups.total("fast"), bench.groups.total("slow")) == (0, gone - 3)
    assert bench.groups.total("never") == gone
    assert all(forced for _, forced in bench.groups.gone)


def test_what_expires_unread_is_told_too_and_once() -> None:
    bench = UnreadBench(Told(slow=5), keep_ms=HOUR_MS, delete_hours=tuple(range(24)))
    bench.send(60)
    bench.clock.advance_ms(HOUR_MS)
    for _ in range(5):
        bench.tick(10_000)
    assert bench.groups.total("slow") == bench.missing() - 5 > 0
    assert not any(forced for _, forced in bench.groups.gone)


def test_what_all_groups_have_read_goes_without_a_word() -> None:
    bench = UnreadBench(Told(fast=60), keep_ms=HOUR_MS, delete_hours=tuple(range(24)))
    bench.send(60)
    bench.clock.advance_ms(HOUR_MS)
    bench.tick(10_000)
    assert bench.missing() > 0 and bench.groups.gone == []


def test_messages_that_no_group_reads_are_counted_under_no_name() -> None:
    bench = UnreadBench(Told())
    bench.send(80)
    bench.fill_disk(86)
    bench.tick(1_000)
    assert bench.groups.total("") == bench.missing() > 0


def test_by_choice_unread_files_stay_and_the_full_disk_refuses_sends() -> None:
    bench = UnreadBench(Told(slow=30), delete_unread=False)
    bench.send(80)
    bench.fill_disk(91)
    for _ in range(30):
        bench.tick(1_000)
    assert 0 < bench.missing() <= 30, "what was read is deleted"
    ((file, unread),) = bench.groups.kept_files
    assert file == bench.store.log.segments.first.path.name and unread[0].group == "slow"
    with pytest.raises(DiskFullError):
        bench.send(1)
    assert bench.groups.gone == []
    bench.groups.offsets["slow"] = 80
    for _ in range(30):
        bench.tick(1_000)
    assert len(bench.store.log.segments) == 1


def test_by_choice_unread_files_outlive_their_age() -> None:
    bench = UnreadBench(Told(slow=0), delete_unread=False, keep_ms=HOUR_MS, delete_hours=tuple(range(24)))
    bench.send(60)
    bench.clock.advance_ms(HOUR_MS)
    for _ in range(5):
        bench.tick(10_000)
    assert bench.missing() == 0 and len(bench.groups.kept_files) == 1


def test_many_queues_are_counted_some_at_a_time_and_nothing_goes_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread_module, "_SEARCHES_MAX", 4)
    bench = UnreadBench(Told(slow=0))
    for _ in range(3):
        for queue_id in range(20):
            bench.store.append([Draft(topic="orders", queue_id=queue_id, body=b"x" * 700)])
    bench.store.flush()
    bench.fill_disk(86)
    first = bench.store.first_position
    for _ in range(4):
        bench.tick(250)
        assert bench.store.first_position == first
    bench.tick(250)
    assert bench.store.first_position > first
    assert bench.groups.counts <= 2, "the next file begins a count of its own"
    oldest = sum(each.messages for each, _ in bench.groups.gone)
    assert oldest == sum(
        bench.store.queues["orders", queue_id].first_at_or_after(bench.store.first_position) for queue_id in range(20)
    )


def test_a_count_by_force_is_not_disturbed_by_files_that_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread_module, "_SEARCHES_MAX", 1)
    bench = UnreadBench(Told(slow=0), keep_ms=HOUR_MS, delete_hours=tuple(range(24)))
    for _ in range(3):
        for queue_id in range(20):
            bench.store.append([Draft(topic="orders", queue_id=queue_id, body=b"x" * 700)])
    bench.store.flush()
    bench.clock.advance_ms(HOUR_MS)
    bench.fill_disk(86)
    first = bench.store.first_position
    for _ in range(25):
        bench.tick(1_000)
    assert bench.store.first_position > first
