"""A clock that moves when asked to."""

from __future__ import annotations


class ManualClock:
    """Starts at a fixed moment; ``advance_ms`` moves both clocks, ``set_ms`` the wall clock alone."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 0

    def now_ms(self) -> int:
        """The wall clock: milliseconds since 1970."""
        return self._now_ms

    def monotonic_ms(self) -> int:
        """The clock that never goes back: milliseconds since the start."""
        return self._monotonic_ms

    def monotonic_s(self) -> float:
        return self._monotonic_ms / 1000

    def advance_ms(self, duration_ms: int) -> None:
        """Time passes, on both clocks. Raises ValueError for a negative duration."""
        if duration_ms < 0:
            raise ValueError("time passes forwards; use set_ms to move the wall clock back")
        self._now_ms += duration_ms
        self._monotonic_ms += duration_ms

    def set_ms(self, now_ms: int) -> None:
        """The wall clock jumps; the monotonic clock does not notice."""
        self._now_ms = now_ms
