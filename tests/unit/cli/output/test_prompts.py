"""Questions and progress: for people at a terminal, and silent elsewhere."""

from __future__ import annotations

import io
import sys

import click
import pytest

from pyromq.cli.declared import Commands
from pyromq.cli.output.prompts import YesOption, confirm, counting, is_shown, progress
from pyromq.cli.output.quiet import QuietOption


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_with_a_count_is_drawn_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with counting("sending", total=10) as tell:
        tell(7)
    assert "sending" in terminal.getvalue()
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    with counting("sending") as tell, progress("reading") as say:
        tell(7)
        say("more")
    assert pipe.getvalue() == ""


@pytest.mark.parametrize("words", [["--quiet", "work"], ["-q", "work"], ["work", "--quiet"], ["work", "-q"]])
def test_quiet_is_quiet_before_and_behind_the_command(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, seen = Terminal(), list[bool]()
    monkeypatch.setattr(sys, "stderr", terminal)
    app = Commands("app")

    @app.options
    def _options(quiet: QuietOption = False) -> None:
        """An app."""

    @app.command()
    def work(quiet: QuietOption = False) -> None:
        seen.append(is_shown())
        with counting("working") as tell:
            tell(1)

    app(words, standalone_mode=False)
    app(["work"], standalone_mode=False)
    assert seen == [False, True]


def test_a_question_needs_a_terminal_or_a_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    app = Commands("app")

    @app.command()
    def destroy(yes: YesOption = False) -> None:
        confirm("Really?", yes)
        done.append("destroyed")

    @app.command()
    def other() -> None:
        pass

    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(click.UsageError, match="nothing was done"):
        app(["destroy"], standalone_mode=False)
    assert done == [], "also with a yes in the pipe: nobody saw the question"
    app(["destroy", "--yes"], standalone_mode=False)
    assert done == ["destroyed"]
    for answer, count in (("n\n", 1), ("\n", 1), ("y\n", 2)):
        monkeypatch.setattr("click.termui.visible_prompt_func", lambda _, answer=answer: answer.strip())
        monkeypatch.setattr(sys, "stdin", Terminal(answer))
        try:
            app(["destroy"], standalone_mode=False)
        except click.Abort:
            pass
        assert len(done) == count
