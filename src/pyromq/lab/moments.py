"""Moments as people name them: ``"2h ago"``, a datetime with time zone, a timedelta, milliseconds since 1970."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

from pyromq.errors import ConfigError

Moment = str | datetime | timedelta | int
"""``timedelta(hours=2)`` is two hours ago."""

_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_ago = re.compile(r"(?P<count>\d+)\s*(?P<unit>s|m|min|h|d)(?:\s+ago)?").fullmatch


def moment_ms(name: str, moment: Moment, now_ms: int) -> int:
    """Milliseconds since 1970. Raises ConfigError, naming the argument."""
    if isinstance(moment, timedelta):
        return now_ms - round(moment.total_seconds() * 1000)
    if isinstance(moment, datetime):
        return _of_datetime(name, moment)
    if isinstance(moment, int) and not isinstance(moment, bool):
        return moment
    if not isinstance(moment, str):
        raise ConfigError(f"{name}={moment!r} is not a time; {_ADVICE}")
    text = moment.strip()
    if text == "now":
        return now_ms
    if found := _ago(text):
        return now_ms - int(found["count"]) * _UNIT_MS[found["unit"]]
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"{name}={moment!r} is not a time; {_ADVICE}") from error
    return _of_datetime(name, when)


_ADVICE: Final = "write '2h ago', '2026-11-15T07:30+00:00', a datetime with time zone, a timedelta, or milliseconds"


def _of_datetime(name: str, when: datetime) -> int:
    if when.tzinfo is None or when.utcoffset() is None:
        text = "has no time zone: add one, such as +00:00, or use datetime.now(UTC)"
        raise ConfigError(f"{name}={when.isoformat(sep=' ')} {text}")
    return round(when.timestamp() * 1000)
