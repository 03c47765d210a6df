"""Phases of a test run: all of them run, what passes the second time is flaky, and the end says everything."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.running import __main__ as running
from tests.running.__main__ import FLAKY, Outcome, run_phases, summary
from tests.running.phases import BOTH_MODES, MORE, SWITCH, TEST, Phase, other_mode
from tests.running.results import Results

ROOT = Path(__file__).parents[2]
PLUGINS = ("-p", "tests.running.memory", "-p", "tests.running.results", "-p", "no:cacheprovider", "-p", "no:xdist")
SHAKY = """
    import os, pathlib, pytest

    def test_is_flaky():
        seen = pathlib.Path("seen")
        is_first = not seen.exists()
        seen.touch()
        assert not is_first

    def test_fails():
        assert os.environ["MODE"] == "another"

    def test_passes():
        pass

    def test_needs_something():
        pytest.skip("etcd is not installed (apt-get install etcd-server)")
"""


SHARED = """
    import pathlib, pytest

    @pytest.fixture(scope="module")
    def server():
        started = pathlib.Path("started")
        is_first = not started.exists()
        started.touch()
        assert not is_first, "a server that did not start in time"

    @pytest.mark.parametrize("number", range(60))
    def test_it(server, number):
        pass
"""
ENDS = """
    import pathlib, pytest

    def fails_once(name):
        seen = pathlib.Path(name)
        is_first = not seen.exists()
        seen.touch()
        return is_first

    @pytest.fixture
    def closed_late():
        yield
        assert not fails_once("closed")

    def test_ends_badly_once(closed_late):
        pass

    def test_is_skipped_the_second_time():
        if not fails_once("skipped"):
            pytest.skip("not today")
        raise AssertionError
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to run phases in, which write into it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / ".cache/tests").mkdir(parents=True)
    return tmp_path


def make(folder: Path, name: str, code: str) -> Phase:
    lines = [line.removeprefix("    ") for line in code.splitlines()]
    (folder / f"test_{name}.py").write_text("\n".join(lines) + "\n")
    return Phase(name, (*PLUGINS, f"test_{name}.py"), {"MODE": "this"})


def test_what_fails_is_run_again_and_is_flaky_or_failed(folder: Path) -> None:
    [outcome] = run_phases([make(folder, "shaky", SHAKY)], PLUGINS)
    assert outcome.failed == ["test_shaky.py::test_fails"]
    assert outcome.flaky == ["test_shaky.py::test_is_flaky"]
    assert outcome.results.passed == ["test_shaky.py::test_passes"]
    assert (outcome.is_broken, outcome.is_good) == (False, False)
    text = "\n".join(summary([outcome], [], 90.0))
    assert "FLAKY: test_shaky.py::test_is_flaky failed, and passed when run again" in text
    assert "FAILED: test_shaky.py::test_fails" in text
    assert "did not run here: etcd is not installed (apt-get install etcd-server) (1 test)" in text
    assert "2 passed, 1 failed, 1 flaky in 1.5 minutes" in text


def test_what_one_set_up_fails_is_run_again_and_is_one_flaky_thing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(running, "TEST", (make(folder, "shared", SHARED),))
    assert running.main(["test", *PLUGINS]) == 0
    assert FLAKY.read_text() == "test_shared.py (set-up)\n"
    text = capfd.readouterr().out
    assert "FLAKY: test_shared.py (set-up) failed, and passed when run again" in text
    assert "60 passed, 0 failed, 1 flaky" in text


def test_a_test_passed_when_its_end_passed_too_and_a_skipped_one_did_not(folder: Path) -> None:
    [outcome] = run_phases([make(folder, "ends", ENDS)], PLUGINS)
    assert outcome.results.passed == []
    assert outcome.flaky == ["test_ends.py::test_ends_badly_once"]
    assert outcome.failed == ["test_ends.py::test_is_skipped_the_second_time"]
    assert "1 passed, 1 failed, 1 flaky in 1.0 minutes" in summary([outcome], [], 60.0)


