"""Connections that claim a large frame and send most of it: those that leave are forgotten, those that stay limited."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from tests.hostile.rig import Peer, Victim, beside_honest_client, count, victim

pytestmark = pytest.mark.integration

CLAIMED = 16_000_000
SENT = 12_000_000


async def leave_in_the_middle(address: str, rounds: int) -> None:
    head = struct.pack(">II", CLAIMED, 100)
    for _ in range(rounds):
        async with Peer(address) as peer:
            peer.writer.write(head + bytes(SENT))
            await peer.writer.drain()


def address_of(server: Victim, which: str) -> str:
    return server.broker if which == "broker" else server.nameserver


@pytest.mark.parametrize("which", ["broker", "nameserver"])
async def test_half_read_frames_of_dead_connections_are_forgotten(
    which: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    rounds = count(15, 60)
    async with victim(tmp_path) as server:
        name = f"12 of 16 MB of a frame, then gone ({which})"
        async with beside_honest_client(server, name, rounds, record_property) as attack:
            await leave_in_the_middle(address_of(server, which), rounds)
        assert attack.after_mb - attack.before_mb < 80, "two such frames may be on their way, not fifteen"


@pytest.mark.parametrize("which", ["broker", "nameserver"])
async def test_half_read_frames_of_living_connections_share_a_limit(
    which: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    held = count(12, 60)
    limit = {f"PYROMQ_{which.upper()}_HALF_READ_BYTES_MAX": str(64 << 20)}
    async with victim(tmp_path, environment=limit) as server:
        name = f"12 of 16 MB of a frame, held ({which})"
        async with beside_honest_client(server, name, held, record_property) as attack, AsyncExitStack() as stack:
            for _ in range(held):
                peer = await stack.enter_async_context(Peer(address_of(server, which)))
                peer.writer.write(struct.pack(">II", CLAIMED, 100) + bytes(SENT))
                with suppress(ConnectionError):
                    await peer.writer.drain()
            held_mb = server.rss_mb
        assert held_mb - attack.before_mb < 64 + 60, "the limit, and two frames on their way"
        assert "half-read frames of all connections are over their limit" in server.log
