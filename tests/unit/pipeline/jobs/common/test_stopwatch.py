"""How long a job took, by the clock it was handed."""

from __future__ import annotations

from pyromq.pipeline.jobs.common.stopwatch import Stopwatch
from pyromq.testing import ManualClock


def test_seconds_are_those_of_the_clock_that_was_handed_in() -> None:
    clock = ManualClock()
    clock.advance_ms(50)
    watch = Stopwatch(clock)
    clock.advance_ms(1_234)
    assert watch.seconds == 1.234
