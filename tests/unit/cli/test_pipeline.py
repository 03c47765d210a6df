"""``pyromq pipeline``: what is wrong is told in one line before Spark is started, and Spark keeps quiet."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pyromq.cli.main import main
from pyromq.cli.pipeline_session import _errors_into, _failures_of_this_machine, _log_file, _why
from pyromq.errors import ConfigError

NOBODY = "127.0.0.1:1"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("archive", "orders", "--to", "x", "--writer", "pen"), "'pen' is none of task, spark"),
        (("replay", "orders", "--to", "x", "--begin", "soon"), "'soon' is no time"),
        (("replay", "orders", "--to", "x", "--begin-offsets", "7"), "is not"),
        (("archive", "orders", "--to", "x", "--option", "nonsense"), "not NAME=VALUE"),
        (("archive", "orders", "--to", "x", "--option", "topicPatern=a"), "did you mean topicPattern?"),
        (("report", "orders", "--option", "maxOffsetsPerTrigger=5"), "it is for stream reads only"),
        (("archive", "orders", "--to", "x", "--compression", "zip"), "'zip' is none of snappy"),
        (("archive", "orders", "--to", "x", "--where", "tags = 'a'"), "--where needs --writer spark"),
        (("report", "orders", "--html", "/nowhere/page.html"), "there is no folder /nowhere"),
        (("dedupe", "orders"), "--to DIR or --to-topic TOPIC"),
        (("dedupe", "orders", "--to", "x", "--to-topic", "y"), "one of them"),
        (("dedupe", "orders", "--to-topic", "y"), "needs --checkpoint"),
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


def test_a_folder_without_a_store_is_told_first(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["pipeline", "store", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"pyromq: there is no commitlog in {tmp_path}\n"


def test_what_this_machine_refuses_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"No such file or directory: .*none"), _failures_of_this_machine():
        (tmp_path / "none" / "file").write_text("")
    with pytest.raises(BrokenPipeError), _failures_of_this_machine():
        raise BrokenPipeError


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
