"""Pop loops of a push consumer in pop mode: one for each broker of each topic, as routes are."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from pyromq.client.consumer.base.settings import PushConsumerSettings
from pyromq.client.consumer.popping.leases import LeasedMessage
from pyromq.client.consumer.popping.pop_calls import PopCalls, PopTarget, PopTerms
from pyromq.client.consumer.popping.simple_consumer import targets_of
from pyromq.client.core.client import Client
from pyromq.errors import MQError, NoPermissionError
from pyromq.wire.json.heartbeat import Subscription

logger = logging.getLogger(__name__)

_LOOK_S: Final = 1.0  # between two looks at routes


class PopTaker(Protocol):
    """Receiver of popped messages."""

    async def room(self) -> int:
        """How many more there is room for; waits until there is some."""
        ...

    def took(self, target: PopTarget, messages: list[LeasedMessage], seconds: float) -> None: ...


class PopLoops:
    """``run`` until it is cancelled; ``first_round`` is set when every broker that is known was asked once."""

    def __init__(
        self,
        client: Client,
        calls: PopCalls,
        settings: PushConsumerSettings,
        subscriptions: Callable[[], Iterable[Subscription]],
        taker: PopTaker,
        refused: Callable[[NoPermissionError], object],
    ) -> None:
        self._client = client
        self._calls = calls
        self._settings = settings
        self._subscriptions = subscriptions
        self._taker = taker
        self._refused = refused
        self._loops: dict[tuple[PopTarget, Subscription], asyncio.Task[None]] = {}
        self._asked: set[PopTarget] = set()
        self.first_round = asyncio.Event()

    async def run(self) -> None:
        """Run a loop for each queue, following routes and subscriptions."""
        try:
            while True:
                self._follow(await self._wanted())
                await asyncio.sleep(_LOOK_S)
        finally:
            loops = list(self._loops.values())
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)

    async def _wanted(self) -> dict[tuple[PopTarget, Subscription], None]:
        found: dict[tuple[PopTarget, Subscription], None] = {}
        for subscription in self._subscriptions():
            try:
                for target in await targets_of(self._client, subscription.topic):
                    found[target, subscription] = None
            except MQError as error:
                logger.info("nothing to pop from yet: topic=%s error=%s", subscription.topic, error)
                found.update((key, None) for key in self._loops if key[1] == subscription)
        return found

    def _follow(self, wanted: dict[tuple[PopTarget, Subscription], None]) -> None:
        for key in [each for each in self._loops if each not in wanted]:
            self._loops.pop(key).cancel()
        for key in wanted:
            if key not in self._loops or self._loops[key].done():
                self._loops[key] = asyncio.ensure_future(self._pop_on(*key))

    async def _pop_on(self, target: PopTarget, subscription: Subscription) -> None:
        while True:
            try:
                await self._pop_once(target, subscription)
            except NoPermissionError as error:
                self._refused(error)
                await asyncio.sleep(self._settings.error_wait_ms / 1000)
            except MQError as error:
                logger.warning("pop failed, trying again: target=%s error=%s", target, error)
                await asyncio.sleep(self._settings.error_wait_ms / 1000)
            except Exception:  # a mistake of ours must not end consuming
                logger.exception("pop failed, trying again: target=%s", target)
                await asyncio.sleep(self._settings.error_wait_ms / 1000)

    async def _pop_once(self, target: PopTarget, subscription: Subscription) -> None:
        count, clock = await self._taker.room(), self._client.clock
        is_first = target not in self._asked
        terms = PopTerms(
            count=count,
            invisible_ms=self._settings.invisible_ms,
            poll_ms=0 if is_first else self._settings.suspend_ms,
            newest=self._settings.start == "latest",
        )
        began_s = clock.monotonic_s()
        messages = await self._calls.pop(target, subscription, terms)
        if is_first:
            self._asked.add(target)
            if self._asked >= {key[0] for key in self._loops}:
                self.first_round.set()
        if messages:
            self._taker.took(target, messages, clock.monotonic_s() - began_s)
