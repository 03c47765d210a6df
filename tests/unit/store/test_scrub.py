"""A bit that flips in the sealed middle of a log: found, told, remembered, and mended by the same bytes alone."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq.errors import CorruptRecordError
from pyromq.store.cutting import cut_log
from pyromq.store.message_store import MessageStore
from pyromq.store.read_result import ReadStatus
from pyromq.store.scrub import HOLD_MS, Scrub, mend, read_note
from pyromq.store.settings import StoreSettings
from pyromq.testing import CrashMode, FaultyDisk, ManualClock
from pyromq.wire.record import Draft, split_records

ROOT = Path("/store")
SMALL = StoreSettings(segment_bytes=4096, index_slots=16, index_entries=64, scrub_bytes_s=1024)
SIZE = 200


class Bench:
    """A sealed log of three files, and what looks at it."""

    def __init__(self, settings: StoreSettings = SMALL) -> None:
        self.clock, self.disk, self.settings = ManualClock(), FaultyDisk(), settings
        self.open()
        self.places = [
            self.store.append([Draft(topic="orders", queue_id=0, body=b"%03d" % number * 30)])[0]
            for number in range(60)
        ]
        self.store.seal()

    def open(self) -> None:
        self.store = MessageStore.open(ROOT, self.settings, disk=self.disk, clock=self.clock)
        self.scrub = Scrub(self.store, self.disk, self.clock, lambda job: job())

    def reopen(self) -> None:
        self.store.close()
        self.open()

    def cut(self, number: int) -> None:
        """From that message on, as a replica does that comes under another lease."""
        self.store.close()
        position = self.places[number].position
        assert cut_log(self.disk, ROOT, self.settings, self.clock, position, number=2, reason="another master")
        self.open()

    def flip(self, number: int) -> None:
        """One bit in the body of that message."""
        at = self.places[number].position + 100
        segment = self.store.log.segments.holding(at)
        assert segment is not None
        file = segment.open_once()
        (old,) = file.read_at(at - segment.base, 1)
        file.write_at(at - segment.base, bytes((old ^ 4,)))

    def pass_through(self) -> None:
        before = self.scrub.passes
        for _ in range(200):
            self.clock.advance_ms(1_000)
            self.scrub.tick()
            if self.scrub.passes > before:
                return
        raise AssertionError("no end")

    def bytes_of(self, number: int) -> bytes:
        place = self.places[number]
        return bytes(self.store.records.bytes_at(place.position, place.size))


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.store.close()


def test_a_sound_log_is_looked_at_in_pieces_and_then_rests(bench: Bench) -> None:
    assert len(bench.store.log_segments()) > 2 and bench.scrub.progress == 0
    bench.clock.advance_ms(1_000)
    bench.scrub.tick()
    bench.scrub.tick()
    assert 0 < bench.scrub.progress < 1
    bench.pass_through()
    assert (bench.scrub.passes, bench.scrub.damaged, bench.store.health.damage) == (1, [], "")
    for _ in range(100):
        bench.clock.advance_ms(1_000)
        bench.scrub.tick()
    assert bench.scrub.passes == 1
    bench.clock.advance_ms(3_600_000)
    bench.pass_through()
    assert bench.scrub.passes == 2


def test_a_flipped_bit_is_found_told_once_and_remembered(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.flip(30)
    place = bench.places[30]
    with caplog.at_level(logging.ERROR):
        bench.pass_through()
        bench.clock.advance_ms(3_600_000)
        bench.pass_through()
    (found,) = bench.scrub.damaged
    assert (found.position, found.end) == (place.position, place.position + place.size)
    assert f"position {place.position}" in bench.store.health.damage
    assert [record.levelname for record in caplog.records if "damaged on disk" in record.message] == ["ERROR"]
    bench.reopen()
    assert bench.scrub.damaged == [found] and bench.store.health.damage
    note = read_note(bench.disk, ROOT)
    assert note is not None and note.damaged == (found,) and note.passes == 2
    assert bench.scrub.facts()["storeDamagedBytes"] == place.size


def test_a_log_that_was_cut_and_grew_again_is_not_damaged(bench: Bench) -> None:
    bench.pass_through()
    bench.cut(57)
    bench.clock.advance_ms(1_000)
    bench.scrub.tick()
    bench.store.append([Draft(topic="orders", queue_id=0, body=b"another" * 70) for _ in range(8)])
    bench.reopen()
    bench.pass_through()
    assert bench.scrub.damaged == [], "records begin elsewhere than before the cut"


def test_damage_that_was_cut_is_forgotten(bench: Bench) -> None:
    bench.flip(58)
    bench.pass_through()
    assert bench.scrub.damaged
    bench.cut(57)
    assert bench.scrub.damaged == [] and not bench.store.health.damage


def test_the_same_bytes_mend_it_in_any_pieces(bench: Bench) -> None:
    whole = bench.bytes_of(30) + bench.bytes_of(31)
    bench.flip(30)
    bench.flip(31)
    bench.pass_through()
    ranges = list(bench.scrub.damaged)
    assert len(ranges) in (1, 2)
    position, buffer = ranges[0].position, bytearray()
    for at in range(0, len(whole), 7):
        buffer += whole[at : at + 7]
        taken = mend(bench.store, position, ranges[-1].end, buffer)
        del buffer[:taken]
        position += taken
    assert position == ranges[-1].end and bench.bytes_of(30) + bench.bytes_of(31) == whole
    for each in ranges:
        bench.scrub.mended(each.position)
    assert not bench.store.health.damage
    bench.reopen()
    assert not bench.scrub.damaged
    bench.clock.advance_ms(3_600_000)
    bench.pass_through()
    assert not bench.scrub.damaged


def test_other_bytes_change_nothing(bench: Bench) -> None:
    bench.flip(30)
    damaged = bench.bytes_of(30)
    bench.pass_through()
    (found,) = bench.scrub.damaged
    for other in (damaged, bench.bytes_of(31), bytes(len(damaged)), b"\xff" * len(damaged)):
        with pytest.raises(CorruptRecordError):
            mend(bench.store, found.position, found.end, other)
        assert bench.bytes_of(30) == damaged


def test_a_damaged_last_record_of_a_file_is_mended_with_the_mark_behind_it(bench: Bench) -> None:
    first = bench.store.log_segments()[0]
    number = max(n for n, place in enumerate(bench.places) if place.position < first.end)
    start = bench.places[number].position
    whole = first.open_once().read_at(start, first.size - start)
    bench.flip(number)
    bench.pass_through()
    (found,) = bench.scrub.damaged
    assert (found.position, found.end) == (start, first.end)
    assert mend(bench.store, start, found.end, whole) == found.end - start
    assert first.open_once().read_at(start, first.size - start) == whole


def test_what_is_not_sealed_is_left_to_recovery_and_what_is_deleted_is_forgotten(bench: Bench) -> None:
    (place,) = bench.store.append([Draft(topic="orders", queue_id=0, body=b"x" * 90)])
    bench.places.append(place)
    bench.flip(60)
    bench.flip(2)
    bench.pass_through()
    assert [each.position for each in bench.scrub.damaged] == [bench.places[2].position]
    bench.store.delete_oldest(1)
    bench.clock.advance_ms(1_000)
    bench.scrub.tick()
    assert not bench.scrub.damaged and not bench.store.health.damage


def test_a_rate_of_nothing_looks_at_nothing() -> None:
    bench = Bench(StoreSettings(segment_bytes=4096, index_slots=16, index_entries=64, scrub_bytes_s=0))
    bench.flip(30)
    for _ in range(50):
        bench.clock.advance_ms(1_000)
        bench.scrub.tick()
    assert (bench.scrub.position, bench.scrub.damaged) == (0, [])
    bench.store.close()


def test_a_note_that_cannot_be_read_is_begun_anew(bench: Bench) -> None:
    bench.flip(30)
    bench.pass_through()
    for name in bench.disk.names(ROOT / "config"):
        if name.startswith("scrub"):
            bench.disk.write(ROOT / "config" / name, b"{")
    bench.reopen()
    assert (bench.scrub.position, bench.scrub.damaged) == (0, [])
    bench.pass_through()
    assert len(bench.scrub.damaged) == 1


# --- what recovery passed over ---


def after_kill(bench: Bench, *numbers: int) -> list[bytes]:
    """The store ends without a seal, the messages change on disk, it is opened again; returns what they were."""
    whole = [bench.bytes_of(number) for number in numbers]
    for number in numbers:
        bench.flip(number)
    bench.disk = bench.disk.after_crash(CrashMode.KEEP)
    bench.open()
    return whole


def unsealed_bench(messages: int = 10, queues: int = 1) -> Bench:
    """Messages that are flushed and noted, and that no seal covers: recovery looks at all of them."""
    bench = Bench.__new__(Bench)
    bench.clock, bench.disk, bench.settings = ManualClock(), FaultyDisk(), SMALL
    bench.open()
    bench.places = [
        bench.store.append([Draft(topic="orders", queue_id=number % queues, body=b"%03d" % number * 30)])[0]
        for number in range(messages)
    ]
    bench.store.flush()
    bench.store.note_flushed()
    bench.store.write_entries()
    return bench


def bodies(bench: Bench, queue_id: int = 0) -> list[bytes]:
    """What a consumer gets of the queue."""
    found, offset = [], 0
    while True:
        result = bench.store.reader.read("orders", queue_id, offset)
        found += [record.body[:3] for record in split_records(result.to_bytes())]
        if result.next_offset <= offset:
            return found
        offset = result.next_offset


@pytest.mark.parametrize("numbers", [(0,), (4,), (9,), (3, 4), (0, 1), (8, 9)])
def test_a_message_that_recovery_passed_over_is_served_again_when_it_was_mended(numbers: tuple[int, ...]) -> None:
    bench = unsealed_bench()
    wanted = [b"%03d" % number for number in range(10)]
    whole = after_kill(bench, *numbers)
    assert bodies(bench) == [body for number, body in enumerate(wanted) if number not in numbers]
    assert bench.store.health.damage, "known from the start, not only when the scrub has been there"
    for damaged in list(bench.scrub.damaged):
        data = b"".join(
            each
            for number, each in zip(numbers, whole, strict=True)
            if bench.places[number].position >= damaged.position
        )
        assert mend(bench.store, damaged.position, damaged.end, data) == damaged.end - damaged.position
        bench.scrub.mended(damaged.position)
    assert not bench.store.health.damage
    assert bodies(bench) == wanted
    last = bench.store.append([Draft(topic="orders", queue_id=0, body=b"010")])[0]
    bench.store.flush()
    assert last.offset == 10 and bodies(bench) == [*wanted, b"010"]
    bench.reopen()
    assert bodies(bench) == [*wanted, b"010"] and bench.store.recovered.intact
    bench.store.close()


def test_the_only_message_of_a_queue_gets_its_queue_back_unless_its_topic_was_deleted() -> None:
    for is_deleted in (False, True):
        bench = unsealed_bench(messages=4, queues=4)
        (whole,) = after_kill(bench, 2)
        assert bodies(bench, 2) == []
        if is_deleted:
            bench.store.delete_topic("orders")
        (damaged,) = bench.scrub.damaged
        mend(bench.store, damaged.position, damaged.end, whole)
        assert bodies(bench, 2) == ([] if is_deleted else [b"002"])
        bench.store.close()


# --- what a consumer comes upon before the scrub does ---


def damaged_and_sealed(*, holds_reads: bool) -> Bench:
    """Message 5 of ten is damaged, behind the back of recovery, and the scrub has not been there."""
    bench = unsealed_bench()
    bench.store.seal()
    bench.flip(5)
    bench.reopen()
    bench.scrub.holds_reads = holds_reads
    assert not bench.scrub.damaged
    return bench


def test_a_master_that_can_hand_over_passes_no_damaged_message_over(caplog: pytest.LogCaptureFixture) -> None:
    bench = damaged_and_sealed(holds_reads=True)
    before = bench.store.reader.read("orders", 0, 0)
    assert (before.status, before.count, before.next_offset) == (ReadStatus.FOUND, 5, 5)
    assert bench.store.health.damage, "its agent is told at once"
    held = bench.store.reader.read("orders", 0, 5)
    assert (held.status, held.count, held.next_offset) == (ReadStatus.OFFSET_OVERFLOW_ONE, 0, 5)
    assert caplog.text.count("found by a read") == 1 and bench.store.reader.scan.damaged_reads == 0
    behind = bench.store.reader.read("orders", 0, 6)
    assert (behind.status, behind.count) == (ReadStatus.FOUND, 4), "who is beyond it goes on"
    bench.clock.advance_ms(HOLD_MS)
    passed = bench.store.reader.read("orders", 0, 5)
    assert (passed.status, passed.count, passed.next_offset) == (ReadStatus.FOUND, 4, 10), "nobody took over"
    assert bench.store.reader.scan.damaged_reads == 1
    bench.store.close()


def test_reads_remember_no_more_damage_than_the_scrub_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyromq.store.scrub.RANGES_MAX", 0)
    bench = damaged_and_sealed(holds_reads=True)
    assert bench.store.reader.read("orders", 0, 5).next_offset == 10 and not bench.scrub.damaged
    assert bench.store.reader.scan.damaged_reads == 1
    bench.store.close()


def test_a_broker_alone_passes_it_over_and_says_so_at_once() -> None:
    bench = damaged_and_sealed(holds_reads=False)
    assert bodies(bench) == [b"%03d" % number for number in range(10) if number != 5]
    assert [each.position for each in bench.scrub.damaged] == [bench.places[5].position]
    bench.store.close()


def test_a_held_message_is_read_when_it_was_mended() -> None:
    bench = unsealed_bench()
    bench.store.seal()
    whole = bench.bytes_of(5)
    bench.flip(5)
    bench.reopen()
    bench.scrub.holds_reads = True
    assert bench.store.reader.read("orders", 0, 5).count == 0
    (damaged,) = bench.scrub.damaged
    mend(bench.store, damaged.position, damaged.end, whole)
    bench.scrub.mended(damaged.position)
    assert bench.store.reader.read("orders", 0, 5).count == 5 and not bench.store.health.damage
    bench.store.close()
