"""A pipeline file as a graph, and what it takes from the environment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyromq.cli.main import main
from pyromq.pipeline.jobs.common.errors import PipelineFileError
from pyromq.pipeline.jobs.running.graph import edges_of, mermaid
from pyromq.pipeline.jobs.running.pipeline_file import parse_pipeline, read_pipeline_file

EXAMPLE = Path(__file__).parents[5] / "examples" / "paid_orders.toml"
FILE = """
name = "p"
checkpoint = "c"
[source]
topic = "orders"
nameserver = "{nameserver}"
[[step]]
name = "paid"
sql = "SELECT * FROM input WHERE tags = 'paid'"
[[step]]
sql = "SELECT a.* FROM input AS a JOIN Paid AS b ON a.keys = b.keys"
[[sink]]
kind = "json"
path = "out"
[[sink]]
name = "all"
kind = "topic"
topic = "copies"
from = "paid"
"""


def test_edges_follow_the_views_that_steps_read() -> None:
    edges = edges_of(parse_pipeline(FILE.format(nameserver="here:9876")))
    assert [(each.from_, each.to, each.how) for each in edges] == [
        ("orders", "paid", "sql"),
        ("paid", "step1", "sql"),
        ("step1", "sink0", "json out"),
        ("paid", "all", "topic copies"),
    ]


def test_mermaid_draws_stores_and_steps() -> None:
    drawn = mermaid(read_pipeline_file(EXAMPLE))
    assert drawn.startswith('flowchart LR\n    n0[("orders")]\n    n1["paid: sql"]\n')
    assert "    n1 --> n2\n" in drawn and drawn.count("-->") == 4 and "topic paid-orders" in drawn


def test_the_command_needs_no_spark(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "graph", str(EXAMPLE), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0] == {"from": "orders", "to": "paid", "how": "sql"}
    assert main(["pipeline", "graph", str(EXAMPLE), "--mermaid"]) == 0
    assert capsys.readouterr().out.startswith("flowchart LR")


def test_values_come_from_the_environment_and_from_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQ", "there:9876")
    (tmp_path / "secret").write_text("hidden\n")

    def nameserver(text: str) -> object:
        return parse_pipeline(FILE.format(nameserver=text), folder=tmp_path).source["nameserver"]

    assert nameserver("${MQ}") == "there:9876" and nameserver("${NOT_THERE:-here:9876}") == "here:9876"
    assert nameserver("${file:secret}:1") == "hidden:1"
    for text, reason in (("${NOT_THERE}", "the environment has no NOT_THERE"), ("${file:none}", "No such file")):
        with pytest.raises(PipelineFileError, match=reason) as caught:
            nameserver(text)
        assert "source.nameserver" in caught.value.where


def test_cases_name_sinks_and_steps_that_there_are() -> None:
    case = """
    [[test]]
    name = "t"
    input = [{ tags = "paid" }]
    expect = [{ sink = "none", rows = [] }, { step = "none", rows = [] }, { sink = "all", step = "paid", rows = [] }]
    """
    with pytest.raises(PipelineFileError) as caught:
        parse_pipeline(FILE.format(nameserver="here:9876") + case)
    assert [place.rpartition(": ")[2] for place, _ in caught.value.mistakes] == [
        "test[0].expect[0].sink", "test[0].expect[1].step", "test[0].expect[2]",
    ]  # fmt: skip


def test_a_file_without_cases_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.toml"
    path.write_text(FILE.format(nameserver="here:9876"))
    assert main(["pipeline", "test", str(path)]) == 1
    assert "has no [[test]]" in capsys.readouterr().err
