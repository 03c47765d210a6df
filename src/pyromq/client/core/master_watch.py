"""Master watch: a broker that has replicas and no master gets one soon, and clients should not wait for the next poll.

    route without a master, or ─▶ asked for again, one topic of the broker ─▶ another master ─▶ its other topics, too
    with one that is silent                  └ none yet: a pause, 1 s at most ─┘

Routes are polled every 30 s otherwise: so long would producers refuse, and consumers keep what they cannot send back.
A broker that has no master for ten minutes is left to these polls: it may be gone for good.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from random import Random
from typing import Final

from pyromq.client.core.routes import Routes
from pyromq.client.core.tasks import TaskOwner
from pyromq.errors import MQError
from pyromq.net import Backoff

logger = logging.getLogger(__name__)

_PAUSE: Final = Backoff(first_ms=200, ceiling_ms=1_000)
_SHORT_PAUSES: Final = 8  # a planned change takes half a second: who pauses longer and longer meanwhile misses its end
_DOUBLINGS_MAX: Final = 10
LOOK_FOR_MS: Final = 600_000


class MasterWatch:
    """``look`` whenever a route has changed; its task asks until all brokers have masters, or gives up."""

    def __init__(
        self,
        routes: Routes,
        tasks: TaskOwner,
        rng: Random,
        *,
        timeout_ms: int,
        is_silent: Callable[[str], bool] = lambda address: False,
    ) -> None:
        self._routes = routes
        self._is_silent = is_silent
        self._tasks = tasks
        self._rng = rng
        self._timeout_ms = timeout_ms
        self._is_asking = False

    def look(self) -> None:
        if not self._is_asking and self._without_master():
            self._is_asking = True
            self._tasks.start(self._ask(), name="masters")

    def _without_master(self) -> dict[str, list[str]]:
        """Topics of each broker that has no master, as their routes say, or one that does not answer."""
        found: dict[str, list[str]] = {}
        for topic in self._routes.topics():
            route = self._routes.known(topic)
            for broker in route.broker_datas if route is not None else ():
                master = broker.master_addr
                if broker.broker_addrs and (not master or self._is_silent(master)):
                    found.setdefault(broker.broker_name, []).append(topic)
        return found

    async def _ask(self) -> None:
        pauses, paused_ms = 0, 0
        try:
            while paused_ms < LOOK_FOR_MS and (missing := self._without_master()):
                pause_ms = _PAUSE.delay_ms(min(max(0, pauses - _SHORT_PAUSES), _DOUBLINGS_MAX), self._rng)
                await asyncio.sleep(pause_ms / 1000)
                pauses, paused_ms = pauses + 1, paused_ms + pause_ms
                for broker, topics in missing.items():
                    await self._refresh(topics[0])
                    if topics[0] not in self._without_master().get(broker, []):
                        for topic in topics[1:]:
                            await self._refresh(topic)
        finally:
            self._is_asking = False

    async def _refresh(self, topic: str) -> None:
        try:
            await self._routes.refresh(topic, timeout_ms=self._timeout_ms)
        except MQError as error:
            logger.info("route not renewed: topic=%s error=%s", topic, error)
