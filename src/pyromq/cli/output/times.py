"""Times on the command line, as people write and read them. Without a zone they are UTC, as are all that are shown."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

import click

from pyromq.wording import shown_time

_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_span = re.compile(r"-?(?P<count>\d+)(?P<unit>[smhd])(?: ago)?").fullmatch


def parse_time(text: str, now_ms: int) -> int:
    """``2026-11-15T07:30``, ``2026-11-15 07:30:00+02:00``, ``2h ago``, ``now``, or milliseconds since 1970.

    Raises BadParameter.
    """
    text = text.strip()
    if text == "now":
        return now_ms
    if text.isdecimal():
        return int(text)
    if found := _span(text):
        return now_ms - int(found["count"]) * _UNIT_MS[found["unit"]]
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.BadParameter(
            f"{text!r} is not a time: write 2026-11-15T07:30, 2h ago, now, or milliseconds"
        ) from error
    return int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)


def show_time(time_ms: int) -> str:
    """As ``shown_time`` does; empty for 0, which stands for a time that is not known."""
    return shown_time(time_ms) if time_ms else ""
