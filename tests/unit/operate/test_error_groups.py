"""Failed messages by error: what is one error, what is told of it, and how much is read."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.model.failure import Failure, FailureStory, story_after
from pyromq.operate.error_groups import (
    GROUPS_MAX,
    NAMES_MAX,
    OTHERS,
    Told,
    grouped,
    newest_of,
    reported_by,
    shares,
    trend_of,
)
from pyromq.operate.explaining.facts import GroupFacts, StoredCopy
from pyromq.operate.explaining.group_story import attempts_of


def failure(name: str, attempt: int = 1, time_ms: int = 100, **more: str) -> Failure:
    return Failure(error_class=name, stack=f"hash of {name}", text=f"{name} at {time_ms}", attempt=attempt,
                   time_ms=time_ms, **more)  # fmt: skip


def story(*some: Failure) -> FailureStory:
    told: FailureStory | None = None
    for each in some:
        told = story_after(told, each)
    assert told is not None
    return told


def letter(*some: Failure, topic: str = "orders", is_redriven: bool = False) -> Told:
    return reported_by(story(*some).properties(), stored_ms=999, topic=topic, place=f"at {some[-1].time_ms}",
                   is_redriven=is_redriven)  # fmt: skip


def test_letters_of_one_class_and_stack_are_one_error() -> None:
    found = grouped(
        [
            letter(failure("A", time_ms=5), failure("A", 2, time_ms=10, version="1", host="a"), is_redriven=True),
            letter(failure("B", time_ms=1), failure("A", 2, time_ms=20, version="2", host="b"), topic="bills"),
            letter(failure("B", time_ms=30)),
        ]
    )
    first, second = found
    assert (first.error_class, first.count, first.redriven) == ("A", 2, 1)
    assert (first.first_ms, first.last_ms, first.text, first.sample_id) == (5, 20, "A at 20", "at 20")
    assert (first.topics, first.versions, first.hosts) == (("bills", "orders"), ("1", "2"), ("a", "b"))
    assert (second.error_class, second.first_ms, second.last_ms) == ("B", 30, 30)


def test_what_older_consumers_and_others_tell_has_groups_too() -> None:
    def reason(text: str) -> Told:
        return reported_by({"DLQ_ERROR": text}, stored_ms=7, topic="t", place="p")

    silent = reported_by({}, stored_ms=8, topic="t", place="p")
    found = grouped([reason("order 1 is gone"), reason("order 2 is gone"), reason("no customer"), silent])
    assert [(each.error_class, each.text, each.count) for each in found] == [
        ("", "order 1 is gone", 2),
        ("", "", 1),
        ("", "no customer", 1),
    ]
    assert found[0].last_ms == 7 and newest_of({}) == Failure(error_class="")


def test_groups_and_names_are_bounded() -> None:
    many = [letter(failure(f"E{number}", version=f"v{number}")) for number in range(GROUPS_MAX + 5)]
    found = grouped(many)
    assert len(found) == GROUPS_MAX and found[-1].error_class == OTHERS and found[-1].count == 6
    assert sum(each.count for each in found) == len(many)
    one = grouped([letter(failure("E", version=f"v{number:03}")) for number in range(100)])
    assert len(one[0].versions) == NAMES_MAX
    assert grouped([]) == ()


@settings(deadline=None)
@given(st.lists(st.integers(0, 1_000), max_size=20), st.integers(0, 5_000))
def test_shares_stay_within_the_budget_and_leave_nothing_unread_without_need(sizes: list[int], budget: int) -> None:
    found = shares(sizes, budget)
    assert all(0 <= share <= size for share, size in zip(found, sizes, strict=True))
    assert sum(found) <= budget
    if sum(sizes) <= budget:
        assert found == sizes
    else:
        assert sum(found) > budget - max(1, len(sizes))


@pytest.mark.parametrize("order", [1, -1])
def test_each_attempt_is_told_once_with_its_whole_text(order: int) -> None:
    """Copies that wait, that are due and that are dead tell of the same attempts."""
    first = msgspec.structs.replace(failure("A", 1), text="x" * 900)
    second, third = failure("B", 2), failure("C", 3)
    stories = [story(first), story(first, second), story(first, second, third)]
    copies = [
        StoredCopy(topic="t", broker="b", queue=0, offset=n, stored_ms=1, failure=each)
        for n, each in enumerate(stories)
    ][::order]
    silent = StoredCopy(topic="t", broker="b", queue=0, offset=9, stored_ms=1)
    facts = GroupFacts(group="g", waiting=tuple(copies[:2]), retries=(silent, *copies[:1]), dead=tuple(copies[2:]))
    assert attempts_of(facts) == (first, second, third)


def test_the_trend_of_each_error_has_the_time_of_all_of_them() -> None:
    assert trend_of([5], 5, 5) == ()
    parts = trend_of([0, 1, 99, 100], 0, 100)
    assert (len(parts), parts[0], parts[-1], sum(parts)) == (24, 2, 2, 4)
