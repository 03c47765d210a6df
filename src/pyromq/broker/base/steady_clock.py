"""Steady clock: a wall clock that does not jump, so that delayed messages are released by the time that passes."""

from __future__ import annotations

import logging
from typing import Final

from pyromq.clock import Clock

logger = logging.getLogger(__name__)

_JUMP_MS: Final = 1_000
_NOTICED_MS: Final = 2  # the two clocks of a machine tick at different moments
_ELAPSED_PER_CORRECTED_MS: Final = 10


class SteadyClock:
    """Starts at the wall time and goes on with the monotonic clock.

    When the two part, because the clock was set or the machine corrects it, this one follows the wall clock by at
    most a tenth of the time that passes. So it never goes back, and a delay is never off by more than 10 %.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.monotonic_ms = clock.monotonic_ms  # as they are: asked a hundred times in an idle second
        self.monotonic_s = clock.monotonic_s
        self._looked_ms = clock.monotonic_ms()  # when the two clocks were compared last
        self._shift_ms = clock.now_ms() - self._looked_ms  # what is added to the monotonic clock
        self._spare_ms = 0  # passed, and not yet used for a correction
        self._jumped = False  # since the clocks agreed last; a jump is logged once

    def now_ms(self) -> int:
        monotonic_ms = self.monotonic_ms()
        if monotonic_ms == self._looked_ms:  # no time has passed, so there is nothing to correct
            return monotonic_ms + self._shift_ms
        off_ms = self._clock.now_ms() - monotonic_ms - self._shift_ms
        if -_NOTICED_MS <= off_ms <= _NOTICED_MS:
            self._looked_ms, self._spare_ms = monotonic_ms, 0
            self._jumped = False
        else:
            self._correct(off_ms, monotonic_ms)
        return monotonic_ms + self._shift_ms

    def follow_at_once(self) -> None:
        """Takes the wall clock as it is: for an owner who knows that the time between has passed."""
        self._looked_ms = self._clock.monotonic_ms()
        self._shift_ms = self._clock.now_ms() - self._looked_ms
        self._spare_ms, self._jumped = 0, False

    def _correct(self, off_ms: int, monotonic_ms: int) -> None:
        if abs(off_ms) > _JUMP_MS and not self._jumped:
            logger.warning("wall clock jumped, followed at a tenth of the elapsed time: jump_ms=%d", off_ms)
            self._jumped = True
        self._spare_ms += monotonic_ms - self._looked_ms
        self._looked_ms = monotonic_ms
        step_ms = min(abs(off_ms), self._spare_ms // _ELAPSED_PER_CORRECTED_MS)
        self._spare_ms -= step_ms * _ELAPSED_PER_CORRECTED_MS
        self._shift_ms += step_ms if off_ms > 0 else -step_ms
