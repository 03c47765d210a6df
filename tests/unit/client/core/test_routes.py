"""Routes: one question for many callers, and what they hear when none comes."""

from __future__ import annotations

import asyncio

import pytest

from pyromq.client.core.routes import Routes
from pyromq.client.core.tasks import TaskOwner
from pyromq.errors import ClientClosedError, TopicNotFoundError
from pyromq.model.route import TopicRoute
from tests.unit.client.core.doubles import route

NO_TIME_LIMIT_MS = 60_000


async def test_a_client_that_is_closed_says_so_to_callers_that_wait() -> None:
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


async def test_a_defect_reaches_callers_that_wait_and_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(topic: str) -> TopicRoute:
        raise KeyError(topic)

    routes = Routes(broken, lambda *_: None, TaskOwner("test"))
    with pytest.raises(KeyError):
        await routes.get("t", timeout_ms=NO_TIME_LIMIT_MS)
    assert "task failed" in caplog.text


async def test_a_route_is_known_whatever_the_roles_do_that_are_told_of_it() -> None:
    async def find(topic: str) -> TopicRoute:
        return route

    def fail(topic: str, route: TopicRoute) -> None:
        raise RuntimeError("a mistake of a role")

    route = TopicRoute()
    routes = Routes(find, fail, TaskOwner("test"))
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


class NameService:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.known: dict[str, TopicRoute] = {}
        self.gate = asyncio.Event()
        self.changes: list[str] = []
        self.tasks = TaskOwner("test")
        self.routes = Routes(self.ask, lambda topic, _: self.changes.append(topic), self.tasks)

    async def ask(self, topic: str) -> TopicRoute:
        self.asked.append(topic)
        await self.gate.wait()
        if topic not in self.known:
            raise TopicNotFoundError(topic)
        return self.known[topic]


def test_many_callers_that_want_a_route_ask_one_question() -> None:
    async def main() -> None:
        service = NameService()
        service.known["t"] = route(a="1:1")
        asking = [asyncio.ensure_future(service.routes.get("t", timeout_ms=5_000)) for _ in range(10)]
        await asyncio.sleep(0)
        asking[0].cancel()  # the first caller may leave, the others still get the route
        service.gate.set()
        assert {id(await each) for each in asking[1:]} == {id(service.known["t"])}
        assert (service.asked, service.changes) == (["t"], ["t"])
        await service.routes.get("t", timeout_ms=1)
        assert service.asked == ["t"]

    asyncio.run(main())


def test_a_route_stays_known_when_it_cannot_be_renewed() -> None:
    async def main() -> None:
        service = NameService()
        service.gate.set()
        service.known["t"] = route(a="1:1", b="2:2")
        known = await service.routes.get("t", timeout_ms=5_000)
        service.known["t"] = route(b="2:2", a="1:1")
        await service.routes.refresh("t", timeout_ms=5_000)
        assert service.changes == ["t"]  # the same in another order is no change
        del service.known["t"]
        with pytest.raises(TopicNotFoundError):
            await service.routes.refresh("t", timeout_ms=5_000)
        assert service.routes.known("t") == known
        service.known["t"] = route(a="3:3")
        service.routes.refresh_soon("t")
        await service.tasks.drained()
        assert service.changes == ["t", "t"]

    asyncio.run(main())
