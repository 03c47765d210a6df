"""``--quiet``: no progress on the terminal. It may be given before the noun, or to a command that takes long."""

from __future__ import annotations

from typing import Annotated, Final

import click

from pyromq.cli.declared import Option

_META: Final = "pyromq.quiet"


def be_quiet(wanted: bool = True) -> None:
    """For the command that runs."""
    context = click.get_current_context(silent=True)
    if wanted and context is not None:
        context.meta[_META] = True


QuietOption = Annotated[bool, Option("--quiet", "-q", callback=be_quiet, help="Show no progress.")]


def is_quiet() -> bool:
    """Whether the command was asked to be quiet; contexts of click share their notes with those inside of them."""
    context = click.get_current_context(silent=True)
    return bool(context and context.meta.get(_META))
