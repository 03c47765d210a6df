"""Time comes in through the door: what needs it is handed a Clock."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol


class Clock(Protocol):
    """Wall-clock and monotonic time: milliseconds for moments, seconds as a float for durations."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch; may jump when the machine's clock is set."""

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start; never goes back."""

    def monotonic_s(self) -> float:
        """Seconds from another arbitrary start, as fine as the clock has them: to measure how long something took."""


class SystemClock:
    """Clock of the machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    monotonic_s = staticmethod(time.perf_counter)  # as it is: a method around it would cost more than it does


def machine_s() -> float:
    """Seconds by a clock that all processes of this machine share, and that goes on while the machine sleeps."""
    return time.clock_gettime(_SLEEPLESS)


def machine_ms() -> int:
    """Milliseconds by the clock of ``machine_s``."""
    return time.clock_gettime_ns(_SLEEPLESS) // 1_000_000


_SLEEPLESS: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # Linux has it, others have the second
thread_cpu_s: Final = time.thread_time  # CPU time of the calling thread: what it worked, not what it waited for
_default: Clock = SystemClock()


def default_clock() -> Clock:
    """The clock of what was handed none: the machine's, or that of a test which moves its own (``pyromq.testing``)."""
    return _default


@contextmanager
def used_by_default(clock: Clock) -> Iterator[None]:
    """What is made inside the block without a clock of its own has this one, in the whole process."""
    global _default
    before, _default = _default, clock
    try:
        yield
    finally:
        _default = before
