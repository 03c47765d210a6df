"""Memory of a test run: measured for every process, bounded, stated in the last line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.running.processes import DescendantPeaks, own_peak_mb, own_resident_mb

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
LARGE = "held = bytearray(120 << 20); print('there', flush=True); input()"


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return pytester


def ended(run: pytest.Pytester, *options: str) -> tuple[int, str]:
    """The exit code and the last line."""
    result = run.runpytest_subprocess("-p", "tests.running.memory", "-p", "no:cacheprovider", *options)
    return int(result.ret), result.outlines[-1]


def test_the_last_line_states_the_peak_and_a_run_within_the_limit_passes(run: pytest.Pytester) -> None:
    run.makepyfile("def test_passes(): pass")
    code, line = ended(run)
    assert code == 0 and line.startswith("peak memory: tests ")
    assert line.endswith("within the limit of 1,024 MB")


def test_a_run_above_the_limit_fails_although_its_tests_pass(run: pytest.Pytester) -> None:
    run.makepyfile("def test_passes(): held = bytearray(120 << 20)")
    code, line = ended(run, "--memory-limit-mb", "120")
    assert (code, line.rpartition("; ")[2]) == (1, "ABOVE the limit of 120 MB")


def test_a_run_above_the_limit_names_the_tests_that_raised_it(run: pytest.Pytester) -> None:
    run.makepyfile("def test_small(): pass\ndef test_large(): held = bytearray(120 << 20)")
    for options in ((), ("-p", "xdist.plugin", "-n", "2")):
        result = run.runpytest_subprocess(
            *("-p", "tests.running.memory", "-p", "no:cacheprovider", "--memory-limit-mb", "120", *options)
        )
        named = next(line for line in result.outlines if line.startswith("tests that raised it most: "))
        assert "::test_large (+1" in named.split(",")[0]


def test_every_worker_is_in_the_line(run: pytest.Pytester) -> None:
    run.makepyfile("def test_passes(): pass\ndef test_too(): pass")
    code, line = ended(run, "-p", "xdist.plugin", "-n", "2")
    assert code == 0
    assert [part.split()[0] for part in line.removeprefix("peak memory: ").split(", ")] == ["controller", "gw0", "gw1"]


def test_what_tests_leave_in_cycles_is_collected(run: pytest.Pytester) -> None:
    run.makepyfile("""
        import gc, pytest
        gc.disable()  # as with ten thousand collected tests: Python would not begin by itself

        class Store:
            def __init__(self):
                self.myself, self.held = self, bytearray(20 << 20)

        @pytest.mark.parametrize("number", range(40))
        def test_leaves_a_store(number):
            Store()
    """)
    assert ended(run, "--memory-limit-mb", "250")[0] == 0


def test_the_peak_of_a_grandchild_counts_and_is_remembered_when_it_has_ended() -> None:
    peaks = DescendantPeaks()
    parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {LARGE!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", f"{parent}; input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as started:
        assert started.stdout is not None and started.stdout.readline() == b"there\n"
        peaks.sample()
        largest = peaks.largest({started.pid})
        assert largest.megabytes >= 120 and largest.name.startswith("python")
        assert peaks.largest(()) == largest
        started.kill()  # its child sees the end of its input
    peaks.sample()
    assert peaks.largest(()) == largest, "what has ended is remembered"


def test_the_own_peak_is_not_below_what_is_resident() -> None:
    assert own_peak_mb() + 1 >= own_resident_mb() > 10
