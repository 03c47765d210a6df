"""Progress bars of jobs."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from pyromq.pipeline.jobs.common.bars import NotebookProgress, numbers, progress_here, silent
from pyromq.testing import ManualClock


def test_behind_a_bar_stands_what_is_known() -> None:
    assert numbers(0, None, None) == ""
    assert numbers(1_500, None, None) == "1,500" and numbers(2, 7, 0.4) == "2 of 7"
    assert numbers(1_500, 4_500, 100) == "1,500 of 4,500  100 a second  30 s left"


class Shown:
    """What a notebook shows: a line that is written anew."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.displayed = 0

    def __call__(self, line: object, *, display_id: bool) -> Shown:
        self.displayed += display_id
        self.update(line)
        return self

    def update(self, line: object) -> None:
        self.lines.append(repr(line))


def test_a_notebook_shows_one_line_that_moves_twice_a_second_and_ends_whole() -> None:
    clock, shown = ManualClock(), Shown()
    tell = NotebookProgress(shown, clock.monotonic_s)
    for done in range(0, 1_100, 100):
        clock.advance_ms(100)
        tell(done, 1_000, "canary" if not done else "")
    assert shown.displayed == 1, "the others are updates of it"
    assert shown.lines[0] == "canary 0 of 1,000" and len(shown.lines) == 3
    assert shown.lines[-1].startswith("1,000 of 1,000  909 a second")


@pytest.mark.parametrize(("shell", "is_shown"), [(None, False), (SimpleNamespace(), False), (Any, True)])
def test_only_the_kernel_of_a_notebook_is_written_to(
    shell: Any, is_shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_shown:
        shell = SimpleNamespace(kernel="ipykernel")
    fake = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", fake)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=Shown()))
    assert (progress_here() is not silent) == is_shown
    monkeypatch.delitem(sys.modules, "IPython")
    assert progress_here() is silent
