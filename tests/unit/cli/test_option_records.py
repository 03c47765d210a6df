from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from pyromq.cli.option_records import unfolded


@dataclass(frozen=True, kw_only=True)
class Place:
    master: Annotated[str, typer.Option("--master", help="Where.")] = "here"
    conf: Annotated[list[str] | None, typer.Option("--conf")] = None


app = typer.Typer()


@app.command()
@unfolded
def job(
    topics: Annotated[list[str], typer.Argument()],
    *,
    rate: Annotated[int, typer.Option("--rate")] = 0,
    place: Place,
    last: Annotated[bool, typer.Option("--last")] = False,
) -> None:
    """Does it."""
    typer.echo(f"{topics} {rate} {place} {last}")


def test_fields_of_a_record_are_options_of_the_command() -> None:
    said = (
        CliRunner().invoke(app, ["a", "b", "--conf", "x=1", "--rate", "7", "--conf", "y=2", "--master", "there"]).output
    )
    assert said.strip() == f"['a', 'b'] 7 {Place(master='there', conf=['x=1', 'y=2'])} False"


def test_without_options_the_record_has_its_defaults() -> None:
    assert CliRunner().invoke(app, ["a", "--last"]).output.strip() == f"['a'] 0 {Place()} True"


def test_two_options_cannot_have_one_name() -> None:
    def job(*, place: Place, master: Annotated[str, typer.Option()] = "") -> None: ...

    with pytest.raises(ValueError, match="duplicate parameter name: 'master'"):
        unfolded(job)


def test_help_lists_options_in_the_order_of_the_signature() -> None:
    said = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "120"}).output
    places = [said.index(text) for text in ("Does it.", "--rate", "--master", "Where.", "--conf", "--last")]
    assert places == sorted(places)
