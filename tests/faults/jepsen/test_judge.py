"""The judge of Jepsen's list finds what is planted: elements that one member lacks, damaged bodies, failed reads."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.faults.jepsen import faults
from tests.faults.jepsen.elements import FinalRead, element, number_of
from tests.faults.jepsen.trials import BEGIN, END, ROWS, JepsenOutcome, judge, table
from tests.faults.three.record import put_into

EVERYTHING = set(range(100))


def test_what_any_member_lacks_is_lost_once() -> None:
    found = JepsenOutcome()
    reads = [FinalRead("a", EVERYTHING, 0), FinalRead("b", EVERYTHING - {3, 4}, 0), FinalRead("c", EVERYTHING - {4}, 0)]
    judge(EVERYTHING, reads, found)
    assert found.lost == 2
    assert found.problems == ["b lacks 2 of 100: [3, 4]", "c lacks 1 of 100: [4]"]


def test_more_than_was_acknowledged_is_no_problem_and_damage_is_one() -> None:
    found = JepsenOutcome()
    judge({1, 2}, [FinalRead("a", {1, 2, 3}, 0)], found)
    assert (found.lost, found.problems) == (0, [])
    judge({1, 2}, [FinalRead("a", {1}, 1, error="it cannot be read")], found)
    assert (found.lost, found.damaged) == (1, 1) and "a cannot be read: it cannot be read" in found.problems


def test_an_element_proves_itself() -> None:
    body = element(7)
    assert number_of(body) == 7 and number_of(element(8)) == 8
    for place in (0, 10, len(body) - 1):
        damaged = bytearray(body)
        damaged[place] ^= 1
        assert number_of(bytes(damaged)) is None
    assert number_of(b"") is None and number_of(b"no element") is None


@pytest.mark.parametrize("seed", range(10))
def test_damage_changes_what_was_written_and_not_the_zeros_behind_it(tmp_path: Path, seed: int) -> None:
    file, before = tmp_path / "file", b"written" * 100 + bytes(5_000)
    file.write_bytes(before)
    faults._flip(file, Random(seed))
    after = file.read_bytes()
    places = [place for place in range(len(before)) if before[place] != after[place]]
    assert len(after) == len(before) and len(places) == 1 and places[0] < 700
    faults._truncate(file, Random(seed))
    assert file.stat().st_size < 700


def test_the_table_has_a_line_for_each_row_and_the_page_a_place_for_it() -> None:
    text = table((row, JepsenOutcome(rounds=4, acknowledged=1_000)) for row in ROWS)
    assert text.count("\n") == len(ROWS) + 1 and "| 4 | 1,000 | 0 | 0 | 0 | 0 | 0 | 0 |" in text
    page = (Path(__file__).parents[3] / "docs" / "reliability.md").read_text()
    assert text in put_into(page, text, BEGIN, END)
