"""A client of gRPC that opens no window: messages are read for it up to a bound, and then no more."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pyromq.wire.grpc.codes import StatusCode
from pyromq.wire.grpc.definitions import FilterExpression, MessageQueue, ProtoTime, Resource
from pyromq.wire.grpc.framing import MessageCutter
from pyromq.wire.grpc.protobuf import decode
from pyromq.wire.grpc.services import PullMessageRequest, ReceiveMessageRequest, ReceiveMessageResponse
from pyromq.wire.http2 import frames
from tests.grpc.raw import RawPeer
from tests.integration.grpc_client import grpc_broker, message

pytestmark = pytest.mark.integration
ORDERS, READERS = Resource(name="orders"), Resource(name="readers")
ALL = FilterExpression(kind=1, expression="*")


async def test_who_does_not_read_gets_no_more_messages_and_is_told_why(tmp_path: Path) -> None:
    async with grpc_broker(tmp_path) as (broker, client):
        for _ in range(8):
            assert (await client.send(message(b"x" * 1_000_000))).status.code == StatusCode.OK  # type: ignore[union-attr]
        assert broker.grpc_address is not None
        pull = PullMessageRequest(
            group=READERS, message_queue=MessageQueue(topic=ORDERS), batch_size=32, filter_expression=ALL
        )
        receive = ReceiveMessageRequest(
            group=READERS,
            message_queue=MessageQueue(topic=ORDERS),
            filter_expression=ALL,
            batch_size=1,
            invisible_duration=ProtoTime(seconds=60),
        )
        async with RawPeer(str(broker.grpc_address), initial_window_size=0) as peer:
            pulls = [peer.call(2 * number + 1, "PullMessage", pull) for number in range(40)]
            await peer.send(b"".join(pulls))
            asked = asyncio.get_running_loop().time()
            while not peer.is_answered_by_head(79):  # the last one waits for its window
                await peer.look()
                assert asyncio.get_running_loop().time() - asked < 60
            await peer.send(peer.call(81, "ReceiveMessage", receive))
            await peer.send(frames.encode_window_update(81, 1 << 20))
            while not (found := peer.data_of(81)):
                await peer.look()
                assert asyncio.get_running_loop().time() - asked < 60
            first = decode(ReceiveMessageResponse, MessageCutter(1 << 20).feed(found)[0])
            assert first.status is not None and first.status.code == StatusCode.TOO_MANY_REQUESTS
            assert "read them first" in first.status.message
        assert not broker.parts.popping.pops.table.queues, "nothing was handed out"
