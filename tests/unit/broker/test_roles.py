"""Orders of a failover agent, at the broker that carries them out."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyromq.broker.base.environment import Environment
from pyromq.broker.base.lease import Lease
from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.roles import RoleChanges
from pyromq.replication.leader import Leader, ReplicaLink
from pyromq.replication.settings import ReplicationSettings, Role
from pyromq.testing import FaultyDisk, ManualClock
from pyromq.wire.json.membership import Control, MemberAction
from pyromq.wire.transfer import encode_name, encode_report
from tests.unit.broker.builders import ROOT

END = 100


class Wire(asyncio.Transport):
    """The connection of a replica."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__({"peername": ("127.0.0.1", 20_000)})
        self._protocol = protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: Any) -> None:
        pass

    def abort(self) -> None:
        self._protocol.connection_lost(None)


class ManagedMaster:
    """Master under lease 1, with a replica that has everything."""

    def __init__(self) -> None:
        disk, clock, self.lease, self.have_tables = FaultyDisk(), ManualClock(), Lease(), False
        self.lease.load(disk, ROOT / "config")
        self.lease.promoted(1, 0)
        store = SimpleNamespace(end_position=END, flushed_position=END, first_position=0)
        self.leader = Leader(cast(Any, store), ReplicationSettings(role=Role.SYNC_MASTER), clock)
        members = SimpleNamespace(have_metadata=lambda number: self.have_tables)
        replication = SimpleNamespace(follower=None, leader=self.leader, members=members, metadata_number=7)
        gate = SimpleNamespace(release=lambda: None)
        handlers = SimpleNamespace(members=SimpleNamespace(tables_changed=lambda: None))
        parts = SimpleNamespace(replication=replication, write_path=SimpleNamespace(gate=gate), handlers=handlers)
        around = Environment(settings=BrokerSettings(port=0), clock=clock, disk=disk, rng=Random(0), lease=self.lease)
        self.roles = RoleChanges(cast(Any, SimpleNamespace(parts=parts, store=store)), around)
        link = ReplicaLink(self.leader)
        link.connection_made(Wire(link))
        link.data_received(encode_name(2) + encode_report(END))
        link.data_received(encode_report(END))

    async def is_promoted(self, number: int) -> None:
        self.roles.order(Control(action=MemberAction.PROMOTE, number=number))
        await self.roles.close()


async def test_under_a_newer_lease_a_master_ends_the_connections_of_replicas_that_follow_the_older_one() -> None:
    master = ManagedMaster()
    assert master.leader.replicas.in_sync(END) == [END]
    await master.is_promoted(2)
    assert [each.start for each in master.lease.state.epochs] == [0, END]
    assert not list(master.leader.replicas), "it would cut what it gets over this one from lease 2 on"


async def test_an_order_that_comes_again_ends_no_connection() -> None:
    master = ManagedMaster()
    await master.is_promoted(1)
    assert master.leader.replicas.in_sync(END) == [END]


@pytest.mark.parametrize("action", [MemberAction.PROMOTE, MemberAction.FOLLOW])
async def test_a_broker_that_stops_begins_no_change_of_its_role(action: MemberAction) -> None:
    master = ManagedMaster()
    await master.roles.close()
    with pytest.raises(RefusedError, match="the broker stops"):
        master.roles.order(Control(action=action, number=2, master="10.0.0.2:10911"))
    assert master.lease.state.number == 1


async def test_a_change_that_replicas_lack_is_waited_for() -> None:
    master = ManagedMaster()
    for waiting in (master.roles.replicated(), master.roles.told(asyncio.sleep(0))):
        assert waiting is not None
        task = asyncio.ensure_future(waiting)
        await asyncio.sleep(0)
        assert not task.done()
        task.cancel()  # as the dispatcher does when the role ends, and refuses the change
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_change_that_replicas_have_is_confirmed() -> None:
    master = ManagedMaster()
    master.have_tables = True
    waiting = master.roles.replicated()
    assert waiting is not None
    await waiting
