"""Between two samples: keys, the time, and Ctrl-C in the same moment as a key."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from pyromq.cli.top.command import Top
from pyromq.cli.top.state import TopState
from tests.unit.net.fakes import turn


class QuietTop(Top):
    def _draw(self, live: Any) -> None: ...

    async def _take_sample(self) -> None: ...


@pytest.mark.parametrize("keys", ["x", "/typing", "s"])
async def test_ctrl_c_ends_it_although_a_key_came_in_the_same_moment(keys: str) -> None:
    top = QuietTop(cast(Any, None), TopState(sort="lag", pattern="", with_system=False), cast(Any, None), 3_600)
    pressed: asyncio.Queue[str] = asyncio.Queue()

    async def run() -> None:
        while True:
            await top._wait(pressed, cast(Any, None))

    running = asyncio.create_task(run())
    await turn()
    for key in keys:
        pressed.put_nowait(key)
    running.cancel()
    for _ in range(100):
        await turn()
    assert running.cancelled()
