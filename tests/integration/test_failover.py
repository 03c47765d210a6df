"""Failover with real processes: whoever dies or is stopped, one broker is master, and nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pyromq import Message
from pyromq.aio import Producer
from pyromq.errors import MQError
from tests.integration.failover_rig import LEASE_S, FailoverRig, failover_rig
from tests.integration.lease_stores import etcd

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    with ExitStack() as stack:
        yield f"etcd:{stack.enter_context(etcd())}"


async def send_some(rig: FailoverRig, count: int, prefix: str) -> list[str]:
    """Bodies whose senders were told that they are stored; each is sent until one is."""
    stored = []
    async with Producer(rig.nameserver, group="senders") as producer:
        for number in range(count):
            body = f"{prefix}-{number}"
            for _ in range(600):
                try:
                    await producer.send(Message("orders", body.encode()))
                except MQError:
                    await asyncio.sleep(0.1)
                    continue
                stored.append(body)
                break
    return stored


async def test_a_replica_takes_over_from_a_killed_master_which_comes_back_as_replica(
    tmp_path: Path, store: str
) -> None:
    async with failover_rig(tmp_path, store) as rig:
        first, other = await rig.master(in_sync=2), rig.members[1]
        await rig.follows(other)
        stored = await send_some(rig, 20, "before")
        loop = asyncio.get_running_loop()
        await first.kill()
        killed_s = loop.time()
        assert await rig.master(but_not=first) is other
        assert loop.time() - killed_s < LEASE_S * 11 / 9 + 30  # far below on an idle machine
        stored += await send_some(rig, 20, "after")
        assert await rig.bodies("orders") >= set(stored)
        await first.start()
        back = await rig.follows(first)
        assert back.number == 2 and back.master == other.address
        assert await rig.master(in_sync=2) is other
        assert await rig.addresses() == {0: other.address, 10: first.address}
