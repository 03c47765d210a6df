"""The broker's files in other hands: log files removed or renamed.

A send is acknowledged only if it is on a disk, reads go on, and the broker says what is wrong.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pyromq.wire.codes import RequestCode
from tests.hostile.rig import Peer, victim

pytestmark = pytest.mark.integration

SMALL = "[broker.store]\nsegment_bytes = 65_536\nqueue_file_entries = 1_000\nindex_slots = 100\nindex_entries = 500\n"
SEND = {
    "a": "senders", "b": "orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": "",
}  # fmt: skip


async def send(peer: Peer) -> int:
    return (await peer.ask(RequestCode.SEND_MESSAGE_V2, SEND, b"x" * 500)).code


async def pull(peer: Peer) -> int:
    asked = {
        "consumerGroup": "readers", "topic": "orders", "queueId": "0", "queueOffset": "0", "maxMsgNums": "1",
        "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
        "expressionType": "TAG",
    }  # fmt: skip
    return (await peer.ask(RequestCode.PULL_MESSAGE, asked)).code


async def until_refused(peer: Peer, tries: int = 400) -> int:
    """Sends until one is refused; how many were acknowledged."""
    for acknowledged in range(tries):
        if await send(peer) != 0:
            return acknowledged
        await asyncio.sleep(0.02)
    raise AssertionError("every send was acknowledged")


def settings_file(folder: Path) -> str:
    path = folder / "small.toml"
    path.write_text(SMALL + "full_percent = 100\n")
    return str(path)


@pytest.mark.parametrize("how", ["removed", "folder renamed"])
async def test_a_log_that_is_taken_away_is_noticed(how: str, tmp_path: Path) -> None:
    async with victim(tmp_path / "v", "--config", settings_file(tmp_path)) as server, Peer(server.broker) as peer:
        assert await send(peer) == 0
        (log,) = (tmp_path / "v").rglob("commitlog")
        if how == "removed":
            for path in log.iterdir():
                path.unlink()
            assert await until_refused(peer, 1) == 0, "its flush proves nothing: not one send is acknowledged"
        else:
            log.rename(log.with_name("elsewhere"))
            await until_refused(peer)
        assert await pull(peer) == 0
        assert "ERROR" in server.log and "another program" in server.log and "Traceback" not in server.log
