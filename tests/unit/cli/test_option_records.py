from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import click
import pytest
from click.testing import CliRunner

from pyromq.cli.declared import Argument, Commands, Option
from pyromq.cli.option_records import unfolded


@dataclass(frozen=True, kw_only=True)
class Place:
    master: Annotated[str, Option("--master", help="Where.")] = "here"
    conf: Annotated[list[str] | None, Option("--conf")] = None


app = Commands()


@app.command()
def job(
    topics: Annotated[list[str], Argument()],
    *,
    rate: Annotated[int, Option("--rate")] = 0,
    place: Place,
    last: Annotated[bool, Option("--last")] = False,
) -> None:
    """Does it."""
    click.echo(f"{topics} {rate} {place} {last}")


def test_fields_of_a_record_are_options_of_the_command() -> None:
    line = "job a b --conf x=1 --rate 7 --conf y=2 --master there"
    said = CliRunner().invoke(app, line.split()).output
    assert said.strip() == f"['a', 'b'] 7 {Place(master='there', conf=['x=1', 'y=2'])} False"


def test_without_options_the_record_has_its_defaults() -> None:
    assert CliRunner().invoke(app, ["job", "a", "--last"]).output.strip() == f"['a'] 0 {Place()} True"


def test_two_options_cannot_have_one_name() -> None:
    def job(*, place: Place, master: Annotated[str, Option()] = "") -> None: ...

    with pytest.raises(ValueError, match="duplicate parameter name: 'master'"):
        unfolded(job)


def test_help_lists_options_in_the_order_of_the_signature() -> None:
    said = CliRunner().invoke(app, ["job", "--help"], env={"COLUMNS": "120"}).output
    places = [said.index(text) for text in ("Does it.", "--rate", "--master", "Where.", "--conf", "--last")]
    assert places == sorted(places)
