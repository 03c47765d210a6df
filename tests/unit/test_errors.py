"""Texts of errors: what servers say reaches people as text, never as commands for their terminal."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from pyromq.app.supervisor import NUMBER_VARIABLE
from pyromq.cli.servers.commands import _formatter, _PrintableFormatter
from pyromq.cli.servers.options import LogFormat
from pyromq.errors import BrokerError, printable

CURSOR = "\x1b[2J\x1b]0;owned\x07"


def test_control_characters_of_a_remark_are_escaped_in_the_text_and_kept_in_the_remark() -> None:
    error = BrokerError(code=1, remark=f"no{CURSOR}\r\nsee\tthe page")
    assert str(error) == "code 1: no\\x1b[2J\\x1b]0;owned\\x07\\r\nsee\tthe page"
    assert error.remark.startswith("no\x1b")


@pytest.mark.parametrize("text", ["", "plain", "grün, 已经", "two\nlines"])
def test_other_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


def test_a_log_line_of_a_worker_has_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    record = logging.LogRecord("pyromq.app", logging.INFO, "", 0, "ready", (), None)
    assert "worker" not in _formatter(LogFormat.TEXT).format(record)
    monkeypatch.setenv(NUMBER_VARIABLE, "2")
    assert _formatter(LogFormat.TEXT).format(record).endswith(" INFO worker-2 pyromq.app ready")
    assert json.loads(_formatter(LogFormat.JSON).format(record))["worker"] == 2


def test_a_log_line_is_one_line_without_control_characters() -> None:
    formatter = _PrintableFormatter("%(levelname)s %(message)s")
    record = logging.LogRecord("pyromq", logging.INFO, "", 0, "peer=%s", (f"a{CURSOR}\nERROR faked",), None)
    assert formatter.format(record) == "INFO peer=a\\x1b[2J\\x1b]0;owned\\x07\\nERROR faked"
    try:
        raise ValueError(CURSOR)
    except ValueError:
        record = logging.LogRecord("pyromq", logging.ERROR, "", 0, "failed", (), sys.exc_info())
    assert "\x1b" not in formatter.format(record) and "\nTraceback" in formatter.format(record)
