"""Waiting for conditions, within bounds: no test sleeps for a fixed time and hopes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

PATIENCE_S = 60  # what does not happen at all takes so long to fail; a busy machine is waited for
LOOK_AGAIN_S = 0.005


async def until(condition: Callable[[], object], what: str = "", timeout_s: float = PATIENCE_S) -> None:
    """Returns as soon as the condition holds; fails with ``what`` when it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        _check(deadline, what, timeout_s)
        await asyncio.sleep(LOOK_AGAIN_S)


def until_on_thread(condition: Callable[[], object], what: str = "", timeout_s: float = PATIENCE_S) -> None:
    """The same where there is no loop."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        _check(deadline, what, timeout_s)
        time.sleep(LOOK_AGAIN_S)


def _check(deadline: float, what: str, timeout_s: float) -> None:
    assert time.monotonic() < deadline, f"did not happen within {timeout_s} s: {what}"
