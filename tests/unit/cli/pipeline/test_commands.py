"""``pyromq pipeline``: what is wrong is told in one line before Spark is started, and Spark keeps quiet."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from pyromq.cli.main import main
from pyromq.cli.output.tables import Form
from pyromq.cli.pipeline.commands import app
from pyromq.cli.pipeline.session import _errors_into, _failures_of_this_machine, _log_file, _why
from pyromq.cli.pipeline.tables import _shown, write_found, write_report
from pyromq.errors import ConfigError
from pyromq.pipeline.jobs.reporting.numbers import Duplicate, Point, Report, Throughput
from tests.unit.test_docs import ROOT, table_rows

NOBODY = "127.0.0.1:1"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("archive", "orders", "--to", "x", "--writer", "pen"), "'pen' is none of task, spark"),
        (("replay", "orders", "--to", "x", "--begin", "soon"), "'soon' is no time"),
        (("replay", "orders", "--to", "x", "--begin-offsets", "7"), "is not"),
        (("replay", "orders", "--to", "x", "--begin", "now", "--begin-offsets", "{}"), "--begin or --begin-offsets"),
        (("replay", "orders", "--to", "x", "--end", "now", "--end-offsets", "{}"), "--end or --end-offsets"),
        (("archive", "orders", "--to", "x", "--option", "nonsense"), "not NAME=VALUE"),
        (("archive", "orders", "--to", "x", "--option", "topicPatern=a"), "did you mean topicPattern?"),
        (("report", "orders", "--option", "maxOffsetsPerTrigger=5"), "it is for stream reads only"),
        (("archive", "orders", "--to", "x", "--compression", "zip"), "'zip' is none of snappy"),
        (("archive", "orders", "--to", "x", "--where", "tags = 'a'"), "--where needs --writer spark"),
        (("report", "orders", "--html", "/nowhere/page.html"), "there is no folder /nowhere"),
        (("report", "orders", "--html", "/"), "/ is a folder, not a file"),
        (("report", "orders", "--begin", "1h ago", "--end", "2h ago"), "--begin 1h ago is not before --end 2h ago"),
        (("redrive", "g", "--begin", "now", "--end", "2026-01-01"), "is not before"),
        (("archive", "orders", "--to", "x", "--compact", "--writer", "spark"), "--compact is for --writer task"),
        (("archive", "orders", "--to", "x", "--compact", "--format", "delta"), "--compact is for --writer task"),
        (("dedupe", "orders"), "--to DIR or --to-topic TOPIC"),
        (("dedupe", "orders", "--to", "x", "--to-topic", "y"), "one of them"),
        (("dedupe", "orders", "--to-topic", "y"), "needs --checkpoint"),
        (("dedupe", "a", "b", "--to-topic", "b", "--checkpoint", "c"), "--to-topic b is read"),
    ],
)
def test_wrong_arguments_are_told_first(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], text: str
) -> None:
    assert main(["pipeline", *arguments]) == 1
    assert text in " ".join(capsys.readouterr().err.replace("│", " ").split())


@pytest.mark.parametrize("job", [("archive", "orders", "--to", "x"), ("report", "orders"), ("redrive", "billing")])
def test_a_cluster_that_is_not_there_is_told_first(capsys: pytest.CaptureFixture[str], job: tuple[str, ...]) -> None:
    assert main(["pipeline", *job, "-n", NOBODY]) == 4
    told = capsys.readouterr().err
    assert told.startswith("pyromq: no name server answered") and told.count("\n") == 1


def test_a_pipeline_file_is_looked_at_first_then_its_cluster(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "p.yaml"
    text = f"name: p\ncheckpoint: c\nsource: {{topic: t, nameserver: '{NOBODY}'}}\nsink: [{{kind: noop}}]\n"
    path.write_text(text + "step: [{python: 'not_there:f'}]\n")
    assert main(["pipeline", "run", str(path)]) == 1
    assert "step[0].python: not_there:f: module not_there cannot be imported" in capsys.readouterr().err
    path.write_text(text)
    assert main(["pipeline", "run", str(path), "--check"]) == 0
    assert capsys.readouterr().err == f"{path} is right\n"
    assert main(["pipeline", "run", str(path)]) == 4
    assert capsys.readouterr().err.startswith("pyromq: no name server answered")


def test_a_folder_without_a_store_is_told_first(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["pipeline", "store", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"pyromq: there is no commitlog in {tmp_path}\n"


def test_what_this_machine_refuses_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"No such file or directory: .*none"), _failures_of_this_machine():
        (tmp_path / "none" / "file").write_text("")
    with pytest.raises(BrokenPipeError), _failures_of_this_machine():
        raise BrokenPipeError


def test_every_option_of_every_job_is_documented() -> None:
    told = {
        (job, option)
        for options, jobs, _ in table_rows(ROOT / "docs/how-to/spark-jobs.md", first="option")
        for option in re.findall(r"`(--[a-z-]+)`", options)
        for job in jobs.split(", ")
    }
    commands: Any = get_command(app)
    there = {
        (name, option)
        for name, command in commands.commands.items()
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--")
    }
    assert told == there


# --- tables ----------------------------------------------------------------------------------------------------------


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", [80, 120])
def test_a_report_fits_a_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    points = tuple(Point(number, number) for number in range(120))
    busy = Throughput(topic="payments", messages=12_345_678, first_ms=1, last_ms=2, per_second=98_765, points=points)
    twice = tuple(Duplicate(topic="payments", key=f"key-{number}", count=2) for number in range(10))
    report = Report(
        made_ms=0, nameserver="n", topics=("payments",), groups=(), begin_ms=1, end_ms=2, bucket_ms=1, has_trace=False,
        took_s=0, throughput=(busy,), duplicates=twice, duplicate_keys=1_234,
    )  # fmt: skip
    out = Terminal()
    write_report(out, Form.TABLE, report)
    shown = out.getvalue()
    assert "payments" in shown and "12,345,678" in shown and "98,765" in shown and "█" in shown
    assert shown.startswith("payments: 1970-01-01 00:00:00Z to 1970-01-01 00:00:00Z\n")
    assert shown.count("1970-01-01") == (4 if width == 120 else 2) and "Duplicates by key (10 of 1,234)" in shown


def test_a_row_of_many_columns_has_lines_of_its_own() -> None:
    out, row = Terminal(), {f"column {number}": f"value {number}" for number in range(12)}
    write_found(out, Form.TABLE, list(row), [row, row])
    assert len([line for line in out.getvalue().splitlines() if line.strip()]) == 24


def test_moments_of_spark_are_shown_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        local = datetime.fromtimestamp(1_794_747_469.446)  # noqa: DTZ006  # as PySpark makes it
        assert _shown(local, True) == "2026-11-15 12:57:49.446Z" and _shown(None, True) is None
        assert _shown(local, False) == "2026-11-15 07:57:49.446000", "one without a zone stays what it is"
    finally:
        monkeypatch.undo()
        time.tzset()


# --- the quiet start -------------------------------------------------------------------------------------------------


def test_processes_begun_meanwhile_complain_to_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    complain = [sys.executable, "-c", "import sys; sys.exit('noise')"]
    with tempfile.TemporaryFile() as log:
        with _errors_into(log):
            subprocess.run(complain, check=False)
        subprocess.run([sys.executable, "-c", "import os; os.write(2, b'told')"], check=True)
        log.seek(0)
        assert log.read() == b"noise\n"
    assert capfd.readouterr().err == "told"


@pytest.mark.parametrize(
    ("text", "logged", "told"),
    [
        ("x\n: org.apache.spark.SparkException: Could not parse it\n\tat x", b"", "Could not parse it"),
        ("[CANNOT_CONFIGURE] no", b"noise", "[CANNOT_CONFIGURE] no"),
        ("[JAVA_GATEWAY_EXITED] x", b"WARN\nError: no such flag\nusage", "Error: no such flag"),
        ("[JAVA_GATEWAY_EXITED] x", b"", "Java ended at once, without a word"),
    ],
)
def test_a_failed_start_has_its_reason(text: str, logged: bytes, told: str) -> None:
    with tempfile.TemporaryFile() as log:
        os.write(log.fileno(), logged)
        assert _why(text, log) == told


def test_a_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match=r"--spark-log: No such file or directory: .*/none/log"),
        _log_file(tmp_path / "none" / "log"),
    ):
        pass
