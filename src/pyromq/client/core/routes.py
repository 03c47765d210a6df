"""Route cache: where topics live. Asked once, kept, renewed from time to time, one question at a time for each topic.

A route that is known stays known when name servers do not answer or have lost the topic: brokers decide whether they
still take its messages, and a broker that restarts is missing from routes for a while.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any

from pyromq.client.core.tasks import TaskOwner
from pyromq.errors import ClientClosedError, MQError, RequestTimeoutError
from pyromq.model.route import TopicRoute

logger = logging.getLogger(__name__)


class Routes:
    """``ask(topic)`` gets a route or raises; ``on_change(topic, route)`` is notified of every new or different one."""

    def __init__(
        self,
        ask: Callable[[str], Awaitable[TopicRoute]],
        on_change: Callable[[str, TopicRoute], None],
        tasks: TaskOwner,
    ) -> None:
        self._ask = ask
        self._on_change = on_change
        self._tasks = tasks
        self._known: dict[str, TopicRoute] = {}
        self._pending_calls: dict[str, asyncio.Future[TopicRoute]] = {}

    def known(self, topic: str) -> TopicRoute | None:
        return self._known.get(topic)

    def topics(self) -> list[str]:
        return list(self._known)

    def all(self) -> Iterable[TopicRoute]:
        return self._known.values()

    def forget(self, topic: str) -> None:
        self._known.pop(topic, None)

    async def get(self, topic: str, *, timeout_ms: int) -> TopicRoute:
        """The route that is known, or what name servers say now; raises as ``refresh`` does."""
        return self._known.get(topic) or await self.refresh(topic, timeout_ms=timeout_ms)

    async def refresh(self, topic: str, *, timeout_ms: int) -> TopicRoute:
        """What name servers say now.

        Raises NameServersUnreachableError, TopicNotFoundError, RequestTimeoutError and what else ``ask`` raises.
        """
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await asyncio.shield(self._question(topic))
        except TimeoutError as error:
            text = f"the route of topic {topic} was not known within {timeout_ms} ms"
            raise RequestTimeoutError(text, timeout_ms=timeout_ms) from error

    def refresh_soon(self, topic: str) -> None:
        """Asks in the background; a failure changes nothing, nor does a client that was closed."""
        with suppress(ClientClosedError):
            self._question(topic)

    def _question(self, topic: str) -> asyncio.Future[TopicRoute]:
        """The one that is being asked, or a new one."""
        question = self._pending_calls.get(topic)
        if question is None:
            question = asyncio.get_running_loop().create_future()
            self._tasks.start(self._settle(topic, question), name=f"route {topic}")
            question.add_done_callback(_look)
            self._pending_calls[topic] = question
        return question

    async def _settle(self, topic: str, question: asyncio.Future[TopicRoute]) -> None:
        try:
            route = await self._ask(topic)
        except MQError as error:
            question.set_exception(error)
        except asyncio.CancelledError:
            question.set_exception(ClientClosedError("the client was closed before a name server answered"))
            raise
        except Exception as error:  # a defect of ours: the callers that wait must hear of it; raised again
            question.set_exception(error)
            raise
        else:
            question.set_result(route)  # first: whatever the roles do that are notified of the change, it is known
            self._learn(topic, route)
        finally:
            self._pending_calls.pop(topic, None)

    def _learn(self, topic: str, route: TopicRoute) -> None:
        if normal(route) != normal(self._known.get(topic)):
            logger.debug("route changed: topic=%s", topic)
            self._known[topic] = route
            self._on_change(topic, route)


def normal(route: TopicRoute | None) -> Any:
    """A form in which equal routes are equal, however their lists are ordered."""
    if route is None:
        return None
    brokers = sorted((b.broker_name, sorted(b.broker_addrs.items())) for b in route.broker_datas)
    queues = sorted((q.broker_name, q.perm, q.read_queue_nums, q.write_queue_nums) for q in route.queue_datas)
    return brokers, queues, route.order_topic_conf or ""


def _look(question: asyncio.Future[TopicRoute]) -> None:
    """An exception that no caller waited for is no mistake."""
    if not question.cancelled():
        question.exception()
