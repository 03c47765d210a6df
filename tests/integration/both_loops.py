"""What runs a test's coroutine once on asyncio's own loop and once on uvloop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
import uvloop

LIMIT_S = 120
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
        yield lambda main: runner.run(asyncio.wait_for(main, LIMIT_S))
