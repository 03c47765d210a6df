"""Summaries of jobs in notebooks: a small table instead of the text of a struct."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any, Final

import msgspec

_ROWS_MAX: Final = 20
_TEXT_MAX: Final = 200


class ShownSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A summary that notebooks show as a table, one row for each field; lists show their first rows."""

    def _repr_html_(self) -> str:
        title = escape(type(self).__name__)
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th><td style='text-align:left'>{_cell(value)}</td></tr>"
            for name, value in _fields(self)
        )
        return f"<table><caption>{title}</caption>{rows}</table>"


def _fields(value: msgspec.Struct) -> Iterable[tuple[str, Any]]:
    return ((name, getattr(value, name)) for name in value.__struct_fields__)


def _cell(value: Any) -> str:
    match value:
        case tuple() | list() if value and isinstance(value[0], msgspec.Struct):
            return _table(value)
        case tuple() | list():
            return escape(", ".join(map(str, value[:_ROWS_MAX])) or "–")
        case None | "":
            return "–"
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return f"{value:,}"
        case _:
            return escape(str(getattr(value, "value", value))[:_TEXT_MAX])


def _table(rows: Iterable[msgspec.Struct]) -> str:
    found = list(rows)
    head = "".join(f"<th>{escape(name)}</th>" for name, _ in _fields(found[0]))
    body = "".join(
        f"<tr>{''.join(f'<td>{_text(value)}</td>' for _, value in _fields(row))}</tr>" for row in found[:_ROWS_MAX]
    )
    more = len(found) - _ROWS_MAX
    left = f"<p>and {more:,} more</p>" if more > 0 else ""
    return f"<table><tr>{head}</tr>{body}</table>{left}"


def _text(value: Any) -> str:
    """Rows of rows are counted, not shown."""
    if isinstance(value, tuple | list) and value and isinstance(value[0], msgspec.Struct):
        return f"{len(value):,} rows"
    return _cell(value)
