"""Brokers as the overview shows them: what they told about themselves, rates over time, when a disk will be full."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from pyromq.wording import shown_span

_CAPACITY: Final = re.compile(r"Total : ([\d.]+) ?([A-Za-z]*), Free : ([\d.]+) ?([A-Za-z]*)\.?")
_POWERS: Final = {"": 0, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5, "e": 6}
FORECAST_MS_MIN: Final = 10 * 60_000  # a trend of less says nothing
FAR_MS: Final = 365 * 86_400_000


class BrokerDisk(msgspec.Struct, frozen=True, kw_only=True):
    """The disk of a broker's log, in bytes; 0 where the broker did not tell."""

    total: int = 0
    free: int = 0
    percent: float = 0.0


class BrokerSample(msgspec.Struct, frozen=True, kw_only=True):
    """One broker process at one moment. ``problem`` is why it did not answer at its advertised address, or empty."""

    broker: str
    cluster: str
    number: int
    """0 is the master, others are replicas."""
    address: str
    time_ms: int
    problem: str = ""
    version: str = ""
    started_ms: int = 0
    in_rate: float = 0.0
    out_rate: float = 0.0
    log_end: int = 0
    put_bytes: int = 0
    messages_today: int = 0
    disk: BrokerDisk = BrokerDisk()
    members_away: int = 0  # of a master under a failover agent: members that do not follow it

    @property
    def is_master(self) -> bool:
        return self.number == 0

    @property
    def key(self) -> str:
        return f"{self.broker}/{self.number}"


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """When a disk will be full if things go on like this; None: it is not filling up, or it is not known yet."""

    full_in_ms: int | None
    text: str


def sample_of(place: tuple[str, str, int, str], time_ms: int, told: Mapping[str, str]) -> BrokerSample:
    """``place`` is cluster, broker, number and address; ``told`` what GET_BROKER_RUNTIME_INFO gave."""
    cluster, broker, number, address = place
    total, free = capacity(told.get("commitLogDirCapacity", ""))
    return BrokerSample(
        broker=broker,
        cluster=cluster,
        number=number,
        address=address,
        time_ms=time_ms,
        version=told.get("brokerVersionDesc", ""),
        started_ms=int(first_number(told.get("bootTimestamp", ""))),
        in_rate=first_number(told.get("putTps", "")),
        out_rate=first_number(told.get("getTransferredTps", "")),
        log_end=int(first_number(told.get("commitLogMaxOffset", ""))),
        put_bytes=int(first_number(told.get("putMessageSizeTotal", ""))),
        messages_today=_today(told),
        disk=BrokerDisk(total=total, free=free, percent=first_number(told.get("commitLogDiskRatio", "")) * 100),
        members_away=len(told.get("failoverAway", "").split()),
    )


def forecast(past: Sequence[BrokerSample], now: BrokerSample) -> Forecast:
    """From the space that was free in the past; while there is no past, from what was stored since the broker started.

    Old files are deleted after a while, so the trend of the free space counts, not what arrives.
    """
    known = [each for each in past if each.disk.total == now.disk.total and not each.problem]
    if not now.disk.total:
        return Forecast(full_in_ms=None, text="the broker does not tell its disk")
    first = known[0] if known else now
    span_ms = now.time_ms - first.time_ms
    if span_ms >= FORECAST_MS_MIN:
        used, over = first.disk.free - now.disk.free, f"as in the last {shown_span(span_ms)}"
    else:
        span_ms, used = now.time_ms - now.started_ms, now.put_bytes
        over = "at its average since it started"
    if span_ms < FORECAST_MS_MIN or used <= 0:
        return Forecast(full_in_ms=None, text="not filling up" if span_ms >= FORECAST_MS_MIN else "no forecast yet")
    left_ms = int(now.disk.free * span_ms / used)
    if left_ms > FAR_MS:
        return Forecast(full_in_ms=left_ms, text="not full within a year")
    return Forecast(full_in_ms=left_ms, text=f"full in {shown_span(left_ms)}, {over}")


def capacity(text: str) -> tuple[int, int]:
    """Total and free bytes of ``Total : 1.5 GiB, Free : 800 MiB.``; plain numbers are bytes, 0 where it is neither."""
    found = _CAPACITY.match(text)
    if found is None:
        return 0, 0
    return _bytes(found[1], found[2]), _bytes(found[3], found[4])


def _bytes(number: str, unit: str) -> int:
    power = _POWERS.get(unit[:1].lower(), 0)
    base = 1024 if "i" in unit or not unit else 1000
    return int(first_number(number) * base**power)


def first_number(text: str) -> float:
    """First of ``12.5 3.1 0.2``, the rates over ten seconds, one minute and ten minutes; 0 where there is none."""
    try:
        return float(text.split()[0])
    except (IndexError, ValueError):
        return 0.0


def _today(told: Mapping[str, str]) -> int:
    now, morning = told.get("msgPutTotalTodayNow", ""), told.get("msgPutTotalTodayMorning", "")
    return max(0, int(first_number(now) - first_number(morning)))
