"""The check of a queue's history as one append-only log; ``make porcupine`` compares it with Porcupine."""

from __future__ import annotations

from random import Random

import pytest

from tests.sim.histories import NEVER, Operation, by_queue, is_one_log
from tests.sim.history import Delivery, History, Sent
from tests.sim.second_opinion import SPOILS, Spoil

GOOD = [
    Operation(0, "append", "a", 0, 10, 20),
    Operation(0, "append", "b", 1, 15, 30),  # beside the first one: either order would do
    Operation(0, "append", "c", 2, 40, NEVER),
    Operation(1, "read", "a", 0, 25, 25),
    Operation(1, "read", "c", 2, 60, 60),
    Operation(1, "read", "a", 0, 70, 70),
    Operation(0, "append", "d", 3, 80, 90),
    Operation(0, "append", "e", 4, 95, 99),
]


def test_a_log_is_one() -> None:
    assert is_one_log(GOOD) and is_one_log([])


@pytest.mark.parametrize("spoil", SPOILS, ids=lambda each: each.__name__)
def test_a_spoiled_one_is_not(spoil: Spoil) -> None:
    for seed in range(20):
        bad = spoil(GOOD, Random(seed))
        assert bad is not None and not is_one_log(bad), bad


def test_a_second_copy_has_its_place_where_it_was_read() -> None:
    history = History()
    queue = ("plain", "a", 0)
    history.sent["k"] = Sent("k", "plain", "plain", 1.0, done_s=2.0, status="ok", queue=queue, offset=5)
    history.sent["lost"] = Sent("lost", "plain", "plain", 1.5)
    history.deliveries += [
        Delivery("k", "work", "push0.1", 3.0, queue, 5, 1, "plain"),
        Delivery("k", "work", "push0.1", 3.0, queue, 6, 1, "plain"),
        Delivery("lost", "work", "push0.1", 3.0, queue, 4, 1, "plain"),
        Delivery("k", "work", "push0.1", 9.0, ("%RETRY%work", "a", 0), 0, 2, "plain"),
    ]
    found = by_queue(history)
    assert list(found) == ["plain-a-0"]
    appends = {(each.key, each.offset): (each.begin, each.end) for each in found["plain-a-0"] if each.kind == "append"}
    assert appends == {
        ("k", 5): (1_000_000, 2_000_000),
        ("k", 6): (1_000_000, NEVER),
        ("lost", 4): (1_500_000, NEVER),
    }
    assert is_one_log(found["plain-a-0"])
