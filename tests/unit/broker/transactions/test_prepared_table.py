"""The table of prepared messages, against a plain set."""

from __future__ import annotations

from random import Random

from pyromq.broker.transactions.prepared_table import CHECKS_MAX, PreparedTable


def test_what_is_not_known_waits_and_what_is_below_the_first_is_gone() -> None:
    table = PreparedTable(10)
    assert [table.is_waiting(offset) for offset in (9, 10, 99)] == [False, True, True]
    table.remove(9)
    assert (table.first, table.end, table.waiting) == (10, 10, 0)


def test_it_forgets_what_is_gone_in_front() -> None:
    table = PreparedTable(0)
    table.grow(5)
    for offset in (1, 0, 3):
        table.remove(offset)
    table.advance()
    assert (table.first, table.end, table.waiting) == (2, 5, 2)
    assert [table.is_waiting(offset) for offset in range(6)] == [False, False, True, False, True, True]
    table.remove(2)
    table.remove(4)
    table.advance()
    assert (table.first, table.end) == (5, 5)
    table.advance()
    assert table.first == 5


def test_checks_are_counted_up_to_what_a_byte_holds() -> None:
    table = PreparedTable(3)
    for _ in range(300):
        table.count_check(4)
    assert (table.checks(3), table.checks(4), table.checks(9)) == (0, CHECKS_MAX, 0)
    assert table.is_waiting(4), "however often its producer was asked"
    table.forget_checks(4)
    table.forget_checks(77)
    assert table.checks(4) == 0


def test_the_next_that_waits_lies_in_the_asked_range() -> None:
    table = PreparedTable(100)
    table.grow(110)
    for offset in (100, 101, 105):
        table.remove(offset)
    assert [table.next_waiting(offset, 110) for offset in (0, 101, 104, 105, 109, 110)] == [
        102,
        102,
        104,
        106,
        109,
        None,
    ]
    assert table.next_waiting(100, 102) is None
    assert table.next_waiting(0, 50) is None


def test_any_history_agrees_with_a_set() -> None:
    for seed in range(50):
        rng, table, gone = Random(seed), PreparedTable(0), set[int]()
        end = 0
        for _ in range(200):
            end += rng.randrange(3)
            if end and rng.random() < 0.8:
                offset = rng.randrange(end)
                table.remove(offset)
                gone.add(offset)
            if rng.random() < 0.3:
                table.advance()
            table.grow(end)
            waiting = [offset for offset in range(end) if offset not in gone]
            assert table.waiting == len(waiting), f"seed {seed}"
            assert table.next_waiting(0, end) == (waiting[0] if waiting else None), f"seed {seed}"


def test_checked_ones_are_listed_with_their_counts() -> None:
    table = PreparedTable(100)
    table.grow(110)
    for offset in (101, 101, 104, 107, 109):
        table.count_check(offset)
    table.remove(104)
    assert table.checked(10) == {101: 2, 107: 1, 109: 1}
    assert table.checked(2) == {101: 2, 107: 1}
    assert PreparedTable(0).checked(10) == {}
