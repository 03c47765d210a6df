"""Small messages that decompress to large ones: what listeners have of them at once is bounded, and none is lost."""

from __future__ import annotations

import asyncio

import pytest

from pyromq.aio import Message, Producer, PushConsumer, ReceivedMessage
from pyromq.client.core.received_message import InflatedBodies
from pyromq.testing import LoopbackBroker

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]

MIB = 1 << 20
COUNT = 24
TOGETHER = 80 * MIB


def test_coroutines_hold_no_more_inflated_bytes_than_allowed_and_every_message_is_consumed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = InflatedBodies(TOGETHER)
    monkeypatch.setattr("pyromq.client.core.received_message.inflated_bodies", made)
    seen, peak, held = set[str](), 0, 0

    async def hold(message: ReceivedMessage) -> None:
        nonlocal peak, held
        size = len(message.body)
        held += size
        peak = max(peak, held)
        await asyncio.sleep(5)
        held -= size
        seen.add(message.keys[0])

    async def main() -> None:
        async with LoopbackBroker(virtual_time=True) as broker:
            async with Producer(broker.nameserver, group="bomber") as producer:
                for number in range(COUNT):
                    await producer.send(Message("orders", bytes(8 * MIB), keys=str(number)))
            consumer = PushConsumer(
                broker.nameserver, group="billing", topics="orders", listener=hold, start="earliest"
            )
            async with consumer:
                await asyncio.sleep(300)

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(main())
    assert len(seen) == COUNT and 0 < peak <= TOGETHER
