"""Tables of ``pyromq pipeline`` on terminals of several widths."""

from __future__ import annotations

import time
from datetime import datetime
from io import StringIO

import pytest

from pyromq.cli.output.tables import Form
from pyromq.cli.pipeline.tables import _shown, write_found, write_report
from pyromq.pipeline.jobs.reporting.numbers import Duplicate, Point, Report, Throughput


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
