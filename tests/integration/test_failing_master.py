"""A master whose disk takes nothing any more hands over, by its agent, to a member that can write."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from pyromq.broker.commit.pressure import Pressure
from pyromq.failover.agent import Agent
from pyromq.failover.peers import MemberPeers
from pyromq.failover.record import LeaseConflictError, LeaseRecord
from pyromq.failover.sight import Timing
from pyromq.failover.store import StoredLease
from pyromq.nameserver.server import NameServer
from pyromq.nameserver.settings import NameServerSettings
from pyromq.replication.settings import Role
from pyromq.results import SendStatus
from pyromq.wire.json.membership import MemberRole
from tests.integration.test_roles import Managed, Two
from tests.integration.waiting import until

pytestmark = pytest.mark.integration


class MemoryStore:
    """A lease store of one process."""

    found: StoredLease | None = None

    async def read(self) -> StoredLease | None:
        return self.found

    async def write(self, record: LeaseRecord, expected: str | None) -> str:
        if expected != (self.found.version if self.found else None):
            raise LeaseConflictError("changed")
        version = str(int(expected or "0") + 1)
        self.found = StoredLease(record, version)
        return version

    async def close(self) -> None: ...


@pytest.mark.parametrize("trouble", ["full", "failing", "hanging"])
async def test_a_master_whose_disk_is_full_fails_or_hangs_hands_over(
    tmp_path: Path, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AsyncExitStack() as stack:
        names = await stack.enter_async_context(NameServer(NameServerSettings(port=0)))
        nameserver, store = str(names.address), MemoryStore()
        first = Managed(tmp_path / "first", nameserver, Role.SYNC_MASTER, 0)
        second = Managed(tmp_path / "second", nameserver, Role.REPLICA, 1)
        for each in (first, second):
            await stack.enter_async_context(each.control)
            await each.start()
            stack.push_async_callback(each.broker.stop)
            agent = Agent(each.address, store, each.control, MemberPeers(each.control.client), timing=Timing.of(4.0))
            running = asyncio.create_task(agent.run())
            stack.callback(running.cancel)

        def holder() -> str:
            record = store.found.record if store.found else None
            return record.holder if record is not None and len(record.in_sync) == 2 else ""

        await until(lambda: holder() == first.address, "both are in sync")
        both = Two(nameserver, first, second)
        assert await both.send("before") == [SendStatus.SEND_OK]
        health, hanging = first.broker.store.health, first.broker.parts.write_path.pressure
        monkeypatch.setattr(health, "space_returned", lambda: None)  # the disk has space, in truth
        if trouble == "hanging":
            monkeypatch.setattr(Pressure, "stuck_ms", lambda self: 3_001 if self is hanging else 0)
        else:
            (health.disk_full if trouble == "full" else health.untrust)("a test says so")
        assert (await first.control.status()).failing

        await second.becomes(MemberRole.MASTER, 2)
        await until(lambda: second.broker.parts.services.registrar.registered_with, "clients are sent there")
        assert await both.send("after") in ([SendStatus.SEND_OK], [SendStatus.SLAVE_NOT_AVAILABLE])
