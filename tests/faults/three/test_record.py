"""The table of a run comes into its page, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.three.record import BEGIN, END, circumstances, put_into


def test_a_table_replaces_the_one_before_it_and_nothing_else() -> None:
    page = f"before\n\n{BEGIN}\n\n| old |\n\n{END}\n\nafter\n"
    once = put_into(page, "| new |")
    assert once == f"before\n\n{BEGIN}\n\n| new |\n\n{END}\n\nafter\n"
    assert put_into(once, "| new |") == once


def test_a_page_without_a_place_is_refused() -> None:
    with pytest.raises(ValueError, match="no place for the table"):
        put_into("before", "| new |")


def test_the_page_of_the_rounds_has_the_place() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reliability.md").read_text()
    assert "| new |" in put_into(page, "| new |")


def test_circumstances_name_load_seed_and_lease() -> None:
    assert "load 0.5 to 2.0 (of it the rounds' own), seed 7, leases of 4 s" in circumstances([1.0, 0.5, 2.0], 7, 4.0)
