"""Steady clock: a wall clock that does not jump, so that delayed messages are released by the time that passes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from pyromq.clock import Clock, SystemClock, machine_ms

logger = logging.getLogger(__name__)

_JUMP_MS: Final = 1_000
_NOTICED_MS: Final = 2  # the two clocks of a machine tick at different moments
_ELAPSED_PER_CORRECTED_MS: Final = 10


class SteadyClock:
    """Starts at the wall time and goes on with a clock that nobody sets, and that counts while the machine sleeps.

    Not the monotonic clock: after an hour of sleep this one would be an hour late, and for ten hours.
    When the two part, because the clock was set or the machine corrects it, this one follows the wall clock by at
    most a tenth of the time that passes. So it never goes back, and a delay is never off by more than 10 %.
    """

    def __init__(self, clock: Clock, elapsed_ms: Callable[[], int] | None = None) -> None:
        """``elapsed_ms`` is what it goes on with: of a system clock its machine's, else the monotonic one."""
        self._clock = clock
        self.monotonic_ms = clock.monotonic_ms  # as they are: asked a hundred times in an idle second
        self.monotonic_s = clock.monotonic_s
        self._elapsed_ms = elapsed_ms or (machine_ms if isinstance(clock, SystemClock) else clock.monotonic_ms)
        self._looked_ms = self._elapsed_ms()  # when the two clocks were compared last
        self._shift_ms = clock.now_ms() - self._looked_ms  # what is added to the time that has passed
        self._spare_ms = 0  # passed, and not yet used for a correction
        self._jumped = False  # since the clocks agreed last; a jump is logged once

    def now_ms(self) -> int:
        elapsed_ms = self._elapsed_ms()
        if elapsed_ms == self._looked_ms:  # no time has passed, so there is nothing to correct
            return elapsed_ms + self._shift_ms
        off_ms = self._clock.now_ms() - elapsed_ms - self._shift_ms
        if -_NOTICED_MS <= off_ms <= _NOTICED_MS:
            self._looked_ms, self._spare_ms = elapsed_ms, 0
            self._jumped = False
        else:
            self._correct(off_ms, elapsed_ms)
        return elapsed_ms + self._shift_ms

    def follow_at_once(self) -> None:
        """Takes the wall clock as it is: for an owner who knows that the time between has passed."""
        self._looked_ms = self._elapsed_ms()
        self._shift_ms = self._clock.now_ms() - self._looked_ms
        self._spare_ms, self._jumped = 0, False

    def _correct(self, off_ms: int, elapsed_ms: int) -> None:
        if abs(off_ms) > _JUMP_MS and not self._jumped:
            logger.warning("wall clock jumped, followed at a tenth of the elapsed time: jump_ms=%d", off_ms)
            self._jumped = True
        self._spare_ms += elapsed_ms - self._looked_ms
        self._looked_ms = elapsed_ms
        step_ms = min(abs(off_ms), self._spare_ms // _ELAPSED_PER_CORRECTED_MS)
        self._spare_ms -= step_ms * _ELAPSED_PER_CORRECTED_MS
        self._shift_ms += step_ms if off_ms > 0 else -step_ms
