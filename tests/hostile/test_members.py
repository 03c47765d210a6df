"""Many members of one group: joining does not cost more with each of them, and they hear of each other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from pyromq.wire.codes import RequestCode as Code
from tests.hostile.rig import Peer, beside_honest_client, count, victim

pytestmark = pytest.mark.integration


def heartbeat(number: int) -> bytes:
    subscriptions = [{"topic": f"topic-{n}", "subString": "*", "subVersion": 1} for n in range(10)]
    consumers = [{"groupName": "crowd", "subscriptionDataSet": subscriptions}]
    return json.dumps({"clientID": f"member-{number:05}", "consumerDataSet": consumers}).encode()


async def response_of(peer: Peer, number: int, told: set[int]) -> None:
    """Until the response to that request; notices before it are noted."""
    while True:
        command = await peer.receive()
        if command.is_response and command.correlation_id == number:
            assert command.code == 0, command.remark
            return
        assert command.code == Code.NOTIFY_CONSUMER_IDS_CHANGED
        told.add(id(peer))


async def test_members_join_and_come_back_all_at_once(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    members = count(400, 5_000)
    async with victim(tmp_path) as server:
        async with beside_honest_client(server, "members of one group connect at once", 2 * members, record_property):
            for _ in range(2):
                async with AsyncExitStack() as stack:
                    peers = [await stack.enter_async_context(Peer(server.broker)) for _ in range(members)]
                    told: set[int] = set()
                    numbers = [peer.send(Code.HEART_BEAT, body=heartbeat(n)) for n, peer in enumerate(peers)]
                    await asyncio.gather(
                        *(response_of(peer, number, told) for peer, number in zip(peers, numbers, strict=True))
                    )
                    number = peers[0].send(Code.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "crowd"})
                    while (command := await peers[0].receive()).correlation_id != number or not command.is_response:
                        pass
                    assert len(json.loads(command.body)["consumerIdList"]) == members
                    newcomer = await stack.enter_async_context(Peer(server.broker))
                    newcomer.send(Code.HEART_BEAT, body=heartbeat(members))
                    await asyncio.gather(*(_notice(peer) for peer in peers))


async def _notice(peer: Peer) -> None:
    """Every member hears that somebody joined, once or a few times."""
    while (await peer.receive()).code != Code.NOTIFY_CONSUMER_IDS_CHANGED:
        pass