def test_what_failed_is_run_again_when_all_phases_have_ended(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    waits = make(folder, "waits", "    def test_it():\n        pass")._replace(is_beside=True)
    run_phases([make(folder, "shaky", SHAKY), waits], PLUGINS)
    text = capfd.readouterr().out
    assert text.index("test_waits.py") < text.index("=== shaky: what failed, once more and by itself ===")


def test_every_phase_runs_whatever_the_first_says(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    bad, good = make(folder, "bad", "    import nothing"), make(folder, "good", "    def test_it():\n        pass")
    monkeypatch.setattr(running, "TEST", (bad, good))
    assert running.main(["test", *PLUGINS]) == 1
    lines = capfd.readouterr().out.splitlines()
    assert "=== good ===" in lines and "test_good.py::test_it" in "\n".join(lines)
    assert lines[-1].startswith("peak memory: bad: tests ") and lines[-1].endswith("within the limit of 1,024 MB")
    assert any(line.startswith("1 passed, ") for line in lines)
    monkeypatch.setattr(running, "TEST", (good,))
    assert running.main(["test", *PLUGINS]) == 0


def test_a_phase_beside_the_others_shows_its_output_after_theirs(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    waits = make(folder, "waits", SHAKY)._replace(is_beside=True)
    outcomes = run_phases([waits, make(folder, "good", "    def test_it():\n        pass")], PLUGINS)
    assert [outcome.phase.name for outcome in outcomes] == ["good", "waits"]
    assert outcomes[1].flaky == ["test_waits.py::test_is_flaky"] and outcomes[1].failed == ["test_waits.py::test_fails"]
    text = capfd.readouterr().out
    begun, shown = text.index("=== waits, beside the others ==="), text.index("test_waits.py")
    assert begun < text.index("=== good ===") < text.index("test_good.py") < shown


def test_flaky_names_are_kept_for_the_one_who_counts_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "TEST", (make(folder, "shaky", SHAKY),))
    assert running.main(["test", *PLUGINS]) == 1
    (folder / "seen").unlink()
    assert running.main(["test", *PLUGINS]) == 1
    assert FLAKY.read_text() == "test_shaky.py::test_is_flaky\n" * 2


def test_an_interrupted_phase_is_broken(folder: Path) -> None:
    ends = make(folder, "ends", "    import os\n    def test_it():\n        os._exit(3)")
    [outcome] = run_phases([ends], PLUGINS)
    assert outcome.is_broken and not outcome.is_good
    assert "BROKEN: pytest did not come to an end (ends)" in summary([outcome], [], 1.0)


def test_the_slowest_of_all_phases_are_listed() -> None:
    outcomes = [
        Outcome(
            Phase(name, ()), Results(seconds={f"{name}{number}": number + more for number in range(30)}), [], [], False
        )
        for name, more in (("a", 0.0), ("b", 0.5))
    ]
    lines = summary(outcomes, [], 1.0)
    assert lines[1:3] == ["   29.5 s  b29", "   29.0 s  a29"] and lines[20] == "   20.0 s  a20" and lines[21] == ""


def test_a_process_above_the_limit_fails_a_phase_that_passed() -> None:
    outcome = Outcome(Phase("large", ()), Results(memory="gw0 2,000 MB", is_above_limit=True), [], [], False)
    assert not outcome.is_good
    assert summary([outcome], [], 1.0)[-1] == "peak memory: large: gw0 2,000 MB; ABOVE the limit of 1,024 MB"


def test_the_other_mode_is_the_one_that_was_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.running.phases.find_spec", lambda name: object())
    pure, compiled = other_mode({}), other_mode({SWITCH: "1"})
    assert isinstance(pure, Phase) and pure.environment == {SWITCH: "1"}
    assert isinstance(compiled, Phase) and compiled.environment == {SWITCH: ""}
    monkeypatch.setattr("tests.running.phases.find_spec", lambda name: None)
    assert str(other_mode({})).startswith("one mode only: the compiled core is not built")


def test_each_marker_that_leaves_a_test_out_of_one_target_is_asked_for_in_another() -> None:
    units, others, spark = (phase.arguments for phase in TEST)
    assert units[-3:] == ("tests/unit", "-m", "not check and not more")
    assert others[-6:] == ("--ignore", "tests/spark", "--ignore", "tests/unit", "-m", "not check and not more")
    assert spark == ("tests/spark", "-m", "not more")
    assert "more" in MORE[0].arguments[-1].split()
    assert MORE[1].arguments == ("tests/spark", "-m", "more")
    checked = re.findall(r"pytest -q -m check (.*)", (ROOT / "Makefile").read_text())[0].split()
    assert {f"tests/{path}" for path in files_with("mark.check")} == set(checked)
    assert folders_with("mark.more") | folders_with("mark.rounds") <= {
        "console",
        "integration",
        "faults",
        "sim",
        "upgrade",
        "spark",
    }
    assert folders_with("mark.both_modes") <= {folder.removeprefix("tests/") for folder in BOTH_MODES}
    assert folders_with("import pytest_itemcollected") <= {folder.removeprefix("tests/") for folder in BOTH_MODES}


def files_with(text: str) -> set[str]:
    """Paths below ``tests``, without those that speak about markers."""
    found = (path for path in (ROOT / "tests").glob("*/**/*.py") if text in path.read_text(encoding="utf-8"))
    return {str(path.relative_to(ROOT / "tests")) for path in found if path.parent.name != "running"}


def folders_with(text: str) -> set[str]:
    return {path.partition("/")[0] for path in files_with(text)}
