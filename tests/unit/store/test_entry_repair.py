"""A bit of a queue file that flips while the broker runs: the log is the truth, and no message is missed or misread."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from pyromq.errors import CorruptRecordError
from pyromq.store.message_store import MessageStore, Placed
from pyromq.store.read_result import ReadStatus
from pyromq.store.scrub import Scrub
from pyromq.store.settings import StoreSettings
from pyromq.testing import FaultyDisk, ManualClock
from pyromq.wire.record import Draft, split_records

ROOT = Path("/store")
SMALL = StoreSettings(segment_bytes=4096, queue_file_entries=16, index_slots=16, index_entries=64)
ENTRY_BITS = 20 * 8
COUNT = 24


class Bench:
    """Messages of two queues in turn, in several files; everything was there when the store was opened."""

    def __init__(self, settings: StoreSettings = SMALL, *, reopened: bool = True) -> None:
        self.disk, self.clock, self.settings = FaultyDisk(), ManualClock(), settings
        self.open()
        self.places: list[Placed] = []
        for number in range(COUNT):
            self.places += self.store.append([Draft(topic="orders", queue_id=0, body=self.body(number))])
            self.store.append([Draft(topic="others", queue_id=0, body=b"x" * (40 + number))])
        self.store.flush()
        self.store.seal()
        if reopened:
            self.store.close()
            self.open()

    def open(self) -> None:
        self.store = MessageStore.open(ROOT, self.settings, disk=self.disk, clock=self.clock)
        self.scrub = Scrub(self.store, self.disk, self.clock, lambda job: job())

    @staticmethod
    def body(number: int) -> bytes:
        return b"%03d" % number * 30  # records of one size: an entry may point at another message of its queue

    def flip_entry(self, number: int, bit: int) -> None:
        name = f"{number // 16 * 16 * 20:020}"
        self.disk.flip_bit(ROOT / "consumequeue" / "orders" / "0" / name, number % 16 * ENTRY_BITS + bit)

    def flip_record(self, number: int) -> None:
        segment = self.store.log.segments.holding(self.places[number].position)
        assert segment is not None
        self.disk.flip_bit(segment.path, (self.places[number].position - segment.base + 95) * 8)

    def bodies(self) -> list[bytes]:
        """What a consumer reads, from the first message to the last."""
        found: list[bytes] = []
        offset = 0
        while offset < COUNT:
            result = self.store.reader.read("orders", 0, offset, count_max=5)
            found += [record.body for record in split_records(result.to_bytes())]
            assert result.next_offset > offset, result.status
            offset = result.next_offset
        return found


ALL = [Bench.body(number) for number in range(COUNT)]


@pytest.mark.parametrize("number", [0, 1, 7, 15, 16, COUNT - 1])
def test_an_entry_that_points_elsewhere_is_corrected_from_the_log(
    number: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Each bit of position and size: no record there, another message, a place in front of the log, or behind it."""
    bench = Bench()
    bench.scrub.holds_reads = True
    for bit in range(12 * 8):
        bench.flip_entry(number, bit)
        assert bench.bodies() == ALL, bit
    assert bench.scrub.damaged == [], "nothing is wrong with the log"
    corrected = [each for each in caplog.records if "corrected from the log" in each.message]
    assert len(corrected) == 12 * 8 and all(each.levelno == logging.ERROR for each in corrected)


def test_a_corrected_entry_is_what_it_was_and_its_file_is_trusted_at_the_next_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    before = bench.store.queues["orders", 0].entry(7)
    bench.flip_entry(7, 60)
    assert bench.store.queues["orders", 0].entry(7) != before
    assert bench.bodies() == ALL and bench.store.queues["orders", 0].entry(7) == before
    bench.store.close()
    caplog.clear()
    bench.open()
    assert bench.bodies() == ALL and "rebuilt" not in caplog.text


def test_several_entries_beside_each_other_are_corrected() -> None:
    bench = Bench()
    for number in (5, 6, 7, 9):
        bench.flip_entry(number, 50)
    assert bench.bodies() == ALL


