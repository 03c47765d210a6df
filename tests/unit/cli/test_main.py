"""``pyromq`` itself: usage, help and version, and how little help imports."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from pyromq.cli.main import app, main

HELP_MODULES_MAX = 300  # 200 are click, typing, inspect and their own; asyncio alone would add 60, rich 100
HEAVY = (
    "asyncio",
    "ssl",
    "rich",
    "msgspec",
    "pyspark",
    "pyarrow",
    "uvloop",
    "pyromq.aio",
    "pyromq.client",
    "pyromq.broker",
)


def every_command(
    group: click.Group = app, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*words, name), command
        if isinstance(command, click.Group):
            yield from every_command(command, (*words, name))


COMMANDS = dict(every_command())


@pytest.mark.parametrize(
    "args",
    [["store", "check"], ["store", "chek"], ["stor"], ["store", "check", ".", "-o", "xml"], ["--no-such-option"], []],
)
def test_wrong_usage_exits_with_1(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(args) == 1
    out = capsys.readouterr()
    assert "Usage: pyromq" in out.err + out.out


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        (["tpoic"], "'topic'"),
        (["topics"], "'topic'"),
        (["brokers"], "'cluster'"),
        (["produce"], "'send'"),
        (["topic", "list"], "'ls'"),
        (["topic", "crate", "orders"], "'create'"),
        (["topic", "remove", "orders"], "'delete'"),
        (["dlq", "list"], "'ls'"),
        (["dlq", "retry"], "'redrive'"),
        (["delay", "recall", "x"], "'cancel'"),
        (["acl", "user", "add", "shop"], "'create'"),
    ],
)
def test_a_command_that_does_not_exist_names_the_one_that_may_be_meant(
    args: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == 1
    assert f"Did you mean {meant}" in capsys.readouterr().err


def test_nothing_is_named_for_a_command_that_is_like_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topic", "xyzzy"]) == 1
    assert "Did you mean" not in capsys.readouterr().err


def test_help_and_version_exit_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("pyromq ")
    result = CliRunner().invoke(app, ["store", "check", "--help"])
    assert result.exit_code == 0 and "--index-slots" in result.output


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_help(words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*words, "--help"])
    assert result.exit_code == 0 and result.output.startswith("Usage: pyromq"), result.output
    text = COMMANDS[words].help
    assert text and text.strip().endswith((".", "fish")), "what it does, as a sentence"


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_option_has_two_meanings(words: tuple[str, ...]) -> None:
    names = [name for param in COMMANDS[words].params for name in (*param.opts, *param.secondary_opts)]
    assert len(names) == len(set(names))


def test_lines_of_the_list_say_what_the_commands_say() -> None:
    for group in (app, COMMANDS[("mqadmin",)]):
        for name, place in group.places.items():  # type: ignore[attr-defined]
            command = group.get_command(click.Context(group), name)  # type: ignore[attr-defined]
            assert command is not None
            first = (command.help or "").replace("\n", " ")
            assert first.startswith(place.help.rstrip(".")) or name in ("send", "consume", "top", "completion"), name


@pytest.mark.parametrize(
    "words",
    [
        "--help",
        "topic ls --help",
        "group describe --help",
        "send --help",
        "consume --help",
        "top --help",
        "acl policy set --help",
        "mqadmin --help",
        "mqadmin topicStatus -h",
        "pipeline archive --help",
        "up --help",
        "--version",
    ],
)
def test_help_imports_little(words: str) -> None:
    """Help within 150 ms is a matter of what is imported: modules are counted, since time depends on the machine."""
    code = (
        "import sys\nfrom pyromq.cli.main import main\n"
        f"code = main({words.split()!r})\nsys.stderr.write(' '.join(sys.modules))\nsys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    imported = set(done.stderr.split())
    if words != "--version":  # which reads the metadata of the distribution
        assert len(imported) < HELP_MODULES_MAX, sorted(imported)
    assert not imported & set(HEAVY), imported & set(HEAVY)


def test_one_command_does_not_import_the_others() -> None:
    code = (
        "import sys\nfrom pyromq.cli.main import main\nmain(['tx', 'ls', '--help'])\n"
        "print(*[name for name in sys.modules if name.startswith('pyromq.cli.nouns.')], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr.split() == ["pyromq.cli.nouns.tx"]
