"""A set of three is upgraded member by member under load, and rolled back: no acknowledged message is lost."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pyromq.aio import Message, Producer
from pyromq.errors import MQError
from tests.integration.failover_rig import FailoverRig, Member, failover_rig
from tests.integration.lease_stores import etcd
from tests.integration.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.more]

ROOT = Path(__file__).parents[2]
BEFORE = "3c4b20ae"  # the state before this one that had failover; the last release, once there is one


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    with etcd() as address:
        yield f"etcd:{address}"


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sources of the state before."""
    folder = tmp_path_factory.mktemp("earlier")
    packed = subprocess.run(["git", "archive", BEFORE, "src"], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode:
        pytest.skip(f"this folder has no history with {BEFORE}: nothing to upgrade from")
    subprocess.run(["tar", "-x"], cwd=folder, input=packed.stdout, check=True)
    return folder / "src"


@asynccontextmanager
async def load(rig: FailoverRig) -> AsyncIterator[list[str]]:
    """Bodies that were acknowledged, one after the other, while the block runs."""
    stored: list[str] = []

    async def send() -> None:
        async with Producer(rig.nameserver, group="senders") as producer:
            for number in range(1_000_000):
                body = f"order-{number}"
                try:
                    await producer.send(Message("orders", body.encode()))
                except MQError:
                    continue
                stored.append(body)
                await asyncio.sleep(0.01)

    task = asyncio.create_task(send())
    try:
        yield stored
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def replace_all(rig: FailoverRig, sources: Path | None) -> None:
    """Replicas first, the master last, each back in sync before the next: as docs/reference/versions.md says."""
    master = await rig.master(in_sync=3)
    for member in [*(each for each in rig.members if each is not master), master]:
        await replaced(rig, member, sources)


async def replaced(rig: FailoverRig, member: Member, sources: Path | None) -> None:
    await member.stop()
    member.use(sources)
    await member.start()
    await rig.master(in_sync=3)


async def goes_on(stored: list[str], more: int = 20) -> None:
    wanted = len(stored) + more
    await until(lambda: len(stored) >= wanted, f"{more} more messages", 60)


async def test_a_set_of_three_is_upgraded_and_rolled_back_under_load(
    tmp_path: Path, store: str, earlier: Path, record_property: Callable[[str, object], None]
) -> None:
    async with failover_rig(tmp_path, store, count=3, sources=earlier) as rig:
        await rig.master(in_sync=3)
        async with load(rig) as stored:
            await goes_on(stored)
            await replace_all(rig, None)
            await goes_on(stored)
            upgraded = len(stored)
            await replace_all(rig, earlier)
            await goes_on(stored)
        await rig.master(in_sync=3)
        missing = set(stored) - await rig.bodies("orders")
        print(f"acknowledged {len(stored)}, {upgraded} of them until all were upgraded; lost {len(missing)}")
        record_property("ledger messages", len(stored))
        record_property("ledger messages lost", len(missing))
        assert not missing


async def test_clients_and_brokers_of_both_states_understand_each_other(
    tmp_path: Path, store: str, earlier: Path
) -> None:
    """A new client with an old broker is what the rounds above do; here an old client with a new broker."""
    program = """
import sys
from pyromq import Message, Producer, PushConsumer
import threading
seen = threading.Event()
with Producer(sys.argv[1], group="old") as producer:
    print(producer.send(Message("orders", b"from before")).message_id)
with PushConsumer(sys.argv[1], group="readers", topics="orders", start="earliest", listener=lambda each: seen.set()):
    assert seen.wait(30)
"""

    async with failover_rig(tmp_path, store, count=1) as rig:
        await rig.master()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", program, rig.nameserver), env={**os.environ, "PYTHONPATH": str(earlier)}
        )
        assert await process.wait() == 0
        assert await rig.bodies("orders") == {"from before"}
