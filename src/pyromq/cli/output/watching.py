"""``--watch``: a command that shows something, again and again, until Ctrl-C.

On a terminal each frame takes the place of the one before; elsewhere rows are appended, in JSON with the time of their
frame (``at_ms``). A server that does not answer for a while ends nothing after the first frame.
"""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import partial, wraps
from inspect import Parameter, signature
from typing import Annotated, Any, Final, TextIO

import click

from pyromq.cli import clock
from pyromq.cli.declared import Option
from pyromq.cli.error_texts import in_options
from pyromq.cli.output.quiet import be_quiet
from pyromq.cli.output.tables import Form, form_for, shown
from pyromq.cli.output.times import span_ms
from pyromq.errors import MQError
from pyromq.wording import shown_time

_DEFAULT: Final = "2s"
_SHORTEST_MS: Final = 100
_HOME, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"

WatchOption = Annotated[
    str | None,
    Option(
        "--watch",
        "-w",
        flag_value=_DEFAULT,
        metavar="[SECONDS]",
        help="Show it again every 2 seconds, or as often as said (5, 500ms, 1m), until Ctrl-C.",
    ),
]


def watched(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with ``--watch``. What it writes is a frame; it is called again for the next one."""
    own = signature(command, eval_str=True)

    @wraps(command)
    def called(*, watch: str | None = None, **given: Any) -> Any:
        show = partial(command, **given)
        asked = next((each.output for each in given.values() if hasattr(each, "output")), given.get("output"))
        return show() if watch is None else repeat(show, _pause_s(watch), asked)

    parameters = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in own.parameters.values()]
    parameters.append(Parameter("watch", Parameter.KEYWORD_ONLY, default=None, annotation=WatchOption))
    called.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    return called


def repeat(show: Callable[[], object], pause_s: float, asked: Form | None) -> None:
    """Until Ctrl-C. Raises what the first frame raises, BadParameter for CSV."""
    out = sys.stdout
    form = form_for(asked, out)
    if form is Form.CSV:
        raise click.BadParameter("--watch does not write CSV: use table, json or jsonl")
    be_quiet()
    put = _on_screen if form is Form.TABLE and out.isatty() else _append
    last = ""
    try:
        frame = _frame_of(show, out)  # what is wrong with the command itself is reported at once
        while True:
            put(out, form, frame, pause_s)
            last = frame or last
            clock.pause(pause_s)
            try:
                frame = _frame_of(show, out)
            except MQError as error:
                frame = _after(error, last, out)
    except KeyboardInterrupt:
        return


def _pause_s(text: str) -> float:
    """Read the interval of ``--watch``. Raises BadParameter."""
    found = span_ms(text) if not text.replace(".", "", 1).isdecimal() else int(float(text) * 1000)
    if found is None or found < _SHORTEST_MS:
        hint = f"{text!r} is no time between frames: write --watch 5, or put --watch behind the names"
        raise click.BadParameter(hint)
    return found / 1000


class _Frame(io.StringIO):
    """Looks like the terminal that it will be written to, or like a pipe."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def _frame_of(show: Callable[[], object], out: TextIO) -> str:
    frame = _Frame(out.isatty())
    notes = frame if out.isatty() else sys.stderr
    with redirect_stdout(frame), redirect_stderr(notes):
        try:
            show()
        except click.exceptions.Exit:  # there is something to report, and the frame shows it
            pass
    return frame.getvalue()


def _after(error: MQError, last: str, out: TextIO) -> str:
    """On a terminal the last frame stays below the error; in a pipe no row comes twice."""
    text = f"pyromq: {shown(in_options(error))}"
    if out.isatty():
        return f"{text}\n\n{last}"
    click.echo(text, err=True)
    return ""


def _on_screen(out: TextIO, form: Form, frame: str, pause_s: float) -> None:
    lines = [f"every {pause_s:g} s, {shown_time(clock.now_ms())}, Ctrl-C ends", "", *frame.splitlines()]
    height = shutil.get_terminal_size().lines
    if len(lines) >= height > 2:
        hidden = len(lines) - height + 2
        lines = [*lines[: height - 2], f"… {hidden} more lines: make the window higher, or list less"]
    out.write(_HOME + "".join(f"{line}{_CLEAR_LINE}\n" for line in lines) + _CLEAR_BELOW)
    out.flush()


def _append(out: TextIO, form: Form, frame: str, pause_s: float) -> None:
    if form is Form.JSONL:
        stamp = f'{{"at_ms":{clock.now_ms()},'
        frame = "".join(f"{stamp}{line[1:]}\n" for line in frame.splitlines() if line.startswith("{"))
    out.write(frame)
    out.flush()
