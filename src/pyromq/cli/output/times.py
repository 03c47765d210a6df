"""Times on the command line, as people write and read them. Without a zone they are UTC, as are all that are shown."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

import click

from pyromq.cli import clock
from pyromq.wording import ago, shown_time, until

_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_is_span = re.compile(r"(?:\d+(?:ms|[smhdw])\s*)+").fullmatch
_pieces = re.compile(r"(\d+)(ms|[smhdw])").findall
_DAYS: Final = {"yesterday": -1, "today": 0, "tomorrow": 1}  # their first moment
_ADVICE: Final = "write 2026-11-15T07:30, 2h ago, 10m, in 5m, now, today, yesterday, or milliseconds"


def parse_time(text: str, now_ms: int) -> int:
    """``2026-11-15T07:30``, ``2026-11-15 07:30:00+02:00``, ``2h ago``, ``10m``, ``1h30m``, ``in 5m``, ``now``,
    ``today``, or milliseconds since 1970. A span without a word is one that has passed.

    Raises BadParameter.
    """
    text = text.strip()
    lowered = text.lower()
    if lowered == "now":
        return now_ms
    if lowered in _DAYS:
        midnight = datetime.fromtimestamp(now_ms / 1000, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        return int((midnight + timedelta(days=_DAYS[lowered])).timestamp() * 1000)
    if text.isascii() and text.isdecimal():
        return int(text)
    if lowered.startswith("in ") and (ahead := span_ms(lowered[3:])) is not None:
        return now_ms + ahead
    if (passed := span_ms(lowered.removesuffix("ago").removeprefix("-"))) is not None:
        return max(0, now_ms - passed)
    try:
        when = datetime.fromisoformat(text)
        return int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(f"{text!r} is not a time: {_ADVICE}") from error


def span_ms(text: str) -> int | None:
    """``10m``, ``1h30m``, ``2d 4h``; None if it is no span."""
    text = text.strip().lower()
    if not text.isascii() or not _is_span(text):
        return None
    return sum(int(count) * _UNIT_MS[unit] for count, unit in _pieces(text))


def show_time(time_ms: int) -> str:
    """Format a time as ``shown_time`` does; empty for 0, which stands for a time that is not known."""
    return shown_time(time_ms) if time_ms else ""


def show_moment(time_ms: int) -> str:
    """Also how long ago, or in how long: ``2026-11-15 07:30:00Z (3 min ago)``."""
    if not time_ms:
        return ""
    now_ms = clock.now_ms()
    return f"{shown_time(time_ms)} ({until(time_ms, now_ms) if time_ms > now_ms else ago(time_ms, now_ms)})"
