"""What a replica does not have yet is not shown: when it takes over, other messages get the same offsets."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pyromq import Message
from pyromq.aio import PushConsumer, QueueId, ReceivedMessage
from pyromq.client.core.client import Client
from pyromq.results import SendStatus
from pyromq.settings import ClientSettings
from tests.integration.replication_pair import CuttingProxy, Pair, a_pair
from tests.integration.test_push_consumer import FAST
from tests.integration.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]

QUEUE = QueueId("orders", "broker-a", 0)


class Reader:
    """A consumer that notes what it gets."""

    def __init__(self, pair: Pair) -> None:
        self.bodies: list[bytes] = []
        self.client = Client(ClientSettings(nameservers=pair.nameserver))
        self.consumer = PushConsumer(client=self.client, listener=self.consume, settings=FAST, group="readers")
        self.consumer.subscribe("orders")

    async def consume(self, message: ReceivedMessage) -> None:
        self.bodies.append(message.body)


def waiting_sends(pair: Pair) -> int:
    assert pair.master is not None
    return pair.master.parts.write_path.pressure.waiting_for_replicas


@pytest.mark.parametrize("status", [SendStatus.SEND_OK, SendStatus.FLUSH_SLAVE_TIMEOUT, SendStatus.SLAVE_NOT_AVAILABLE])
async def test_a_message_is_read_when_its_send_is_answered_and_not_before(tmp_path: Path, status: SendStatus) -> None:
    is_late = status is SendStatus.FLUSH_SLAVE_TIMEOUT
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        master = await pair.start_master(confirm_timeout_ms=2_000 if is_late else 60_000)
        async with CuttingProxy(pair.leader.address) as proxy:
            await pair.start_replica(master_replication_address=proxy.address)
            await until(lambda: pair.leader.replicas.in_sync(pair.leader.end), "the replica is in sync")
            reader = Reader(pair)
            async with reader.client, reader.consumer:
                await producer.send(Message("orders", b"first"), queue=QUEUE)
                await until(lambda: reader.bodies == [b"first"], "read")
                proxy.swallows_to_master = True
                sending = asyncio.ensure_future(producer.send(Message("orders", b"second"), queue=QUEUE))
                await until(lambda: waiting_sends(pair), "the send waits")
                known = master.store.reader.range_of("orders", 0)
                assert known is not None and known.end == 1, "nobody sees it"
                if status is SendStatus.SEND_OK:
                    proxy.swallows_to_master = False
                    proxy.cut()  # the replica connects again, and says what it has
                elif status is SendStatus.SLAVE_NOT_AVAILABLE:
                    proxy.accepts = False
                    proxy.cut()
                if status is not SendStatus.SEND_OK:
                    assert (await sending).status is status
                await until(lambda: reader.bodies == [b"first", b"second"], "read, once it was answered")
                await sending
