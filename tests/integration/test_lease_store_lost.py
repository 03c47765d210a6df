"""A lease store that was emptied or set back, with real processes: an old master that returns first waits."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq.failover.opening import open_lease_store
from pyromq.failover.record import LeaseRecord
from tests.integration.failover_rig import CLUSTER, FailoverRig, Member, failover_rig
from tests.integration.lease_stores import etcd
from tests.integration.test_failover import send_some
from tests.integration.waiting import PATIENCE_S

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with etcd() as address:
        yield address


async def set_to(rig: FailoverRig, address: str, record: LeaseRecord | None) -> None:
    """What the store has from now on; None: nothing."""
    if record is not None:
        store = open_lease_store(rig.store, CLUSTER, rig.name)
        found = await store.read()
        assert found is not None
        await store.write(record, found.version)
        return
    key = b64encode(f"pyromq/leases/{CLUSTER}/{rig.name}".encode()).decode()
    body = json.dumps({"key": key}).encode()
    await asyncio.to_thread(urllib.request.urlopen, f"{address}/v3/kv/deleterange", body)


async def waiting(rig: FailoverRig, member: Member, text: str) -> None:
    """Once it says that it waits, and for what; it never has a grant."""
    for _ in range(round(PATIENCE_S / 0.1)):
        status = await rig.status(member)
        if status is not None:
            assert status.granted_s == 0, "it acknowledges"
            if text in status.waiting:
                return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{member.address} does not wait")


@pytest.mark.parametrize("is_emptied", [True, False])
async def test_an_old_master_that_returns_first_waits_and_nothing_is_lost(
    tmp_path: Path, address: str, is_emptied: bool
) -> None:
    async with failover_rig(tmp_path, f"etcd:{address}", count=3) as rig:
        old = await rig.master(in_sync=3)
        backup = await rig.record()
        stored = await send_some(rig, 10, "before")
        await old.kill()
        new = await rig.master(but_not=old, in_sync=2)
        stored += await send_some(rig, 30, "after")
        for member in rig.members:
            await member.kill()
        await set_to(rig, address, None if is_emptied else backup)

        await old.start()
        await waiting(rig, old, "do not answer")
        other = next(each for each in rig.members if each not in (old, new))
        await other.start()
        await waiting(rig, old, f"{new.address}")  # it hears of a newer lease, and of its master
        log = old.agent.log.splitlines()
        assert len([line for line in log if "not sure that the lease store" in line]) <= 3, "once a change"
        await new.start()
        assert await rig.master(in_sync=3) is new
        assert await rig.bodies("orders") >= set(stored)
        stored += await send_some(rig, 10, "again")
        assert await rig.bodies("orders") >= set(stored)


async def test_a_running_set_whose_store_is_emptied_goes_on(tmp_path: Path, address: str) -> None:
    async with failover_rig(tmp_path, f"etcd:{address}") as rig:
        master = await rig.master(in_sync=2)
        stored = await send_some(rig, 10, "before")
        before = await rig.record()
        await set_to(rig, address, None)
        stored += await send_some(rig, 10, "after")
        assert await rig.master(in_sync=2) is master
        after = await rig.record()
        assert before is not None and after is not None and after.number == before.number
        assert await rig.bodies("orders") >= set(stored)


async def test_an_operator_chooses_a_member_and_sees_what_is_cut(tmp_path: Path, address: str) -> None:
    async with failover_rig(tmp_path, f"etcd:{address}", count=3) as rig:
        old = await rig.master(in_sync=3)
        await send_some(rig, 10, "before")
        await old.kill()
        new = await rig.master(but_not=old, in_sync=2)
        await send_some(rig, 30, "after")
        other = next(each for each in rig.members if each not in (old, new))
        await rig.caught_up(new, other)
        await new.kill()
        await other.kill()
        await set_to(rig, address, None)
        await old.start()
        await other.start()
        await waiting(rig, other, "pyromq cluster recover")

        async def recover(*more: str) -> tuple[int | None, list[dict[str, object]]]:
            words = ("cluster", "recover", rig.name, "--from", other.address, "--store", rig.store, "-o", "json")
            process = await asyncio.create_subprocess_exec(
                *(rig_python(), "-m", "pyromq", *words, "--nameserver", rig.nameserver, *more),
                stdout=asyncio.subprocess.PIPE,
            )
            out, _ = await process.communicate()
            return process.returncode, json.loads(out)

        code, plan = await recover()
        rows = {row["member"]: row for row in plan}
        assert code == 5 and rows[new.address]["lost_bytes"] is None, "nobody knows what the one has that is away"
        assert rows[old.address]["lost_bytes"] == 0 and rows[other.address]["is_chosen"]
        status = await rig.status(other)
        assert status is not None and status.granted_s == 0, "a plan changes nothing"
        await recover("--yes")
        assert await rig.master(in_sync=2) is other
        await new.start()
        assert await rig.master(in_sync=3) is other


def rig_python() -> str:
    import sys

    return sys.executable
