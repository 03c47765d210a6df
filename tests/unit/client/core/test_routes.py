"""Those who wait for a route hear why none came; nobody is cancelled who was not."""

from __future__ import annotations

import asyncio

import pytest

from pyromq.client.core.routes import Routes
from pyromq.client.core.tasks import TaskOwner
from pyromq.errors import ClientClosedError
from pyromq.model.route import TopicRoute

NO_TIME_LIMIT_MS = 60_000


async def test_a_client_that_is_closed_says_so_to_those_who_wait() -> None:
    async def never(topic: str) -> TopicRoute:
        await asyncio.Event().wait()
        raise AssertionError

    tasks = TaskOwner("test")
    routes = Routes(never, lambda *_: None, tasks)
    waiting = asyncio.ensure_future(routes.get("t", timeout_ms=NO_TIME_LIMIT_MS))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await tasks.close()
    with pytest.raises(ClientClosedError):
        await waiting


async def test_a_defect_reaches_those_who_wait_and_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(topic: str) -> TopicRoute:
        raise KeyError(topic)

    routes = Routes(broken, lambda *_: None, TaskOwner("test"))
    with pytest.raises(KeyError):
        await routes.get("t", timeout_ms=NO_TIME_LIMIT_MS)
    assert "task failed" in caplog.text


async def test_a_route_is_known_whatever_those_do_who_are_told_of_it() -> None:
    async def answer(topic: str) -> TopicRoute:
        return route

    def fail(topic: str, route: TopicRoute) -> None:
        raise RuntimeError("a mistake of a role")

    route = TopicRoute()
    routes = Routes(answer, fail, TaskOwner("test"))
    assert await routes.get("t", timeout_ms=NO_TIME_LIMIT_MS) is route


async def test_after_the_end_every_question_is_refused_at_once_and_none_is_left_open() -> None:
    async def never(topic: str) -> TopicRoute:
        raise AssertionError

    tasks = TaskOwner("test")
    routes = Routes(never, lambda *_: None, tasks)
    await tasks.close()
    routes.refresh_soon("t")
    for _ in range(2):
        with pytest.raises(ClientClosedError):
            await routes.get("t", timeout_ms=NO_TIME_LIMIT_MS)
