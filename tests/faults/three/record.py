"""Puts the table of a run into a page, between two comments, with the day, the machine and its load."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

BEGIN: Final = "<!-- rounds of three members: python -m tests.faults --three --record docs/reliability.md -->"
END: Final = "<!-- end of rounds of three members -->"
SECURED: Final = (
    "<!-- secured rounds of three members: python -m tests.faults --three --secured --record docs/reliability.md -->",
    "<!-- end of secured rounds of three members -->",
)


def put_into(page: str, text: str, begin_mark: str = BEGIN, end_mark: str = END) -> str:
    """The page with this text in place of what stood between the comments. Raises ValueError when they are missing."""
    before, begin, rest = page.partition(begin_mark)
    _, end, after = rest.partition(end_mark)
    if not begin or not end:
        raise ValueError(f"the page has no place for the table: {begin_mark} … {end_mark}")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def circumstances(loads: Sequence[float], seed: int, lease_s: float) -> str:
    """What a reader has to know of the run; ``loads`` are averages of a minute, at its begin and after each row."""
    day = datetime.now(UTC).date().isoformat()
    load = f"load {min(loads):.1f} to {max(loads):.1f} (of it the rounds' own)"
    return (
        f"Recorded on {day}, {os.cpu_count()} cores ({_processor()}), {load}, seed {seed}, leases of {lease_s:g} s, "
        "settings of clients as they are by default:"
    )


def _processor() -> str:
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else "unknown"
