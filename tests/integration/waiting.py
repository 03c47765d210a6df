"""Waiting for conditions, within bounds: no test sleeps for a fixed time and hopes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

PATIENCE_S = 15


async def until(condition: Callable[[], object], what: str = "", timeout_s: float = PATIENCE_S) -> None:
    """Returns as soon as the condition holds; fails with ``what`` when it does not in time."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, f"did not happen within {timeout_s} s: {what}"
        await asyncio.sleep(0.005)
