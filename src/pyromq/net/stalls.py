"""Stalls of the event loop: which requests kept it from everybody else, and for how long.

What counts is the CPU time of the loop's thread, since on a busy machine every read takes long by the clock on the
wall. Asking for CPU time is a system call, so it is asked for once in ten milliseconds at most and after a read that
took long; the wall clock is read twice for every read of a connection that becomes requests, and nothing is done per
message. Between two marks a thread uses no more CPU time than passes on the wall: a stall is reported at most ten
milliseconds too short, and never too long.

What runs in tasks and callbacks, and what a fast path takes of a read, is seen from outside: ``LoopProbe`` is a timer,
and what made it late kept the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from pyromq.clock import SystemClock, thread_cpu_s

logger = logging.getLogger(__name__)

STALL_S: Final = 0.1  # the promise: no request keeps the loop from others for longer
_MARK_S: Final = 0.01
_CODES_LOGGED_MAX: Final = 8
PROBE_S: Final = 0.05
ELSEWHERE: Final = "tasks or callbacks"


class StallWatch:
    """One per server: ``begin`` before work on the loop, ``ended`` after it."""

    def __init__(
        self, wall_s: Callable[[], float] = SystemClock.monotonic_s, cpu_s: Callable[[], float] = thread_cpu_s
    ) -> None:
        self.count = 0
        self.worst_ms = 0
        self.worst_cause = ""  # request codes, or the name of periodic work
        self.wall_s = wall_s
        self._cpu_s = cpu_s
        self._mark_wall_s = self._mark_cpu_s = 0.0
        self.next_mark_s = float("-inf")

    def begin(self) -> float:
        """What ``ended`` wants to know."""
        now_s = self.wall_s()
        if now_s >= self.next_mark_s:
            self.mark(now_s)
        return now_s

    def mark(self, now_s: float) -> None:
        """Look at the CPU time; due at ``next_mark_s``."""
        self._mark_wall_s, self._mark_cpu_s = now_s, self._cpu_s()
        self.next_mark_s = now_s + _MARK_S

    def ended(self, began_s: float, cause: str) -> float:
        """Work without a request, such as a duty of a tick, is over; returns when the next one begins."""
        now_s = self.wall_s()
        if now_s - began_s > STALL_S:
            self._count(began_s, cause)
        if now_s >= self.next_mark_s:
            self.mark(now_s)
        return now_s

    def ended_late(self, began_s: float, codes: Sequence[int]) -> None:
        """A read with these requests took longer than ``STALL_S`` on the wall."""
        shown = ",".join(map(str, codes[:_CODES_LOGGED_MAX]))
        self._count(began_s, shown + (",…" if len(codes) > _CODES_LOGGED_MAX else ""))

    def report(self) -> dict[str, object]:
        """Event loop stalls in the names of run-time information."""
        return {"loopStalls": self.count, "loopStallWorstMs": self.worst_ms, "loopStallCode": self.worst_cause}

    def _count(self, began_s: float, cause: str) -> None:
        self.note(self._cpu_s() - self._mark_cpu_s - (began_s - self._mark_wall_s), cause)

    def note(self, used_s: float, cause: str) -> None:
        """So much CPU time was used in one go; it counts if that is too much."""
        if used_s <= STALL_S:
            return
        stalled_ms = round(used_s * 1000)
        self.count += 1
        if stalled_ms > self.worst_ms:
            self.worst_ms, self.worst_cause = stalled_ms, cause
        logger.warning("event loop stalled: cpu_ms=%d cause=%s stalls=%d", stalled_ms, cause, self.count)


class LoopProbe:
    """A timer of the loop, from ``start`` to ``stop``: counts stalls of whatever is not measured by itself.

    A stall is shown at most ``PROBE_S`` too short, and never too long: up to the moment when the timer was due, no more
    CPU time was used than had passed.
    """

    def __init__(
        self,
        stalls: StallWatch,
        wall_s: Callable[[], float] = SystemClock.monotonic_s,
        cpu_s: Callable[[], float] = thread_cpu_s,
    ) -> None:
        self._stalls = stalls
        self._wall_s = wall_s
        self._cpu_s = cpu_s
        self._timer: asyncio.TimerHandle | None = None
        self._began_wall_s = self._began_cpu_s = 0.0
        self._counted = 0  # stalls by then
        self.on_look: Callable[[float], None] = lambda late_s: None  # how late the timer came, every time

    def start(self) -> None:
        self._began_wall_s, self._began_cpu_s = self._wall_s(), self._cpu_s()
        self._counted = self._stalls.count
        self._timer = asyncio.get_running_loop().call_later(PROBE_S, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        late_s = self._wall_s() - self._began_wall_s - PROBE_S
        self.on_look(max(0.0, late_s))
        if late_s > STALL_S and self._stalls.count == self._counted:
            self._stalls.note(self._cpu_s() - self._began_cpu_s - PROBE_S, ELSEWHERE)
        self.start()
