"""The reference of the command line, made from the application that parses it, so it cannot be out of date."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pyromq.cli.declared import Commands
from pyromq.cli.main import ExitCode, app

MEANINGS = {
    ExitCode.OK: "done",
    ExitCode.USAGE: "wrong usage",
    ExitCode.NOT_FOUND: "not found",
    ExitCode.REFUSED: "refused",
    ExitCode.UNREACHABLE: "unreachable, or no response in time",
    ExitCode.PARTIAL: "done in part, or there is something to report",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C",
    ExitCode.BROKEN_PIPE: "the reader of the output is gone",
}


def reference() -> str:
    """All commands as Markdown: a heading for each noun, one below it for each verb."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield from ("Options before the noun:", "")
    yield from _parameters(app, "pyromq")
    yield from ("", "## Exit codes", "", "| code | meaning |", "|---|---|")
    yield from (f"| {code.value} | {MEANINGS[code]} |" for code in ExitCode)
    for name, command in app.all_commands().items():
        yield from _described(command, f"pyromq {name}", level=2)


def _described(command: Any, name: str, *, level: int) -> Iterator[str]:
    yield from ("", f"{'#' * level} {name}", "", _prose(command.help or ""), "")
    verbs = command.all_commands() if isinstance(command, Commands) else {}
    if not verbs:
        yield from ("```", _usage(command, name), "```", "")
        yield from _parameters(command, name)
    for verb, inner in verbs.items():
        yield from _described(inner, f"{name} {verb}", level=level + 1)


def _usage(command: Any, name: str) -> str:
    return f"{name} {' '.join(command.collect_usage_pieces(_context(command, name)))}"


def _parameters(command: Any, name: str) -> Iterator[str]:
    context = _context(command, name)
    records = [record for parameter in command.params if (record := parameter.get_help_record(context))]
    if records:
        yield from ("", "| option | meaning |", "|---|---|")
        for shown, meaning in records:
            yield f"| `{_cell(shown)}` | {_prose(_cell(meaning)) or '–'} |"


def _context(command: Any, name: str) -> Any:
    return command.context_class(command, info_name=name)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _prose(text: str) -> str:
    """Plain help text, safe as Markdown: words such as ``--flag``, ``NAME`` in brackets or ``*`` stay what they are."""
    paragraphs = re.split(r"\n\s*\n", text.replace("\b", ""))
    return "\n\n".join(re.sub(r"([*_<>`\[\]{}~$])", r"\\\1", " ".join(part.split())) for part in paragraphs)
