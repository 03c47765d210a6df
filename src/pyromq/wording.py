"""Times, spans and counts in words, as tools show them to people."""

from __future__ import annotations

from datetime import UTC, datetime


def shown_time(time_ms: int) -> str:
    """In UTC, to the second: servers and operators may live in different zones."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def shown_span(span_ms: int) -> str:
    """The two largest units: ``3 h 20 min``."""
    seconds = max(0, span_ms) // 1000
    parts = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
    words = [f"{seconds // unit if unit == 86_400 else seconds % larger // unit} {name}"
             for larger, (unit, name) in zip((1 << 62, 86_400, 3_600, 60), parts, strict=True)]  # fmt: skip
    while len(words) > 1 and words[0].startswith("0 "):
        words.pop(0)
    return " ".join(word for word in words[:2] if not word.startswith("0 ")) or "0 s"


def ago(time_ms: int, now_ms: int) -> str:
    return f"{shown_span(now_ms - time_ms)} ago"


def until(time_ms: int, now_ms: int) -> str:
    return f"in {shown_span(time_ms - now_ms)}" if time_ms > now_ms else "any moment"


def times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def counted(count: int, one: str, many: str = "") -> str:
    """Return ``1 queue``, ``12,345 queues``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
