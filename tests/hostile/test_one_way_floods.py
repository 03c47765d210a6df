"""Sends in a row that nobody waits for: whoever else sends is served between them, whatever way they take."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from pyromq.compiled_core import core
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.command import encode_request
from pyromq.wire.properties import encode_properties
from tests.hostile.every_request import request_of
from tests.hostile.rig import LONG, Peer, beside_honest_client, count, no_stall, victim

pytestmark = pytest.mark.integration
Record = Callable[[str, object], None]
WAIT_CPU_MS_MAX = 50  # of the server's loop, between an honest send and its response: half of them, for the other half
# may wait for a CPU of their own while the server works on
CONNECTIONS = 8
FRAMES = 2_500  # more than a read takes

KINDS = {
    "timers": {"TIMER_DELAY_SEC": "3600"},
    "delays": {"DELAY": "18"},
    "prepared": {"TRAN_MSG": "true", "PGROUP": "senders"},
    "plain": {},
}
MODES = ["core", "pure"] if core is not None else ["pure"]
ALL = [(kind, mode) for kind in KINDS for mode in MODES]
SHORT = [(kind, mode) for kind, mode in ALL if (kind, mode) in (("timers", MODES[0]), ("plain", "pure"))]


def flood(kind: str) -> bytes:
    """So many one-way sends as a peer writes them: more than a read takes."""
    fields, _ = request_of(Code.SEND_MESSAGE_V2, "flooded", "senders")
    fields["i"] = encode_properties(KINDS[kind]).decode()
    return encode_request(Code.SEND_MESSAGE_V2, 1, fields, body=b"x", oneway=True) * FRAMES


async def all_done(connections: list[Peer]) -> None:
    """Wait until everything that these have sent was served."""
    for peer in connections:
        peer.send(Code.GET_MAX_OFFSET, {"topic": "flooded", "queueId": "0"})
    for peer in connections:
        await peer.receive(600)


@pytest.mark.parametrize(("kind", "mode"), ALL if LONG else SHORT)
async def test_one_way_sends_leave_room_for_others(
    kind: str, mode: str, tmp_path: Path, record_property: Record
) -> None:
    rounds = count(1, 10)
    environment = {"PYROMQ_PURE": "1"} if mode == "pure" else None
    frames = flood(kind)
    async with victim(tmp_path, environment=environment) as server, AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(Peer(server.broker)) for _ in range(CONNECTIONS)]
        fields, _ = request_of(Code.SEND_MESSAGE_V2, "flooded", "senders")
        assert (await peers[0].ask(Code.SEND_MESSAGE_V2, fields, b"x")).code == 0
        name, tries = f"one-way {kind} ({mode})", rounds * CONNECTIONS * FRAMES
        async with beside_honest_client(server, name, tries, record_property) as attack:
            for peer in peers:
                peer.writer.write(frames * rounds)
            await all_done(peers)
        assert attack.honest["broker_cpu_ms"] <= WAIT_CPU_MS_MAX, attack.honest
        await no_stall(server)
