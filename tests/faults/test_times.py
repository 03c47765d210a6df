"""What the rounds measure: pauses of senders and consumers, and goals for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.times import PLANNED, UNPLANNED, Pauses, Timeline, meets


def timeline(**moments: list[float]) -> Timeline:
    """Things of these names happened at these moments."""
    each: Iterator[float] = iter([moment for name in moments for moment in moments[name]])
    found = Timeline(lambda: next(each))
    for name, there in moments.items():
        for _ in there:
            found.note(name)
    return found


def test_a_pause_begins_before_the_fault_and_ends_after_it() -> None:
    seen = timeline(plain=[1.0, 2.0, 9.0, 9.5])
    assert seen.longest_pause_s(["plain"], 3.0, 10.0) == 7.0


def test_what_was_slow_before_the_fault_does_not_count() -> None:
    seen = timeline(plain=[1.0, 6.0, 6.5, 7.0])
    assert seen.longest_pause_s(["plain"], 6.2, 7.2) == 0.5


def test_the_slowest_kind_counts() -> None:
    seen = timeline(plain=[1.0, 2.0, 3.0], transactions=[1.0, 6.0])
    assert seen.longest_pause_s(["plain", "transactions"], 1.5, 6.5) == 5.0


@pytest.mark.parametrize("moments", [[1.0], []])
def test_what_never_comes_again_is_a_pause_to_the_end(moments: list[float]) -> None:
    assert timeline(plain=moments).longest_pause_s(["plain"], 1.0, 21.0) == 20.0


def test_goals_are_of_the_middle_round_of_the_worst_and_of_failed_sends() -> None:
    assert meets(Pauses([5.0, 6.0, 9.9], [1.0]), UNPLANNED)
    assert not meets(Pauses([5.0, 6.1, 6.2], [1.0]), UNPLANNED), "the middle one is too slow"
    assert not meets(Pauses([5.0, 5.0, 10.1], [1.0]), UNPLANNED), "the worst one is too slow"
    assert not meets(Pauses([1.0], [6.5]), UNPLANNED), "consumers are too slow"
    assert not meets(Pauses([0.5], [0.5], errors=["a send failed"]), PLANNED)
    assert meets(Pauses([0.5], [0.5], unknown=1), UNPLANNED)
    assert not meets(Pauses([0.5], [0.5], unknown=1), PLANNED), "an ordered send lost its response"
