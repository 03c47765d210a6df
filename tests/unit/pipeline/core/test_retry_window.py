"""The retry window: how long failures are retried, and what ends it."""

from __future__ import annotations

import pytest

from pyromq.errors import ConnectFailedError, NoPermissionError
from pyromq.pipeline.core.errors import SourceUnreachableError
from pyromq.pipeline.core.retry_window import RetryWindow
from pyromq.testing import ManualClock


def test_failures_are_retried_for_a_while() -> None:
    clock = ManualClock()
    window = RetryWindow("asking", 1_000, clock)
    waits = []
    with pytest.raises(SourceUnreachableError, match=r"asking failed for 1\.0 s .* no one home"):
        while True:
            waits.append(window.failed(ConnectFailedError("no one home")))
            clock.advance_ms(waits[-1])
    assert waits[:3] == [50, 100, 200]
    assert sum(waits) == 1_000


def test_success_renews_the_window() -> None:
    clock = ManualClock()
    window = RetryWindow("asking", 1_000, clock)
    for _ in range(5):
        window.failed(ConnectFailedError("no one home"))
        clock.advance_ms(900)
        window.succeeded()


def test_a_refusal_is_not_tried_again() -> None:
    with pytest.raises(NoPermissionError):
        RetryWindow("asking", 1_000, ManualClock()).failed(NoPermissionError(code=16, remark="no"))
