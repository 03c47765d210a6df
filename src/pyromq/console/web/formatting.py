"""Numbers, sizes, times and rates as pages show them; the filters of templates. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote, urlencode

from pyromq import wording
from pyromq.wording import ago, shown_span, shown_time, until

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
NOT_KNOWN: Final = "–"
_THOUSANDS: Final = re.compile(r"(?<=\d),(?=\d{3})")


def number(value: float | None) -> str:
    """``12 345``: thin spaces between thousands."""
    if value is None:
        return NOT_KNOWN
    text = f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:,.1f}"
    return text.replace(",", "\u2009")


def counted(count: int, one: str, many: str = "") -> str:
    """``1 queue``, ``12 345 queues``."""
    return sentence(wording.counted(count, one, many))


def sentence(text: str) -> str:
    """Return a sentence of the operator plane with its numbers as pages show them."""
    return _THOUSANDS.sub("\u2009", text)


def size(value: float | None) -> str:
    """Format bytes: ``3.2 GiB``."""
    if value is None:
        return NOT_KNOWN
    place, left = 0, float(value)
    while abs(left) >= 1024 and place < len(_UNITS) - 1:
        left, place = left / 1024, place + 1
    return f"{left:.0f} {_UNITS[place]}" if place == 0 or left >= 100 else f"{left:.1f} {_UNITS[place]}"


def rate(value: float | None) -> str:
    """Format a rate per second."""
    return NOT_KNOWN if value is None else f"{number(value)}/s"


def percent(value: float | None) -> str:
    return NOT_KNOWN if value is None else f"{value:.0f} %"


def time(value: int | None) -> str:
    return shown_time(value) if value else NOT_KNOWN


def clock(value: int | None) -> str:
    """Format a moment to the millisecond: ``2026-11-15 07:30:02.125Z``."""
    if not value:
        return NOT_KNOWN
    moment = datetime.fromtimestamp(value // 1000, UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{value % 1000:03d}Z"


def span(value: int | None) -> str:
    return NOT_KNOWN if value is None else shown_span(value)


def shortened(text: str, most: int = 28) -> str:
    """A long name with its middle left out: what ids of clients begin and end with tells them apart."""
    if len(text) <= most:
        return text
    end = (most - 1) // 3
    return f"{text[: most - 1 - end]}…{text[-end:]}"


def link(*parts: object, **query: object) -> str:
    """``link("topics", name, "edit", page=2)``: the parts of a path, each quoted, and a query without empty values."""
    path = "/" + "/".join(quote(str(part), safe="") for part in parts)
    given = {key: value for key, value in query.items() if value not in (None, "", False)}
    return f"{path}?{urlencode(given)}" if given else path


FILTERS: Final = {
    "number": number,
    "counted": counted,
    "sentence": sentence,
    "size": size,
    "rate": rate,
    "percent": percent,
    "time": time,
    "span": span,
    "clock": clock,
    "ago": ago,
    "until": until,
    "shortened": shortened,
}
