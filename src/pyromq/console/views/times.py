"""Moments as visitors write them: ``2026-11-15T07:30``, ``2h ago``, ``now``, or milliseconds. UTC unless told."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from pyromq.errors import ConfigError

_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGO: Final = re.compile(r"(\d{1,9})\s*(ms|min|s|m|h|d)(?:\s+ago)?")
_EPOCH_DIGITS: Final = range(11, 15)


def read_moment(text: str, now_ms: int) -> int | None:
    """Milliseconds since the epoch; None for an empty text. Raises ConfigError."""
    given = text.strip()
    if not given:
        return None
    if given.casefold() == "now":
        return now_ms
    if given.isascii() and given.isdigit() and len(given) in _EPOCH_DIGITS:
        return int(given)
    if (match := _AGO.fullmatch(given.casefold())) is not None:
        return max(0, now_ms - int(match[1]) * _UNITS_MS[match[2]])
    try:
        moment = datetime.fromisoformat(given.replace(" UTC", "+00:00").replace("Z", "+00:00"))
    except ValueError as error:
        text = f"{given[:60]!r} is no time: write 2026-11-15T07:30 (UTC), 2h ago, or now"
        raise ConfigError(text) from error
    return max(0, int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000))