class RemadeBench(Bench):
    """The topic was deleted and made again: the log has two records for each offset, the older ones nobody's."""

    def __init__(self) -> None:
        super().__init__(reopened=False)
        self.store.delete_topic("orders")
        drafts = [Draft(topic="orders", queue_id=0, body=self.body(number + 500)) for number in range(COUNT)]
        self.places = self.store.append(drafts)
        self.store.flush()
        self.store.seal()
        self.store.close()
        self.open()


REMADE = [Bench.body(number + 500) for number in range(COUNT)]


def test_a_damaged_first_record_is_not_taken_for_one_of_a_deleted_topic() -> None:
    bench = RemadeBench()
    bench.flip_record(0)
    bench.scrub.holds_reads = True
    result = bench.store.reader.read("orders", 0, 0, count_max=5)
    assert (result.status, result.next_offset) == (ReadStatus.OFFSET_OVERFLOW_ONE, 0)
    bench.scrub.holds_reads = False
    assert bench.bodies() == REMADE[1:]


@pytest.mark.parametrize("bit", [3, 40, 62, 63, 95])
def test_the_first_entry_of_a_topic_that_was_made_again_is_corrected(bit: int) -> None:
    bench = RemadeBench()
    bench.flip_entry(0, bit)
    assert bench.bodies() == REMADE


@pytest.mark.parametrize("holds_reads", [False, True])
def test_a_damaged_record_stays_damaged_where_it_is(holds_reads: bool) -> None:
    bench = Bench()
    bench.scrub.holds_reads = holds_reads
    bench.flip_record(7)
    result = bench.store.reader.read("orders", 0, 7, count_max=1)
    if holds_reads:
        assert (result.status, result.next_offset) == (ReadStatus.OFFSET_OVERFLOW_ONE, 7)
    else:
        assert result.status is ReadStatus.MESSAGE_WAS_REMOVING and result.next_offset == 8
    (damaged,) = bench.scrub.damaged
    assert (damaged.position, damaged.end - damaged.position) == (bench.places[7].position, bench.places[7].size)


def test_what_was_written_since_the_start_is_verified_once_it_is_cold() -> None:
    """A broker that runs for weeks reads from a disk, too."""
    bench = Bench(replace(SMALL, hot_bytes=2_000), reopened=False)
    bench.flip_record(3)
    assert bench.bodies() == [*ALL[:3], *ALL[4:]]
    assert [each.position for each in bench.scrub.damaged] == [bench.places[3].position]
    bench.flip_entry(5, 55)
    assert bench.bodies() == [*ALL[:3], *ALL[4:]]


def test_a_log_that_counts_offsets_in_another_way_is_served_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks like the wrong message is served if the log has no better one."""
    bench = Bench()
    queue, repair, place = bench.store.queues["orders", 0], bench.store.reader.scan._repair, bench.places[7]
    monkeypatch.setattr(repair, "_find", lambda *_: None)
    assert repair.verified(queue, 8, place.position, place.size) == (place.position, place.size)
    with pytest.raises(CorruptRecordError, match="another size"):
        repair.verified(queue, 8, place.position, place.size - 1)


def test_a_flipped_bit_is_corrected_however_far_away_the_neighbours_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quiet topic on a busy broker: what lies between two of its messages is more than may be walked."""
    bench = Bench()
    monkeypatch.setattr(bench.store.reader.scan._repair, "_find", lambda *_: None)
    for bit in range(12 * 8):
        bench.flip_entry(7, bit)
        assert bench.bodies() == ALL, bit


def test_the_log_is_walked_once_for_a_record_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.scrub.holds_reads = True
    repair, walks = bench.store.reader.scan._repair, list[int]()
    find = repair._find
    monkeypatch.setattr(
        repair, "_find", lambda queue, offset, entry: walks.append(offset) or find(queue, offset, entry)
    )
    bench.flip_record(7)
    for _ in range(3):
        assert bench.store.reader.read("orders", 0, 7).count == 0
    assert walks == [7]
    bench.flip_record(7)
    assert bench.store.reader.read("orders", 0, 7).count > 0, "mended"
