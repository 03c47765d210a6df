"""Reads of a cluster that several share."""

from __future__ import annotations

import asyncio

import pytest

from pyromq.errors import ConnectFailedError
from pyromq.operate.sweep import SharedRead
from pyromq.testing import ManualClock


class Answers:
    """The first read waits until it is let go, and fails; later ones succeed."""

    def __init__(self) -> None:
        self.count = 0
        self.may_fail = asyncio.Event()

    async def load(self) -> str:
        self.count += 1
        if self.count == 1:
            await self.may_fail.wait()
            raise ConnectFailedError("away")
        return f"read {self.count}"


async def test_a_read_that_failed_after_its_caller_gave_up_is_not_handed_to_others() -> None:
    answers = Answers()
    shared = SharedRead(ManualClock(), answers.load)
    first = asyncio.create_task(shared.get(0))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    joined = asyncio.create_task(shared.get(60_000))
    await asyncio.sleep(0)
    answers.may_fail.set()
    with pytest.raises(ConnectFailedError):
        await joined  # it came while the read ran
    assert await shared.get(60_000) == await shared.get(60_000) == "read 2"
    assert await shared.get(0) == "read 3"
