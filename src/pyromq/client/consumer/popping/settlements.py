"""Settlements: what listeners are done with becomes acknowledgements, new invisible times, or dead letters.

A request that no broker answers is repeated until the message's time is over: then it comes again elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, ClassVar, Final

from pyromq.client.consumer.base.settings import PushConsumerSettings
from pyromq.client.consumer.dispatch.send_back import SendBacks
from pyromq.client.consumer.popping.leases import LeasedMessage
from pyromq.client.consumer.popping.pop_calls import PopCalls
from pyromq.client.consumer.rules.outcome import DEAD_LETTER_LEVEL, SendBack, attempts_max
from pyromq.client.core.tasks import TaskOwner
from pyromq.clock import Clock
from pyromq.errors import ClientClosedError, LeaseLostError, MQError
from pyromq.model.delay_levels import LEVELS_MS

logger = logging.getLogger(__name__)

_FIRST_LEVEL: Final = 3  # of the first failure: 10 s, as RocketMQ's clients have it
_AGAIN_S: Final = 0.2
_ACKS_MAX: Final = 256  # of one request
_ATTEMPTS_MAX: Final = 16  # where neither the consumer nor the broker counts


def retry_ms(level: int, attempt: int) -> int:
    """How long a failed message waits: the time of its delay level; 0 is that of its attempt, counted from 0."""
    number = level or _FIRST_LEVEL + attempt
    return LEVELS_MS[min(max(1, number), len(LEVELS_MS)) - 1]


class Settlements:
    """Those of one consumer; ``made_room()`` is called when some are over."""

    AT_ONCE: ClassVar[int] = -2
    """A level of ours: the message comes again at once, uncounted."""

    def __init__(
        self,
        calls: PopCalls,
        send_backs: SendBacks,
        tasks: TaskOwner,
        settings: PushConsumerSettings,
        clock: Clock,
        made_room: Callable[[], None],
    ) -> None:
        self._calls = calls
        self._send_backs = send_backs
        self._tasks = tasks
        self._settings = settings
        self._clock = clock
        self._made_room = made_room
        self._acks: dict[str, list[LeasedMessage]] = {}  # of this loop iteration, by broker
        self._count = 0
        self._quiet = asyncio.Event()

    def __len__(self) -> int:
        """Messages whose fate is on its way."""
        return self._count

    # --- what to do ---

    def acknowledge(self, messages: Iterable[LeasedMessage]) -> None:
        for message in messages:
            self._count += 1
            if not self._acks:
                asyncio.get_running_loop().call_soon(self._send_acks)
            self._acks.setdefault(message.broker, []).append(message)

    def failed(self, item: SendBack[LeasedMessage]) -> None:
        self._count += 1
        self._start(self._settle(item), 1)

    def _send_acks(self) -> None:
        acks, self._acks = self._acks, {}
        for broker, messages in acks.items():
            for start in range(0, len(messages), _ACKS_MAX):
                some = messages[start : start + _ACKS_MAX]
                self._start(self._acknowledge(broker, some), len(some))

    def _start(self, work: Coroutine[Any, Any, None], count: int) -> None:
        async def run() -> None:
            try:
                await work
            except Exception:  # a mistake of ours; the messages come again
                logger.exception("messages not settled, they come again")
            finally:
                self._over(count)

        try:
            self._tasks.start(run(), name="settle")
        except ClientClosedError:
            work.close()
            self._over(count)

    def _over(self, count: int) -> None:
        self._count -= count
        self._made_room()
        if not self._count:
            self._quiet.set()

    # --- doing it ---

    async def _acknowledge(self, broker: str, messages: list[LeasedMessage]) -> None:
        await self._surely(messages, lambda: self._calls.ack_all(broker, messages))

    async def _settle(self, item: SendBack[LeasedMessage]) -> None:
        message = item.message
        if item.delay_level == self.AT_ONCE:
            await self._surely([message], lambda: self._calls.change(message, 0, suspend=True))
        elif await self._is_dead(item):
            if await self._bury(item):
                await self._acknowledge(message.broker, [message])
            else:
                await self._surely([message], lambda: self._calls.change(message, self._settings.retry_wait_ms))
        else:
            wait_ms = retry_ms(item.delay_level, message.delivery_attempt)
            await self._surely([message], lambda: self._calls.change(message, wait_ms))

    async def _is_dead(self, item: SendBack[LeasedMessage]) -> bool:
        """By the listener's word or by the consumer's limit; else PyroMQ's brokers count, and others do not."""
        if item.delay_level == DEAD_LETTER_LEVEL:
            return True
        failures, limit = item.message.delivery_attempt + 1, attempts_max(self._settings.attempts_max)
        if limit is not None:
            return failures > limit
        return failures > _ATTEMPTS_MAX and not await self._send_backs.is_counted_by_broker(item.message)

    async def _bury(self, item: SendBack[LeasedMessage]) -> bool:
        if item.reason:
            return await self._send_backs.give_up(item.message, item.reason, item.stage)
        return await self._send_backs.send_back(item.message, DEAD_LETTER_LEVEL)

    async def _surely(self, messages: list[LeasedMessage], ask: Callable[[], Coroutine[Any, Any, None]]) -> None:
        until = max(message.held.until for message in messages)
        while True:
            try:
                await ask()
                return
            except LeaseLostError as error:  # somebody else has it, or a response was lost
                logger.info("not settled, or settled before: messages=%d error=%s", len(messages), error)
                return
            except MQError as error:
                if until.left_ms(self._clock) < 0:
                    logger.warning("not settled, they come again: messages=%d error=%s", len(messages), error)
                    return
                await asyncio.sleep(_AGAIN_S)

    async def drain(self, timeout_s: float) -> None:
        """Wait for all of them."""
        try:
            async with asyncio.timeout(timeout_s):
                while self._count:
                    self._quiet.clear()
                    await self._quiet.wait()
        except TimeoutError:
            logger.warning("not all is settled, the rest comes again: messages=%d", self._count)
