"""Spark keeps quiet while it starts, and what fails is told in one line."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pyromq.cli.pipeline.session import _errors_into, _failures_of_this_machine, _log_file, _why
from pyromq.errors import ConfigError


def test_what_this_machine_refuses_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"No such file or directory: .*none"), _failures_of_this_machine():
        (tmp_path / "none" / "file").write_text("")
    with pytest.raises(BrokenPipeError), _failures_of_this_machine():
        raise BrokenPipeError


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
        ("[JAVA_GATEWAY_EXITED] x", b"", "Java exited at once without an error message"),
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
