"""Tables for people: plain text, and HTML for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

CELL_MAX: Final = 60

Rows = Sequence[Sequence[str]]


def text_table(title: str, head: Sequence[str], rows: Rows, notes: Sequence[str] = ()) -> str:
    shown = [[_one_line(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[column]) for row in shown) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]
    return "\n".join([title, lines[0], "  ".join("-" * width for width in widths), *lines[1:], *notes])


def html_table(title: str, head: Sequence[str], rows: Rows, notes: Sequence[str] = ()) -> str:
    columns = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    table = f"<table><thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table>"
    return f"<p>{escape(title)}</p>{table}{''.join(f'<p>{escape(note)}</p>' for note in notes)}"


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= CELL_MAX else line[: CELL_MAX - 1] + "…"
