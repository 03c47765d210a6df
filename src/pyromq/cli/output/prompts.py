"""Questions before a command acts, and progress on the terminal while it works: on stderr, unless ``--quiet``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import click

from pyromq.cli.declared import Option
from pyromq.cli.output.quiet import is_quiet

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.progress import Progress, ProgressColumn

YesOption = Annotated[bool, Option("--yes", "-y", help="Do not ask for confirmation.")]
RateOption = Annotated[float, Option("--rate", min=0, max=10_000, help="Messages a second at most; 0: no limit.")]
DryRunOption = Annotated[bool, Option("--dry-run", help="Only show what would be sent.")]


def confirm(question: str, yes: bool) -> None:
    """Returns only after a yes, which takes ``--yes`` or a terminal. Raises Abort, UsageError."""
    if yes:
        return
    if not sys.stdin.isatty():
        text = "nothing was done: standard input is not a terminal, so nobody can be asked; add --yes to go ahead"
        raise click.UsageError(text, ctx=click.get_current_context(silent=True))
    click.confirm(question, abort=True, err=True)


@contextmanager
def progress(title: str) -> Iterator[Callable[[str], None]]:
    """A spinner on a terminal; the function it gives changes the text beside it. Silent elsewhere."""
    if not is_shown():
        yield lambda text: None
        return
    from rich.console import Console

    console = Console(stderr=True, highlight=False, markup=False)
    with console.status(title) as status:
        yield lambda text: status.update(text)


def is_shown() -> bool:
    """Whether somebody watches the progress of this command, and wants to."""
    return sys.stderr.isatty() and not is_quiet()


@contextmanager
def counting(title: str, *, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A bar with a count and a rate; the function it gives takes how many there are by now. Silent without a terminal.

    Without a total the bar only moves.
    """
    if not is_shown():
        yield lambda done: None
        return
    from pyromq.pipeline.jobs.common.bars import bar

    with bar(title, sys.stderr) as tell:
        yield lambda done: tell(done, total)


def progress_bar(*columns: ProgressColumn) -> Progress:
    """What remains of it when it ends is nothing: the command says itself what it did."""
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True, highlight=False), transient=True)
