"""Writes the tables of docs/how-to/metrics.md anew: ``python -m tests.unit.metrics.write_page``."""

from __future__ import annotations

from pathlib import Path

from release.monitoring.page import exporter_rows, server_rows

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "metrics.md"


def write() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for mark, rows in (("metrics of servers", server_rows()), ("metrics of the exporter", exporter_rows())):
        before, start, rest = text.partition(f"<!-- {mark} -->\n")
        table, end, after = rest.partition("<!-- end -->")
        head = table.splitlines()[:2]
        text = before + start + "\n".join([*head, *rows]) + "\n" + end + after
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
