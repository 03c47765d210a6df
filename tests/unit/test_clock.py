from __future__ import annotations

from pyromq.client.core.client import Client
from pyromq.clock import SystemClock, default_clock, used_by_default
from pyromq.testing import ManualClock


def test_what_is_handed_no_clock_has_that_of_the_block() -> None:
    outer, inner = ManualClock(), ManualClock()
    with used_by_default(outer):
        with used_by_default(inner):
            assert Client("127.0.0.1:9876").clock is inner
        assert Client("127.0.0.1:9876").clock is outer
        assert Client("127.0.0.1:9876", clock=inner).clock is inner
    assert isinstance(default_clock(), SystemClock)
