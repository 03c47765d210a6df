"""Remembered: a cache that is bounded in bytes, whatever the names are that peers choose."""

from __future__ import annotations

from pyromq.remembered import ENTRY_BYTES, Remembered


def test_what_is_remembered_has_a_bound_in_bytes() -> None:
    memory: Remembered[str, int] = Remembered(1 << 20)
    for number in range(20_000):
        name = f"{number}".ljust(number % 3_000, "é")
        assert memory.remember(name, number, name) == number
        assert memory.size_bytes <= 1 << 20
    assert 0 < len(memory) < (1 << 20) // ENTRY_BYTES


def test_one_that_would_take_all_of_the_room_is_not_remembered() -> None:
    memory: Remembered[str, str] = Remembered(1 << 20)
    memory.remember("a", "1", "a")
    long = "x" * 1_000_000
    assert memory.remember(long, "2", long) == "2"
    assert list(memory) == ["a"]


def test_what_is_remembered_again_counts_once_and_clearing_gives_all_room_back() -> None:
    memory: Remembered[str, int] = Remembered(1 << 20)
    for number in range(10):
        memory.remember("a", number, "a")
    assert memory["a"] == 9 and memory.size_bytes < 2 * ENTRY_BYTES
    memory.clear()
    assert memory.size_bytes == 0 and not memory
