"""Progress bars of jobs: a line that moves on a terminal or under the cell of a notebook; elsewhere nothing is written.

⠹ archiving ━━━━━━━━━━━━━━━━━━━━━━━━━━ 1,250,000 of 6,000,000  412,000 a second  11 s left
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO

from pyromq.wording import shown_span

if TYPE_CHECKING:
    from rich.progress import Task


_SHOWN_EVERY_S: Final = 0.5


class Tell(Protocol):
    """Called by a job with how far it is; ``total`` is None while it is not known."""

    def __call__(self, done: int, total: int | None = None, text: str = "") -> None: ...


Step = Callable[[int, str], None]
"""Called with the number and the name of a step that begins."""


def silent(done: int, total: int | None = None, text: str = "") -> None:
    """Report nothing, for programs."""


@contextmanager
def bar(title: str, out: TextIO | None = None) -> Iterator[Tell]:
    """A bar with count, rate and time left while the block runs, if there is a terminal; gone afterwards."""
    out = out or sys.stderr
    if not out.isatty():
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn
    from rich.text import Text

    class Numbers(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(numbers(task.completed, task.total, task.finished_speed or task.speed), "dim")

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), Numbers())
    with Progress(*columns, console=Console(file=out), transient=True, speed_estimate_period=10) as progress:
        task = progress.add_task(title, total=None)

        def tell(done: int, total: int | None = None, text: str = "") -> None:
            progress.update(task, completed=done, total=total, description=f"{title}: {text}" if text else title)

        yield tell


def numbers(done: float, total: float | None, per_second: float | None) -> str:
    """What stands behind a bar; as much of it as is known, steps of less than one a second without a rate."""
    if not done and not total:
        return ""
    counted = f"{done:,.0f}" if total is None else f"{done:,.0f} of {total:,.0f}"
    if not per_second or per_second < 1:
        return counted
    left = "" if total is None else f"  {shown_span(round(1000 * (total - done) / per_second))} left"
    return f"{counted}  {per_second:,.0f} a second{left}"


# --- notebooks ---


def progress_here() -> Tell:
    """What a job reports to when its caller names nothing: a line under the cell of a notebook, elsewhere nothing."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):  # a terminal, or a program
        return silent
    from IPython.display import display  # type: ignore[import-not-found,unused-ignore]  # it runs here

    return NotebookProgress(display)


class NotebookProgress:
    """A line under a cell that is written anew as the job goes on, at most twice a second."""

    def __init__(self, display: Callable[..., Any], monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._display = display
        self._monotonic_s = monotonic_s
        self._began_s = monotonic_s()
        self._shown_s: float | None = None
        self._handle: Any = None  # of what is displayed

    def __call__(self, done: int, total: int | None = None, text: str = "") -> None:
        now_s = self._monotonic_s()
        is_last = total is not None and done >= total
        if self._shown_s is not None and now_s - self._shown_s < _SHOWN_EVERY_S and not is_last:
            return
        self._shown_s = now_s
        rate = done / (now_s - self._began_s) if now_s > self._began_s else None
        line = _Line(" ".join(filter(None, (text, numbers(done, total, rate)))))
        if self._handle is None:
            self._handle = self._display(line, display_id=True)
        else:
            self._handle.update(line)


class _Line:
    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text
