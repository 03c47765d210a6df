"""Planning: every offset of a range in exactly one partition, limits in proportion, nothing lost without a word."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.model.queue import QueueId
from pyromq.pipeline.core.offsets import HeldRange, OffsetRange, Offsets, from_tree, to_tree, total
from pyromq.pipeline.reading.plan import (
    BatchLimits,
    backlog_of,
    batch_end,
    is_worth_a_batch,
    losses_before,
    plan_partitions,
    planned_ranges,
    rows_allowed,
    with_new_queues,
)


def queue(number: int, topic: str = "orders") -> QueueId:
    return QueueId(topic, "broker-a", number)


def ranges(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange(queue(number), 100, 100 + size) for number, size in enumerate(sizes)]


# --- offsets ---

_offsets = st.dictionaries(
    st.builds(QueueId, st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 12)), st.integers(0, 1 << 60)
)


@given(_offsets, st.randoms())
def test_equal_offsets_have_the_same_text(offsets: Offsets, rng: object) -> None:
    shuffled = list(offsets.items())
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert json.dumps(to_tree(dict(shuffled))) == json.dumps(to_tree(offsets))
    assert from_tree(json.loads(json.dumps(to_tree(offsets)))) == offsets


def test_queues_are_in_the_order_of_their_numbers() -> None:
    assert list(to_tree({queue(10): 1, queue(9): 2})["orders"]["broker-a"]) == ["9", "10"]


# --- partitions ---

_ranges = st.lists(st.integers(0, 400), min_size=1, max_size=12).map(lambda sizes: ranges(*sizes))
_maybe = st.one_of(st.none(), st.integers(1, 60))


@given(_ranges, _maybe, _maybe, _maybe)
def test_every_offset_is_in_exactly_one_partition(
    wanted: list[OffsetRange], count_min: int | None, count_max: int | None, rows_max: int | None
) -> None:
    planned = plan_partitions(wanted, count_min=count_min, count_max=count_max, rows_max=rows_max)
    seen = Counter((each.queue, offset) for part in planned for each in part for offset in range(each.start, each.end))
    assert set(seen.values()) <= {1}
    assert set(seen) == {(each.queue, offset) for each in wanted for offset in range(each.start, each.end)}
    assert all(part and all(map(len, part)) for part in planned), "a partition or a range of it is empty"
    if rows_max is not None:
        assert all(total(part) <= rows_max for part in planned)
    elif count_max is not None:
        assert len(planned) <= count_max
    assert planned == plan_partitions(wanted, count_min=count_min, count_max=count_max, rows_max=rows_max)


def test_one_partition_per_queue() -> None:
    assert plan_partitions(ranges(5, 0, 7)) == [(OffsetRange(queue(0), 100, 105),), (OffsetRange(queue(2), 100, 107),)]


def test_large_queues_are_split_to_reach_a_number_of_partitions() -> None:
    planned = plan_partitions(ranges(900, 100), count_min=10)
    assert Counter(part[0].queue.number for part in planned) == {0: 9, 1: 1}
    assert {total(part) for part in planned} == {100}


def test_small_queues_are_grouped_evenly() -> None:
    planned = plan_partitions(ranges(*[10] * 8, 80), count_max=2)
    assert sorted(map(total, planned)) == [80, 80]


def test_a_bound_of_rows_beats_a_bound_of_partitions() -> None:
    planned = plan_partitions(ranges(100, 100), count_max=2, rows_max=30)
    assert len(planned) == 8
    assert max(map(total, planned)) <= 30


# --- how far a batch goes ---


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=8), st.integers(1, 500))
def test_a_batch_takes_in_proportion(sizes: list[int], rows_max: int) -> None:
    start = {queue(number): 50 for number in range(len(sizes))}
    latest = {queue(number): 50 + size for number, size in enumerate(sizes)}
    end = batch_end(start, latest, rows_max)
    taken = {each: end[each] - start[each] for each in start}
    assert all(0 <= taken[each] <= latest[each] - 50 for each in start)
    assert all(taken[each] > 0 for each in backlog_of(start, latest)), "a small queue starves"
    assert sum(taken.values()) <= max(rows_max, 0) + len(sizes)
    if sum(sizes) <= rows_max:
        assert end == latest


def test_proportions() -> None:
    start, latest = {queue(0): 0, queue(1): 0, queue(2): 0}, {queue(0): 900, queue(1): 99, queue(2): 1}
    assert batch_end(start, latest, 100) == {queue(0): 90, queue(1): 9, queue(2): 1}


def test_without_limit_a_batch_takes_all_and_never_goes_back() -> None:
    start = {queue(0): 5, queue(1): 9, queue(2): 3}
    assert batch_end(start, {queue(0): 8, queue(1): 7}, None) == {queue(0): 8, queue(1): 9, queue(2): 3}


def test_bytes_are_turned_into_rows_by_average_sizes() -> None:
    ahead = {queue(0): 1000, queue(0, "big"): 1000}
    sizes = {"orders": 100.0, "big": 900.0}
    assert rows_allowed(BatchLimits(bytes_max=100_000), ahead, sizes) == 200
    assert rows_allowed(BatchLimits(bytes_max=100_000, rows_max=50), ahead, sizes) == 50
    assert rows_allowed(BatchLimits(bytes_max=5_000_000), ahead, sizes) == 2000
    assert rows_allowed(BatchLimits(bytes_max=1), ahead, sizes) == 1
    assert rows_allowed(BatchLimits(), ahead, sizes) is None


@pytest.mark.parametrize(
    ("rows", "waited_ms", "worth"),
    [(0, 99_999, False), (9, 0, False), (10, 0, True), (1, 4_999, False), (1, 5_000, True)],
)
def test_few_messages_wait_for_more_but_not_for_ever(rows: int, waited_ms: int, worth: bool) -> None:
    assert is_worth_a_batch(BatchLimits(rows_min=10, delay_ms_max=5_000), rows, waited_ms) is worth


def test_new_queues_are_noted_at_their_beginning() -> None:
    held = {queue(0): HeldRange(0, 50), queue(1): HeldRange(7, 90)}
    assert with_new_queues({queue(0): 20}, held) == {queue(0): 20, queue(1): 7}


# --- what is gone ---


def test_nothing_is_lost_within_the_queue() -> None:
    start = {queue(0): 3, queue(1): 9}
    assert losses_before(start, {queue(0): HeldRange(3, 9), queue(1): HeldRange(3, 9)}) == ([], start)


def test_losses_are_told_and_mended() -> None:
    start = {queue(0): 3, queue(1): 9, queue(2): 4}
    losses, mended = losses_before(start, {queue(0): HeldRange(5, 9), queue(1): HeldRange(1, 2)})
    assert mended == {queue(0): 5, queue(1): 1, queue(2): 4}
    assert [loss.split(" of topic")[0] for loss in losses] == ["queue 0", "queue 1", "queue 2"]
    assert "begins at 5, offsets 3 to 5 are gone" in losses[0]
    assert "ends at 2, before" in losses[1]
    assert "no longer exists" in losses[2]


def test_a_planned_batch_is_read_as_far_as_it_is_there() -> None:
    start, end = {queue(0): 0, queue(1): 0, queue(2): 0, queue(3): 5}, {queue(n): 10 for n in range(4)}
    held = {queue(0): HeldRange(0, 10), queue(1): HeldRange(4, 20), queue(3): HeldRange(0, 8)}
    found, losses = planned_ranges(start, end, held)
    assert found == [OffsetRange(queue(0), 0, 10), OffsetRange(queue(1), 4, 10), OffsetRange(queue(3), 5, 8)]
    assert len(losses) == 3


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30), st.integers(0, 30), st.booleans())
def test_what_is_not_read_is_always_told(start: int, end: int, first: int, size: int, is_first: bool) -> None:
    found, losses = planned_ranges(
        {queue(0): start}, {queue(0): end}, {queue(0): HeldRange(first, first + size)}, is_first=is_first
    )
    read = {offset for each in found for offset in range(each.start, each.end)}
    assert read <= set(range(first, first + size)), "it is not there"
    if start <= end:
        assert read <= set(range(start, end))
        assert bool(losses) == (read != set(range(start, end)))
    else:
        assert losses


def test_a_start_beyond_the_end_of_the_first_batch_reads_nothing() -> None:
    found, losses = planned_ranges({queue(0): 40}, {queue(0): 5}, {queue(0): HeldRange(0, 40)}, is_first=True)
    assert found == []
    assert "its start moved to 40" in losses[0]


def test_a_queue_that_was_made_anew_is_read_from_its_beginning() -> None:
    found, losses = planned_ranges({queue(0): 40}, {queue(0): 5}, {queue(0): HeldRange(0, 5)})
    assert found == [OffsetRange(queue(0), 0, 5)]
    assert losses


def test_a_queue_without_start_is_only_noted() -> None:
    assert planned_ranges({}, {queue(0): 5}, {queue(0): HeldRange(5, 9)}) == ([], [])
