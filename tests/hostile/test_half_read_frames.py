"""Connections that claim a large frame, send most of it and leave: their memory goes with them."""

from __future__ import annotations

import struct
from collections.abc import Callable
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
