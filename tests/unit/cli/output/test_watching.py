"""``--watch``: frames on a terminal, rows in a pipe, an end by Ctrl-C."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from typing import Annotated

import click
import pytest

from pyromq.cli import clock
from pyromq.cli.declared import Argument, Commands
from pyromq.cli.output.tables import Column, Form, FormOption, form_for, write_rows
from pyromq.cli.output.watching import repeat, watched
from pyromq.errors import ConnectionLostError, MQError
from pyromq.testing import ManualClock

COLUMNS = (Column("name", "name"), Column("count", "count", right=True))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def time(monkeypatch: pytest.MonkeyPatch) -> Iterator[ManualClock]:
    manual = ManualClock(now_ms=1_700_000_000_000)
    monkeypatch.setattr(clock, "in_use", manual)
    yield manual


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch, time: ManualClock) -> Callable[[int], None]:
    """Ctrl-C comes after so many frames."""

    def limit(count: int) -> None:
        left = [count]

        def pause(seconds: float) -> None:
            time.advance_ms(int(seconds * 1000))
            left[0] -= 1
            if not left[0]:
                raise KeyboardInterrupt

        monkeypatch.setattr(clock, "pause", pause)

    return limit


def counting(form: Form | None, failing_at: int = 0, error: Exception | None = None) -> Callable[[], None]:
    seen = [0]

    def show() -> None:
        seen[0] += 1
        if seen[0] == failing_at and error is not None:
            raise error
        write_rows(sys.stdout, form_for(form, sys.stdout), COLUMNS, [{"name": "a", "count": seen[0]}])

    return show


def test_in_a_pipe_rows_are_appended_with_the_time_of_their_frame(
    frames: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    frames(3)
    repeat(counting(None), 2.0, None)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    start = 1_700_000_000_000
    assert rows == [{"at_ms": start + 2000 * n, "name": "a", "count": n + 1} for n in range(3)]


def test_on_a_terminal_a_frame_takes_the_place_of_the_last(
    frames: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    frames(2)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    repeat(counting(None), 2.0, None)
    first, second = terminal.getvalue().split("\x1b[H")[1:]
    assert "every 2 s, 2023-11-14 22:13:20Z, Ctrl-C ends" in first and "22:13:22Z" in second
    assert first.endswith("\x1b[J"), "what a longer frame left is cleared"
    assert sys.stdout is terminal, "it is given back"


def test_a_frame_is_cut_where_the_terminal_ends(frames: Callable[[int], None], monkeypatch: pytest.MonkeyPatch) -> None:
    frames(1)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("LINES", "10")
    monkeypatch.setenv("COLUMNS", "80")
    repeat(lambda: print("\n".join(map(str, range(50)))), 2.0, None)
    lines = terminal.getvalue().splitlines()
    assert len(lines) <= 10 and "more lines" in lines[-2] + lines[-1]


def test_a_server_that_is_away_for_a_moment_ends_nothing(
    frames: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    frames(3)
    repeat(counting(None, failing_at=2, error=ConnectionLostError("gone\x1b[2J")), 2.0, None)
    out = capsys.readouterr()
    assert [json.loads(line)["count"] for line in out.out.splitlines()] == [1, 3], "and no row comes twice"
    assert "gone" in out.err and "\x1b" not in out.err


def test_on_a_terminal_the_last_frame_stays_below_the_error(
    frames: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    frames(2)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    repeat(counting(None, failing_at=2, error=ConnectionLostError("gone")), 2.0, None)
    last = terminal.getvalue().split("\x1b[H")[-1]
    assert "pyromq: gone" in last and "count" in last


def test_what_is_wrong_with_the_command_ends_it_at_once(frames: Callable[[int], None]) -> None:
    frames(3)
    with pytest.raises(MQError, match="gone"):
        repeat(counting(None, failing_at=1, error=ConnectionLostError("gone")), 2.0, None)
    with pytest.raises(click.BadParameter, match="CSV"):
        repeat(counting(Form.CSV), 2.0, Form.CSV)


def test_a_finding_is_no_end(frames: Callable[[int], None], capsys: pytest.CaptureFixture[str]) -> None:
    frames(2)

    def show() -> None:
        write_rows(sys.stdout, Form.JSONL, COLUMNS, [{"name": "a", "count": 1}])
        raise click.exceptions.Exit(5)

    repeat(show, 1.0, Form.JSONL)
    assert len(capsys.readouterr().out.splitlines()) == 2


@pytest.mark.parametrize(
    ("words", "pause_s"),
    [
        (["x", "--watch"], 2.0),
        (["x", "--watch", "5"], 5.0),
        (["x", "-w", "0.5"], 0.5),
        (["-w", "500ms", "x"], 0.5),
        (["x", "--watch", "1m"], 60.0),
    ],
)
def test_how_often_is_said_as_people_say_it(
    words: list[str], pause_s: float, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    paused: list[float] = []

    def pause(seconds: float) -> None:
        paused.append(seconds)
        raise KeyboardInterrupt

    monkeypatch.setattr(clock, "pause", pause)
    app = _app()
    app(["show", *words], standalone_mode=False)
    assert paused == [pause_s]


@pytest.mark.parametrize(
    "words", [["--watch", "x"], ["x", "--watch", "0"], ["x", "--watch", "soon"], ["x", "-w", "1ms"]]
)
def test_what_is_no_time_between_frames_is_refused(words: list[str]) -> None:
    with pytest.raises(click.UsageError):
        _app()(["show", *words], standalone_mode=False)


def _app() -> Commands:
    app = Commands("app")

    @app.command()
    @watched
    def show(name: Annotated[str, Argument()], output: FormOption = None) -> None:
        write_rows(sys.stdout, form_for(output, sys.stdout), COLUMNS, [{"name": name, "count": 1}])

    @app.command()
    def other() -> None:
        pass

    return app
