"""History: three tiers, gaps that stay gaps, files that survive restarts and crashes, and bounds on everything."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.console.history.files import SampleJournal
from pyromq.console.history.keeper import History
from pyromq.console.history.rings import Ring
from pyromq.console.history.spans import DAY, RECENT, TIERS, WEEK, Tier, TimeSpan
from pyromq.testing import ManualClock

SMALL = Tier("small", 1_000, 16)


def sampled(history: History, clock: ManualClock, span_ms: int, *, every_ms: int = 5_000) -> None:
    for _ in range(span_ms // every_ms):
        clock.advance_ms(every_ms)
        history.add({"in": float(clock.now_ms() // 1000 % 100), "steady": 7.0})


@given(st.lists(st.tuples(st.integers(0, 200), st.floats(0, 1000, width=32)), max_size=60), st.integers(1, 20))
def test_a_ring_is_the_last_slots_of_a_dictionary(puts: list[tuple[int, float]], slots: int) -> None:
    ring, model = Ring(slots), dict[int, float]()
    for slot, value in puts:
        if slot > max(model, default=-1) - slots:
            model[slot] = value
        ring.put(slot, value)
        last = max(model, default=-1)
        assert {at: found for at in range(201) if (found := ring.get(at)) is not None} == {
            at: value for at, value in model.items() if at > last - slots
        }


def test_every_span_is_covered_by_its_tier() -> None:
    assert all(span.tier.span_ms >= span.ms for span in TimeSpan)
    assert [after.step_ms % before.step_ms for before, after in pairwise(TIERS)] == [0, 0]
    assert (TimeSpan.of("week"), TimeSpan.of("nonsense")) == (TimeSpan.WEEK, TimeSpan.QUARTER)


def test_coarse_tiers_are_means_of_fine_ones() -> None:
    clock = ManualClock(DAY.step_ms * 1_000)
    history = History(clock)
    for number in range(DAY.step_ms // RECENT.step_ms * 3):
        history.add({"in": float(number)})
        clock.advance_ms(RECENT.step_ms)
    history.add({"in": 0.0})
    points = history.points("in", TimeSpan.DAY)
    assert [value for _, value in points] == [17.5, 53.5, 89.5], "36 samples of 5 seconds each"
    assert [at % DAY.step_ms for at, _ in points] == [0, 0, 0]


def test_what_was_not_sampled_is_a_gap_and_slow_samplers_are_none() -> None:
    clock = ManualClock(RECENT.step_ms * 1_000)
    history = History(clock)
    sampled(history, clock, 60_000)
    clock.advance_ms(120_000)
    sampled(history, clock, 60_000, every_ms=15_000)
    values = [value for _, value in history.points("steady", TimeSpan.QUARTER)]
    assert values == [7.0] * 12 + [None] + [7.0] * 4


def test_samples_survive_a_restart_of_the_console(tmp_path: Path) -> None:
    clock = ManualClock(WEEK.step_ms * 1_000)
    history = History(clock, tmp_path)
    history.load()
    sampled(history, clock, 3_600_000)
    before = {span: history.points("in", span) for span in TimeSpan}
    history.close()
    again = History(clock, tmp_path)
    again.load()
    assert {span: again.points("in", span) for span in TimeSpan} == before
    assert len(before[TimeSpan.WEEK]) == 4 and len(before[TimeSpan.DAY]) == 20


def test_a_process_that_is_killed_loses_the_open_slot_at_most(tmp_path: Path) -> None:
    clock = ManualClock(DAY.step_ms * 1_000)
    history = History(clock, tmp_path)
    sampled(history, clock, 600_000)
    known = history.points("in", TimeSpan.QUARTER)
    again = History(clock, tmp_path)
    again.load()
    assert again.points("in", TimeSpan.QUARTER) == known[:-1]
    sampled(again, clock, 600_000)
    history.close()
    again.close()
    assert again.points("in", TimeSpan.DAY)[0][0] == DAY.step_ms * 1_000, "a slot that was half over is not lost either"


def test_any_cut_and_any_damage_of_a_file_leaves_what_is_before_it(tmp_path: Path) -> None:
    journal = SampleJournal(tmp_path, SMALL, 1 << 20)
    for slot in range(2):
        journal.append(slot, {"a": slot, "b": math.pi})
    journal.close()
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    samples = list(SampleJournal(tmp_path, SMALL, 1 << 20).read(0))
    assert samples == [(0, {"a": 0.0, "b": math.pi}), (1, {"a": 1.0, "b": math.pi})]
    rng = Random(7)
    for at in range(len(whole)):
        path.write_bytes(whole[:at])
        found = list(SampleJournal(tmp_path, SMALL, 1 << 20).read(0))
        assert found == samples[: len(found)] and len(found) < 2
        path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << rng.randrange(8))]) + whole[at + 1 :])
        found = list(SampleJournal(tmp_path, SMALL, 1 << 20).read(0))
        assert found == samples[: len(found)] and len(found) < 2, f"byte {at}"


def test_files_are_bounded_in_bytes_and_in_age(tmp_path: Path) -> None:
    journal = SampleJournal(tmp_path, SMALL, 8_000)
    for slot in range(1_000):
        journal.append(slot, {f"number {each}": 1.0 for each in range(10)})
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 8_000
    journal.close()
    slots = [slot for slot, _ in journal.read(0)]
    assert slots == list(range(slots[0], 1_000)), "the newest are there, none twice"
    assert len(slots) >= SMALL.slots, "the bound leaves room for all of the tier's time"
    young = SampleJournal(tmp_path / "young", SMALL, 1 << 20)
    for slot in range(1_000):
        young.append(slot, {"a": 1.0})
    young.close()
    assert len(list((tmp_path / "young").iterdir())) <= 10, "old segments go although there is room"


def test_memory_is_bounded_in_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyromq.console.history.keeper.NAMES_MAX", 10)
    clock = ManualClock()
    history = History(clock)
    for number in range(100):
        history.add({f"topic {number}": 1.0, "cluster in": 1.0})
    assert len(history._rings) == 10
    assert history.points("cluster in", TimeSpan.QUARTER), "what is sampled still is kept"


def test_a_disk_that_refuses_costs_no_chart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "samples").write_text("a file where the folder should be")
    clock = ManualClock(1_000_000)
    history = History(clock, tmp_path / "samples")
    history.load()
    sampled(history, clock, 60_000)
    assert len(history.points("in", TimeSpan.QUARTER)) == 12
    assert caplog.text.count("samples are not kept") == 1


def test_a_clock_that_was_ahead_leaves_nothing_of_the_future(tmp_path: Path) -> None:
    clock = ManualClock(DAY.step_ms * 1_000)
    ahead = History(ManualClock(clock.now_ms() + 10 * 86_400_000), tmp_path)
    ahead.add({"in": 1.0})
    ahead.close()
    history = History(clock, tmp_path)
    history.load()
    assert history.points("in", TimeSpan.QUARTER) == []


@pytest.mark.parametrize("back_ms", [10_000, 10 * 60_000, 3_600_000, 8 * 86_400_000])
def test_a_clock_that_is_set_back_goes_on_with_its_samples(tmp_path: Path, back_ms: int) -> None:
    clock = ManualClock(DAY.step_ms * 10_000)
    history = History(clock, tmp_path)
    sampled(history, clock, 20 * 60_000)
    clock.set_ms(clock.now_ms() - back_ms)
    now_ms = clock.now_ms()
    sampled(history, clock, 60_000)
    points = history.points("in", TimeSpan.QUARTER)
    since = [value for at, value in points if at > now_ms]
    assert since == [float(at // 1000 % 100) for at in range(now_ms + 5_000, now_ms + 60_001, 5_000)]
    assert points[-1][0] == clock.now_ms(), "what the clock showed before is not the future of the chart"
    sampled(history, clock, 2 * DAY.step_ms)
    assert history.points("steady", TimeSpan.DAY)[-1][1] == 7.0
    history.close()
    again = History(clock, tmp_path)
    again.load()
    assert [value for at, value in again.points("in", TimeSpan.QUARTER) if now_ms < at <= now_ms + 60_000] == since


@given(st.lists(st.integers(0, 60), max_size=40), st.integers(1, 20), st.integers(-30, 60))
def test_a_rewound_ring_has_nothing_newer(slots: list[int], size: int, back_to: int) -> None:
    ring = Ring(size)
    for slot in slots:
        ring.put(slot, float(slot))
    before = {slot: ring.get(slot) for slot in range(61)}
    ring.rewind(back_to)
    kept = {slot: value if slot <= back_to else None for slot, value in before.items()}
    assert {slot: ring.get(slot) for slot in range(61)} == kept
    ring.put(back_to + 1, 5.0)
    assert ring.get(back_to + 1) == 5.0


def test_a_chart_begins_with_its_span_or_with_its_first_sample_while_there_are_few() -> None:
    now_ms, minute_ms = 100 * 86_400_000, 60_000
    assert TimeSpan.QUARTER.begin_ms(now_ms, now_ms - 90 * minute_ms) == now_ms - 15 * minute_ms
    assert TimeSpan.QUARTER.begin_ms(now_ms, now_ms - 5 * minute_ms) == now_ms - 5 * minute_ms
    assert TimeSpan.QUARTER.begin_ms(now_ms, now_ms - 1_000) == now_ms - 2 * minute_ms
