"""What ``topic ls`` and ``group ls`` share: which rows, in which order, how many, and what was left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import click

from pyromq.cli.declared import Argument, Option
from pyromq.wording import counted

if TYPE_CHECKING:
    from pyromq.operate.lists import ListQuestion

_ROWS: Final = 500


class SortWord(StrEnum):
    NAME = "name"
    RATE = "rate"
    LAG = "lag"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """Which topics or groups a command lists."""

    pattern: Annotated[
        str, Argument(metavar="PATTERN", help="Only names that contain this text, or fit it with * and ?.")
    ] = ""
    everything: Annotated[bool, Option("--all", "-a", help="Also those of the system, of retries, dead letters.")] = (
        False
    )
    sort: Annotated[SortWord, Option("--sort", "-s", help="What comes first.")] = SortWord.NAME
    limit: Annotated[int, Option("--limit", "-l", min=0, help="List at most this many; 0: all.")] = _ROWS

    def question(self) -> ListQuestion:
        from pyromq.operate.lists import ListQuestion, ListSort

        return ListQuestion(
            pattern=self.pattern,
            with_system=self.everything,
            sort=ListSort(self.sort.value),
            limit=self.limit,
        )


def report_page(what: str, question: ListQuestion, shown: int, found: int, problems: Sequence[str]) -> None:
    """Say what is not in the list, and why."""
    for problem in problems:
        click.echo(f"pyromq: {problem}", err=True)
    if not found:
        none = f"there is no such {what}" if question.pattern else f"there is no {what} yet"
        click.echo(none if question.with_system else f"{none}; --all also lists those of the system", err=True)
    if shown < found:
        left = counted(found - shown, what)
        click.echo(f"… and {left} more: --limit 0 lists all, a pattern some", err=True)


def show_paused(is_paused: bool) -> str:
    return "paused" if is_paused else ""


def show_broadcasting(is_broadcasting: bool) -> str:
    return "broadcasting" if is_broadcasting else ""


def show_count(of: Sequence[object]) -> str:
    return str(len(of))


def show_rate(rate: float) -> str:
    return "0" if not rate else f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"
