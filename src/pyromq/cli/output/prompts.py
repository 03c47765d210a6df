"""Questions before a command acts, and a sign of life on the terminal while it works."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import click

from pyromq.cli.declared import Option

if TYPE_CHECKING:
    from collections.abc import Callable

YesOption = Annotated[bool, Option("--yes", "-y", help="Do not ask for confirmation.")]
DryRunOption = Annotated[bool, Option("--dry-run", help="Only show what would be sent.")]


def confirm(question: str, yes: bool) -> None:
    """Returns only after a yes, which takes ``--yes`` or a terminal. Raises Abort, BadParameter."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.BadParameter("standard input is not a terminal: add --yes to go ahead without a question")
    click.confirm(question, abort=True, err=True)


@contextmanager
def progress(title: str) -> Iterator[Callable[[str], None]]:
    """A spinner on a terminal; the function it gives changes the text beside it. Silent elsewhere."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console

    console = Console(stderr=True, highlight=False, markup=False)
    with console.status(title) as status:
        yield lambda text: status.update(text)
