"""Time as Python people give it, as milliseconds: the one place that converts.

    span      timedelta(minutes=30), or seconds as a number: 2.5        rounded up: a wait of 0.2 ms is no wait of 0
    moment    a datetime with time zone                                 rounded down

Beside every ``…_ms`` of the public functions stands the same name without it, for such values; one of the two is given.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from pyromq.errors import ConfigError, quoted

Span: TypeAlias = timedelta | float
"""How long: a timedelta, or seconds."""

SPAN_S_MAX: Final = 1 << 40  # beyond what any clock counts
_MICROSECOND: Final = timedelta(microseconds=1)


def span_ms(name: str, span: Span) -> int:
    """Milliseconds of a span; raises ConfigError for what is none, or negative."""
    if isinstance(span, timedelta):
        milliseconds = -(-(span // _MICROSECOND) // 1000)
    elif isinstance(span, int | float) and not isinstance(span, bool):
        if not abs(span) <= SPAN_S_MAX:  # also what is not a number
            raise ConfigError(f"{name}={quoted(repr(span), 20)} is no time: give seconds, or a timedelta")
        nearest = round(span * 1000)
        milliseconds = nearest if nearest / 1000 == span else math.ceil(span * 1000)  # 0.001 is one, not two
    else:
        raise ConfigError(f"{name} must be a timedelta or seconds, not {type(span).__name__}")
    if milliseconds < 0:
        raise ConfigError(f"{name}={span} is negative")
    return milliseconds


def moment_ms(name: str, moment: datetime) -> int:
    """Milliseconds since 1970 of a moment; raises ConfigError for one without time zone, and for what is none."""
    if not isinstance(moment, datetime):
        raise ConfigError(f"{name} must be a datetime with time zone, not {type(moment).__name__}")
    if moment.tzinfo is None or moment.utcoffset() is None:
        text = "has no time zone: use datetime.now(UTC), or add .astimezone() for local time"
        raise ConfigError(f"{name}={moment.isoformat(sep=' ')} {text}")
    return int(moment.timestamp() * 1000)


def given_ms(name: str, milliseconds: int | None, span: Span | None) -> int | None:
    """What was given of ``name_ms`` and ``name``; None when neither was. Raises ConfigError for both."""
    if span is None:
        return milliseconds
    if milliseconds is not None:
        raise ConfigError(f"{name}_ms={milliseconds} and {name}={span}: give one of them")
    return span_ms(name, span)


def given_timeout_ms(milliseconds: int | None, span: Span | None, name: str = "timeout") -> int | None:
    """Read a time limit given in either form; it cannot be 0. Raises ConfigError."""
    chosen = given_ms(name, milliseconds, span)
    if span is not None and not chosen:
        raise ConfigError(f"{name}={span} leaves no time: leave it out for the usual time")
    return chosen
