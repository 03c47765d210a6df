"""Commands from signatures: what is given, what is not, and what nobody may declare."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import click
import pytest
from click.testing import CliRunner

from pyromq.cli.declared import Argument, Commands, Option


class Form(StrEnum):
    TABLE = "table"
    JSON = "json"


app, seen = Commands("app", help="An application."), list[dict[str, Any]]()


@app.options
def before(context: click.Context, loud: Annotated[bool, Option("--loud")] = False) -> None:
    seen.append({"context": context.info_name, "loud": loud})


@app.command()
def every_kind(
    topic: Annotated[str, Argument(help="Its name.")],
    bodies: Annotated[list[str] | None, Argument(metavar="BODY…")] = None,
    *,
    count: Annotated[int, Option("--count", "-n", min=1, max=9, help="How many.")] = 3,
    rate: Annotated[float | None, Option(min=0)] = None,
    folder: Annotated[Path, Option(envvar="TEST_FOLDER")] = Path("here"),
    form: Annotated[Form | None, Option("-o")] = None,
    force: Annotated[bool, Option("--force")] = False,
    checked: Annotated[bool | None, Option()] = None,
    tag: Annotated[list[str] | None, Option()] = None,
    there: Annotated[list[Path] | None, Option(exists=True)] = None,
    name: Annotated[str, Option()] = "",
) -> int:
    """Takes everything."""
    seen.append(dict(locals()))
    return 7


@app.command("ls")
def listing() -> None:
    """Lists."""


def run(line: str, **environment: str) -> Any:
    seen.clear()
    return CliRunner().invoke(app, line.split(), env=environment)


def test_what_is_not_given_is_as_the_signature_says() -> None:
    assert run("every-kind orders").exit_code == 0
    assert seen[1] == {
        **{"topic": "orders", "bodies": None, "count": 3, "rate": None, "folder": Path("here"), "form": None},
        **{"force": False, "checked": None, "tag": None, "there": None, "name": ""},
    }


def test_what_is_given_has_its_type() -> None:
    line = "every-kind orders a b -n 9 --rate 0.5 -o json --force --no-checked --tag x --tag y --there / --name n"
    assert run(line, TEST_FOLDER="there").exit_code == 0
    assert seen[1] == {
        **{"topic": "orders", "bodies": ["a", "b"], "count": 9, "rate": 0.5, "folder": Path("there")},
        **{"form": Form.JSON, "force": True, "checked": False, "tag": ["x", "y"], "there": [Path("/")], "name": "n"},
    }
    assert type(seen[1]["form"]) is Form


def test_options_before_the_command_are_heard_first() -> None:
    run("--loud ls")
    assert seen == [{"context": "app", "loud": True}]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("every-kind", "Missing argument 'TOPIC'"),
        ("every-kind orders -n 10", "10 is not in the range 1<=x<=9"),
        ("every-kind orders -n many", "'many' is not a valid integer"),
        ("every-kind orders --rate -1", "is not in the range x>=0"),
        ("every-kind orders -o xml", "'xml' is not one of 'table', 'json'"),
        ("every-kind orders --there /no/such/folder", "Path '/no/such/folder' does not exist"),
        ("every-kind orders --nonsense", "No such option"),
        ("every-kin orders", "No such command 'every-kin'"),
        ("ls orders", "unexpected extra argument"),
    ],
)
def test_mistakes_are_told(line: str, text: str) -> None:
    said = run(line)
    assert said.exit_code == 2
    assert text in said.output


def test_help_has_arguments_defaults_ranges_and_variables_in_the_order_of_the_signature() -> None:
    said = CliRunner().invoke(app, ["every-kind", "--help"], env={"COLUMNS": "120"}).output
    assert "Usage: app every-kind [OPTIONS] TOPIC [BODY…]" in said
    told = ["Takes everything.", "Arguments:", "Its name.", "Options:", "-n, --count INTEGER", "default: 3", "1<=x<=9"]
    told += ["--rate FLOAT", "env var: TEST_FOLDER", "default: here", "[table|json]", "--checked / --no-checked"]
    places = [said.index(text) for text in told]
    assert places == sorted(places)
    assert "no-checked]" not in said  # it has no default to show


def test_commands_are_listed_as_they_were_added() -> None:
    said = run("--help").output
    assert said.index("every-kind") < said.index("ls  ")
    assert list(app.commands) == ["every-kind", "ls"]


def test_the_result_of_a_command_is_that_of_its_function() -> None:
    assert app(["every-kind", "orders"], prog_name="app", standalone_mode=False) == 7
    assert every_kind("orders") == 7, "it is still a function"


@pytest.mark.parametrize("kind", [dict, "int | str", bytes])
def test_what_no_command_line_can_give_is_noticed_at_once(kind: Any) -> None:
    def wrong(value) -> None: ...  # type: ignore[no-untyped-def]

    wrong.__annotations__["value"] = Annotated[kind, Option()] if not isinstance(kind, str) else int
    with pytest.raises(TypeError, match="'value'"):
        app.command("wrong")(wrong)
    assert "wrong" not in app.commands
