"""Progress of jobs on a terminal: one line that moves. Elsewhere nothing is written."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO


class Tell(Protocol):
    """Called by a job with how far it is; ``total`` is None while nobody knows."""

    def __call__(self, done: int, total: int | None = None, text: str = "") -> None: ...


def silent(done: int, total: int | None = None, text: str = "") -> None:
    """For programs."""


@contextmanager
def bar(title: str, out: TextIO | None = None) -> Iterator[Tell]:
    """A bar with rate and time left while the block runs, if there is a terminal."""
    out = out or sys.stderr
    if not out.isatty():
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(file=out), transient=True) as progress:
        task = progress.add_task(title, total=None)

        def tell(done: int, total: int | None = None, text: str = "") -> None:
            progress.update(task, completed=done, total=total, description=f"{title}: {text}" if text else title)

        yield tell
