"""Waiting for an event, but not for ever."""

from __future__ import annotations

import asyncio


async def set_within(event: asyncio.Event, seconds: float | None) -> bool:
    """Wait until an event is set, or the time is over; return whether it is set.

    Unlike ``asyncio.wait_for`` of Python 3.11 it loses no cancellation that comes together with the event.
    """
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
    return event.is_set()
