"""Many connections: idle ones, busy ones, ones that come and go. A server's memory has a bound, others are served."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from pyromq.wire.codes import RequestCode
from tests.hostile.rig import Peer, Victim, beside_honest_client, count, victim

pytestmark = pytest.mark.integration

Record = Callable[[str, object], None]
AT_ONCE = 50
KB_PER_CONNECTION_MAX = 60
SPARE_FILES = 500


def with_files_for(connections: int) -> int:
    """As many as this process and its children may open; both sides of a connection are files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + SPARE_FILES
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return min(connections, soft - SPARE_FILES)


async def connected(stack: AsyncExitStack, address: str, number: int) -> list[Peer]:
    peers: list[Peer] = []
    for begin in range(0, number, AT_ONCE):
        found = [Peer(address) for _ in range(min(AT_ONCE, number - begin))]
        await asyncio.gather(*(stack.enter_async_context(peer) for peer in found))
        peers += found
    return peers


def address_of(server: Victim, which: str) -> str:
    return server.broker if which == "broker" else server.nameserver


@pytest.mark.parametrize("which", ["broker", "nameserver"])
async def test_idle_connections_cost_little(which: str, tmp_path: Path, record_property: Record) -> None:
    number = with_files_for(count(1_000, 9_900))
    async with victim(tmp_path) as server, AsyncExitStack() as stack:
        name = f"idle connections ({which})"
        async with beside_honest_client(server, name, number, record_property) as attack:
            peers = await connected(stack, address_of(server, which), number)
            await asyncio.gather(*(peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "t"}) for peer in peers[-5:]))
        assert (attack.after_mb - attack.before_mb) * 1024 < 20_000 + number * KB_PER_CONNECTION_MAX


async def test_busy_connections_are_all_answered(tmp_path: Path, record_property: Record) -> None:
    number = with_files_for(count(1_000, 9_900))
    async with victim(tmp_path) as server, AsyncExitStack() as stack:
        async with beside_honest_client(server, "connections that all ask (broker)", number, record_property) as attack:
            peers = await connected(stack, server.broker, number)
            for begin in range(0, number, AT_ONCE):
                some = peers[begin : begin + AT_ONCE]
                codes = await asyncio.gather(*(peer.ask(RequestCode.GET_MAX_OFFSET, _QUEUE) for peer in some))
                assert {answer.code for answer in codes} == {0}
        assert (attack.after_mb - attack.before_mb) * 1024 < 20_000 + number * KB_PER_CONNECTION_MAX


_QUEUE = {"topic": "honest", "queueId": "0"}


@pytest.mark.parametrize("which", ["broker", "nameserver"])
async def test_connections_that_come_and_go_leave_nothing(which: str, tmp_path: Path, record_property: Record) -> None:
    number = count(1_000, 20_000)
    async with victim(tmp_path) as server:
        name = f"connect, ask, leave ({which})"
        async with beside_honest_client(server, name, number, record_property) as attack:
            for _ in range(0, number, AT_ONCE):
                async with AsyncExitStack() as stack:
                    for peer in await connected(stack, address_of(server, which), AT_ONCE):
                        peer.send(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "t"})
        assert attack.after_mb - attack.before_mb < 30


async def test_above_the_limit_connections_are_refused_and_those_that_are_there_are_served(
    tmp_path: Path, record_property: Record
) -> None:
    limit = 50
    environment = {"PYROMQ_BROKER_CONNECTIONS_MAX": str(limit)}
    async with victim(tmp_path, environment=environment) as server, AsyncExitStack() as stack:
        async with beside_honest_client(server, "connections above the limit (broker)", 200, record_property):
            refused = 0
            for _ in range(200):
                peer = await stack.enter_async_context(Peer(server.broker))
                try:
                    await peer.ask(RequestCode.GET_MAX_OFFSET, _QUEUE)
                except ConnectionError:
                    refused += 1
        assert 200 - limit <= refused < 200
        assert "connection refused, limit reached: peer=127.0.0.1" in server.log
        assert server.log.count("limit reached") < 20, "a flood is not a flood of lines"
