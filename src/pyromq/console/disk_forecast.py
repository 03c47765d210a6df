"""When a broker's disk will be full, from how its free space went. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from pyromq.operate.brokers import BrokerRow
from pyromq.wording import shown_span

FORECAST_MS_MIN: Final = 10 * 60_000  # a trend of less says nothing
FAR_MS: Final = 365 * 86_400_000


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """When a disk will be full if things go on like this; None: it is not filling up, or it is not known yet."""

    full_in_ms: int | None
    text: str


def forecast(past: Sequence[tuple[int, float]], now: BrokerRow) -> Forecast:
    """From the bytes that were free in the past (times, oldest first); while there is no past, from what was
    stored since the broker started.

    Old files are deleted after a while, so the trend of the free space counts, not what arrives.
    """
    if not now.disk_total:
        return Forecast(full_in_ms=None, text="the broker does not tell its disk")
    first_ms, first_free = past[0] if past else (now.time_ms, now.disk_free)
    span_ms = now.time_ms - first_ms
    used: float
    if span_ms >= FORECAST_MS_MIN:
        used, over = first_free - now.disk_free, f"as in the last {shown_span(span_ms)}"
    else:
        span_ms, used = now.time_ms - now.started_ms, now.put_bytes
        over = "at its average since it started"
    if span_ms < FORECAST_MS_MIN or used <= 0:
        return Forecast(full_in_ms=None, text="not filling up" if span_ms >= FORECAST_MS_MIN else "no forecast yet")
    left_ms = int(now.disk_free * span_ms / used)
    if left_ms > FAR_MS:
        return Forecast(full_in_ms=left_ms, text="not full within a year")
    return Forecast(full_in_ms=left_ms, text=f"full in {shown_span(left_ms)}, {over}")
