"""Consumers that pop, over both protocols: most messages are acknowledged, some released, some forgotten.

A message counts as consumed when its acknowledgement was confirmed, or nobody knows what became of it; not when it was
refused: then it has to come again. After the faults nothing is forgotten any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from pyromq.aio import MQError, SimpleConsumer
from pyromq.errors import LeaseLostError
from pyromq.settings import ClientSettings
from tests.grpc.consumer import FAILURES, GrpcConsumer, ReceiptRefusedError, facts_of, popped_ms
from tests.grpc.pop_book import Place
from tests.sim.cluster import GRPC_PORT, World
from tests.sim.history import Delivery
from tests.sim.patches import WALL_MS

TOPIC: Final = "plain"
_INVISIBLE_S: Final = 10.0  # the least that gRPC allows
_WAIT_S: Final = 3.0
_BATCH: Final = 8
_AGAIN_S: Final = 0.3
_FORGOTTEN, _RELEASED = 0.08, 0.16
REFUSED: Final = (LeaseLostError, ReceiptRefusedError)


@dataclass(frozen=True)
class Popper:
    """What both protocols share: whose messages these are, what is done with each, and where it is written down."""

    world: World
    member: str
    group: str
    protocol: str
    is_calm: Callable[[], bool]  # faults are over

    def got(self, body: bytes, place: Place, attempt: int, handed_out_ms: int) -> str:
        key, history = body.partition(b"|")[0].decode(errors="replace"), self.world.history
        *queue, offset = place
        now_s = self.world.loop.true_s
        history.deliveries.append(
            Delivery(key, self.group, self.member, now_s, (queue[0], queue[1], queue[2]), offset, attempt, TOPIC)
        )
        history.note("got", self.group, self.member, key, *place, attempt)
        history.pops.handed_out(self.group, place, (handed_out_ms - WALL_MS) / 1000)
        return key

    async def settle(
        self, key: str, place: Place, ack: Callable[[], Awaitable[None]], release: Callable[[], Awaitable[None]]
    ) -> None:
        """Raises what ``ack`` and ``release`` do, but for a refusal."""
        history, luck = self.world.history, self.world.loop.rng.random()
        if luck < _FORGOTTEN and not self.is_calm():
            return
        if luck < _RELEASED and not self.is_calm():
            with suppress(*REFUSED):
                await release()
            return
        history.consumed[self.group][key] += 1  # perhaps: this client may be killed before it hears of it
        try:
            await ack()
        except REFUSED:
            history.note("refused", self.group, self.member, key)
            self._not_consumed(key)
            return
        history.pops.acknowledged(self.group, place, self.world.loop.true_s)
        history.counts[f"acks confirmed, {self.protocol}"] += 1

    def _not_consumed(self, key: str) -> None:
        consumed = self.world.history.consumed[self.group]
        consumed[key] -= 1
        if consumed[key] <= 0:
            del consumed[key]

    async def failed(self, error: BaseException) -> None:
        self.world.history.note("pop failed", self.member, type(error).__name__)
        await asyncio.sleep(_AGAIN_S)


async def pop_by_remoting(popper: Popper, settings: ClientSettings) -> None:
    async with SimpleConsumer(
        client_settings=settings, group=popper.group, topics=TOPIC, start="earliest", invisible=_INVISIBLE_S
    ) as consumer:
        while True:
            try:
                for message in await consumer.receive(_BATCH, wait=_WAIT_S):
                    place = TOPIC, message.broker, message.queue_id, message.offset
                    key = popper.got(message.body, place, message.delivery_attempt, popped_ms(message.receipt))
                    await popper.settle(
                        key, place, lambda m=message: consumer.ack(m), lambda m=message: consumer.release(m)
                    )
            except MQError as error:
                await popper.failed(error)


async def pop_by_grpc(popper: Popper, client_id: str) -> None:
    world = popper.world
    (broker,) = world.plan.sets  # it is asked by address: other sets would not be found
    addresses = [(f"10.0.0.{number + 1}", GRPC_PORT) for number in range(world.plan.sets[broker])]
    consumer = GrpcConsumer(addresses, client_id, popper.group, TOPIC)
    while True:
        try:
            for message in await consumer.receive(_BATCH, wait_s=_WAIT_S, invisible_s=_INVISIBLE_S):
                facts = facts_of(message)
                place = TOPIC, broker, facts.queue_id, facts.queue_offset or 0
                handed_out_ms = popped_ms(facts.receipt_handle or "")
                key = popper.got(message.body, place, (facts.delivery_attempt or 1) - 1, handed_out_ms)
                await popper.settle(
                    key,
                    place,
                    lambda m=message: consumer.ack(m),
                    lambda m=message: consumer.release(m, invisible_s=_INVISIBLE_S),
                )
        except FAILURES as error:
            consumer.leave()
            await popper.failed(error)
