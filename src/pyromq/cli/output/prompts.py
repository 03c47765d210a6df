"""What commands ask of the person who typed them, and how they show that something takes a while."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show what would be sent.")]


def confirm(question: str, yes: bool) -> None:
    """Goes on only after a yes; without a terminal nobody can say it. Raises Abort, BadParameter."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter("nobody can be asked here: add --yes to do it")
    typer.confirm(question, abort=True, err=True)


@contextmanager
def progress(title: str) -> Iterator[Callable[[str], None]]:
    """Something moves on a terminal while work is done; call it with what is being done. Silent elsewhere."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console

    console = Console(stderr=True, highlight=False, markup=False)
    with console.status(title) as status:
        yield lambda text: status.update(text)
