"""``pyromq completion``: what a shell loads so that Tab completes commands, options and names."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated, Final

import click

from pyromq.cli.declared import Argument

_VARIABLE: Final = "_PYROMQ_COMPLETE"


class ShellName(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    context: click.Context, shell: Annotated[ShellName, Argument(metavar="SHELL", help="bash, zsh or fish.")]
) -> None:
    """Print the completion script of a shell: commands, options, names of topics, groups, brokers and contexts.

    bash: eval "$(pyromq completion bash)" in ~/.bashrc; zsh likewise in ~/.zshrc; fish: pyromq completion fish >
    ~/.config/fish/completions/pyromq.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell.value)
    assert kind is not None, "click knows all of them"
    sys.stdout.write(kind(context.find_root().command, {}, "pyromq", _VARIABLE).source() + "\n")
