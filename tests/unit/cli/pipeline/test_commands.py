"""``pyromq pipeline``: what is wrong is told in one line before Spark is started."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyromq.cli.main import main
from pyromq.cli.pipeline.commands import app
from tests.unit.test_docs import ROOT, table_rows

UNREACHABLE = "127.0.0.1:1"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("archive", "orders", "--to", "x", "--writer", "pen"), "'pen' is not one of task, spark"),
        (("replay", "orders", "--to", "x", "--begin", "soon"), "'soon' is not a time"),
        (("replay", "orders", "--to", "x", "--begin-offsets", "7"), "is not"),
        (("replay", "orders", "--to", "x", "--begin-offsets", "[" * 10_000), "nested too deeply"),
        (("archive", "orders", "--to", "x", "--option", 'startingOffsets={"a":' + "[" * 10_000), "nested too deeply"),
        (("replay", "orders", "--to", "x", "--begin", "now", "--begin-offsets", "{}"), "--begin or --begin-offsets"),
        (("replay", "orders", "--to", "x", "--end", "now", "--end-offsets", "{}"), "--end or --end-offsets"),
        (("archive", "orders", "--to", "x", "--option", "nonsense"), "not NAME=VALUE"),
        (("archive", "orders", "--to", "x", "--option", "topicPatern=a"), "did you mean topicPattern?"),
        (("report", "orders", "--option", "maxOffsetsPerTrigger=5"), "it is for stream reads only"),
        (("archive", "orders", "--to", "x", "--compression", "zip"), "'zip' is not one of snappy"),
        (("archive", "orders", "--to", "x", "--where", "tags = 'a'"), "--where needs --writer spark"),
        (("report", "orders", "--html", "/nowhere/page.html"), "there is no folder /nowhere"),
        (("report", "orders", "--html", "/"), "/ is a folder, not a file"),
        (("report", "orders", "--begin", "1h ago", "--end", "2h ago"), "--begin 1h ago is not before --end 2h ago"),
        (("redrive", "g", "--begin", "now", "--end", "2026-01-01"), "is not before"),
        (("archive", "orders", "--to", "x", "--compact", "--writer", "spark"), "--compact is for --writer task"),
        (("archive", "orders", "--to", "x", "--compact", "--format", "delta"), "--compact is for --writer task"),
        (("dedupe", "orders"), "--to DIR or --to-topic TOPIC"),
        (("dedupe", "orders", "--to", "x", "--to-topic", "y"), "either --to DIR or --to-topic TOPIC"),
        (("dedupe", "orders", "--to-topic", "y"), "needs --checkpoint"),
        (("dedupe", "a", "b", "--to-topic", "b", "--checkpoint", "c"), "--to-topic b is also read"),
    ],
)
def test_wrong_arguments_are_told_first(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], text: str
) -> None:
    assert main(["pipeline", *arguments]) == 1
    assert text in " ".join(capsys.readouterr().err.replace("│", " ").split())


@pytest.mark.parametrize("job", [("archive", "orders", "--to", "x"), ("report", "orders"), ("redrive", "billing")])
def test_a_cluster_that_is_not_there_is_told_first(capsys: pytest.CaptureFixture[str], job: tuple[str, ...]) -> None:
    assert main(["pipeline", *job, "-n", UNREACHABLE]) == 4
    told = capsys.readouterr().err
    assert told.startswith("pyromq: no name server answered") and told.count("\n") == 1


def test_a_pipeline_file_is_looked_at_first_then_its_cluster(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "p.yaml"
    text = f"name: p\ncheckpoint: c\nsource: {{topic: t, nameserver: '{UNREACHABLE}'}}\nsink: [{{kind: noop}}]\n"
    path.write_text(text + "step: [{python: 'not_there:f'}]\n")
    assert main(["pipeline", "run", str(path)]) == 1
    assert "step[0].python: not_there:f: module not_there cannot be imported" in capsys.readouterr().err
    path.write_text(text)
    assert main(["pipeline", "run", str(path), "--check"]) == 0
    assert capsys.readouterr().err == f"{path} is valid\n"
    assert main(["pipeline", "run", str(path)]) == 4
    assert capsys.readouterr().err.startswith("pyromq: no name server answered")


def test_a_folder_without_a_store_is_told_first(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["pipeline", "store", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"pyromq: there is no commitlog in {tmp_path}\n"


def test_every_option_of_every_job_is_documented() -> None:
    told = {
        (job, option)
        for options, jobs, _ in table_rows(ROOT / "docs/how-to/spark-jobs.md", first="option")
        for option in re.findall(r"`(--[a-z-]+)`", options)
        for job in jobs.split(", ")
    }
    there = {
        (name, option)
        for name, command in app.commands.items()
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--")
    }
    assert told == there
