"""Renewals: messages that are worked on stay ours; each is renewed when a third of its invisible time is left."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from pyromq.client.consumer.popping.leases import LeasedMessage
from pyromq.client.consumer.popping.pop_calls import PopCalls
from pyromq.clock import Clock
from pyromq.errors import ClientClosedError, LeaseLostError, MQError

logger = logging.getLogger(__name__)

_LEFT: Final = 3  # a renewal is due when one part in so many is left
_LOOK_MS_MAX: Final = 500
_AT_ONCE_MAX: Final = 64


class LeaseRenewals:
    """Renewals of one consumer's invisible times; ``lost(message)`` is called for one that another consumer has
    by now.
    """

    def __init__(self, calls: PopCalls, clock: Clock, lost: Callable[[LeasedMessage], None]) -> None:
        self._calls = calls
        self._clock = clock
        self._lost = lost
        self._held: dict[LeasedMessage, None] = {}
        self._begun = asyncio.Event()

    def __len__(self) -> int:
        return len(self._held)

    def add(self, message: LeasedMessage) -> None:
        self._held[message] = None
        self._begun.set()

    def discard(self, message: LeasedMessage) -> None:
        self._held.pop(message, None)

    async def run(self) -> None:
        while True:
            if not self._held:
                self._begun.clear()
                await self._begun.wait()
            await asyncio.sleep(self.wait_ms() / 1000)
            await self.renew_due()

    def wait_ms(self) -> int:
        """Until the next look; short invisible times are looked at more often."""
        shortest = min((message.held.invisible_ms for message in self._held), default=_LOOK_MS_MAX * 4 * _LEFT)
        return max(1, min(_LOOK_MS_MAX, shortest // (4 * _LEFT)))

    async def renew_due(self) -> None:
        clock = self._clock
        due = [each for each in self._held if each.held.until.left_ms(clock) * _LEFT <= each.held.invisible_ms]
        for start in range(0, len(due), _AT_ONCE_MAX):
            await asyncio.gather(*map(self._renew, due[start : start + _AT_ONCE_MAX]))

    async def _renew(self, message: LeasedMessage) -> None:
        if message not in self._held:
            return
        try:
            await self._calls.change(message, message.held.invisible_ms)
        except LeaseLostError:
            if message in self._held:
                self.discard(message)
                self._lost(message)
        except ClientClosedError:
            return
        except MQError as error:  # the next look tries again, until its time is over
            logger.warning("invisible time not renewed: id=%s error=%s", message.message_id, error)
