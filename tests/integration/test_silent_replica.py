"""A replica that hangs under a failover agent: senders wait for it once, until the lease names it no more."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq import Message
from pyromq.aio import Producer
from pyromq.results import SendStatus
from tests.integration.failover_rig import failover_rig
from tests.integration.lease_stores import etcd

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def etcd_address() -> Iterator[str]:
    with etcd() as address:
        yield address


@pytest.mark.parametrize(("count", "left"), [(2, SendStatus.SLAVE_NOT_AVAILABLE), (3, SendStatus.SEND_OK)])
async def test_sends_wait_for_a_hanging_member_once(
    tmp_path: Path, etcd_address: str, count: int, left: SendStatus
) -> None:
    async with failover_rig(tmp_path, f"etcd:{etcd_address}", count=count, lease_s=9.0) as rig:
        first = await rig.master(in_sync=count)
        other = next(each for each in rig.members if each is not first)
        await rig.follows(other)
        async with Producer(rig.nameserver, group="senders") as producer:
            assert (await producer.send(Message("orders", b"before"))).status is SendStatus.SEND_OK
            await rig.caught_up(first, other)
            other.pause()
            took = []
            for number in range(5):
                began = time.monotonic()
                receipt = await producer.send(Message("orders", f"{number}".encode()), timeout_ms=60_000)
                took.append(round(time.monotonic() - began, 2))
                assert receipt.status is left, f"send {number} after {took} s"
            other.resume()
            assert await rig.master(in_sync=count) is first, "it joins again"
            print(f"sends took {took} s")
