"""``pyromq`` itself: usage, help and version."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from pyromq.cli.main import app, main


@pytest.mark.parametrize(
    "args",
    [["store", "check"], ["store", "chek"], ["stor"], ["store", "check", ".", "-o", "xml"], ["--no-such-option"], []],
)
def test_wrong_usage_exits_with_1(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(args) == 1
    out = capsys.readouterr()
    assert "Usage: pyromq" in out.err + out.out


def test_help_and_version_exit_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("pyromq ")
    result = CliRunner().invoke(app, ["store", "check", "--help"])
    assert result.exit_code == 0 and "--index-slots" in result.output
