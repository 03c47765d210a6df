"""Exploring: new seeds each round, what fails can be repeated, and the tests of every day stay the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from tests.running import explore
from tests.running.explore import Expedition, round_of

ROOT = Path(__file__).parents[2]
NUMBERS = "from tests.running.seeds import seed_of, seeds; print(seed_of(7), *seeds(2))"


def test_a_round_follows_from_its_seed_and_every_other_one_does_without_the_core() -> None:
    assert round_of(0, 42) == round_of(2, 42) != round_of(0, 43)
    first, second = (round_of(number, 42)[0].environment for number in (0, 1))
    assert "PYROMQ_PURE" not in first and second["PYROMQ_PURE"] == "1"
    assert all("42" in each.line() for each in round_of(0, 42))
    assert "-m 'hypothesis or seeded' " in round_of(0, 42)[0].line(), "as a shell takes it"


def test_rounds_go_on_until_the_time_is_over_and_what_failed_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried: list[Expedition] = []

    def go(expedition: Expedition) -> bool:
        tried.append(expedition)
        return "hostile" not in expedition.name or len(tried) > 2

    monkeypatch.setattr(explore, "go", go)
    monkeypatch.setattr(explore, "FOLDER", tmp_path)
    monkeypatch.setattr(explore, "FAILURES", tmp_path / "failures.txt")
    monkeypatch.setattr("tests.running.explore.time.monotonic", iter([0.0, 30.0, 61.0, 61.0]).__next__)
    assert explore.main(["--minutes", "1", "--seed", "100"]) == 1
    assert [each.environment.get("PYROMQ_EXPLORE_SEED") for each in tried[::2]] == ["100", "101"]
    repeated = "python -m tests.hostile.fuzz --requests 20000 --seed 100"
    assert (tmp_path / "failures.txt").read_text() == repeated + "\n"
    assert capsys.readouterr().out.endswith(f"2 rounds in 1 minutes, 1 with a failure\nFAILED: {repeated}\n")


@pytest.mark.parametrize(("given", "numbers"), [({}, "7 0 1"), ({"PYROMQ_EXPLORE_SEED": "500"}, "507 500 501")])
def test_seeds_move_with_the_round(given: dict[str, str], numbers: str) -> None:
    ended = subprocess.run([sys.executable, "-c", NUMBERS], cwd=ROOT, env=given, capture_output=True, text=True)
    assert ended.stdout.strip() == numbers


def test_property_tests_of_every_day_are_repeatable_and_exploring_ones_are_saved() -> None:
    everyday, exploring = settings.get_profile("repeatable"), settings.get_profile("explore")
    assert everyday.derandomize and everyday.deadline is None
    assert not exploring.derandomize and exploring.database is not None and exploring.print_blob


def test_no_property_test_keeps_its_examples_from_being_explored() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "tests/unit").rglob("*.py")}
    assert [str(path) for path, text in texts.items() if "derandomize" in text] == []
