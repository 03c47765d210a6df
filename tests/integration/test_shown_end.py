"""A consumer never sees what a successor of the master may lack."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pyromq import Message
from pyromq.aio import PushConsumer, QueueId
from pyromq.broker.base.lease import Lease
from pyromq.broker.broker import Broker
from pyromq.clock import machine_s
from pyromq.net import Connection
from pyromq.replication.settings import Role
from pyromq.results import SendStatus
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.flags import PullFlag
from pyromq.wire.headers.consumer import PullHeader
from pyromq.wire.json.membership import MemberReport
from pyromq.wire.received import Received
from tests.integration.replication_pair import CuttingProxy, Pair, a_pair
from tests.integration.test_push_consumer import FAST, Seen
from tests.integration.test_replication import asking
from tests.integration.waiting import until

pytestmark = pytest.mark.integration
MEMBER = "10.0.0.2:10911"
NOT_READ_YET = (ResponseCode.FLOW_CONTROL, ResponseCode.SERVICE_NOT_AVAILABLE)  # the second after two seconds


async def start_managed(pair: Pair) -> tuple[Broker, Lease]:
    """A sync master under a lease that names nobody yet."""
    lease = Lease()
    pair.master = Broker(pair.settings(Role.SYNC_MASTER, managed=True), pair.folder / "master", lease=lease)
    await pair.master.start()
    lease.promoted(1, 0)
    grant(pair.master, lease)
    return pair.master, lease


def grant(master: Broker, lease: Lease, *required: str) -> None:
    assert lease.grant(1, machine_s() + 3_600, required)
    on_grant = master.parts.handlers.members.on_grant
    assert on_grant is not None
    on_grant()


def name_the_replica(pair: Pair) -> None:
    """As its own reports would."""
    assert pair.master is not None
    (connection,) = pair.leader.replicas
    report = MemberReport(address=MEMBER, link=connection.name, metadata=0, number=1)
    pair.master.parts.replication.take_report(report, connection.host)


async def test_consumers_see_what_all_replicas_have_that_the_lease_names(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        master, lease = await start_managed(pair)
        async with CuttingProxy(pair.leader.address) as proxy, pair.producer() as producer:
            await pair.start_replica(master_replication_address=proxy.address, master_address=str(master.address))
            await until(lambda: bool(pair.leader.replicas.positions()), "the replica counts")
            name_the_replica(pair)
            grant(master, lease, MEMBER)
            seen = Seen()
            async with PushConsumer(
                [pair.nameserver], group="readers", listener=seen, topics="orders", start="earliest", settings=FAST
            ):
                await producer.send(Message("orders", b"both have it"))
                await until(lambda: len(seen.bodies) == 1, "the first one is consumed")

                proxy.swallows_to_master = True  # the replica gets it, and cannot say so
                shown = master.store.visible_end
                send = asyncio.create_task(producer.send(Message("orders", b"only the master knows")))
                await until(lambda: master.store.flushed_position > shown, "it is on the master's disk")
                assert master.store.visible_end == shown and not send.done()
                assert lease.acknowledged == shown

                proxy.swallows_to_master = False
                before = list(pair.leader.replicas)
                proxy.cut()  # it comes again, and says how far it is
                await until(
                    lambda: pair.leader.replicas.positions() and before[0] not in list(pair.leader.replicas), "again"
                )
                name_the_replica(pair)
                await send
                await until(lambda: len(seen.bodies) == 2, "the second one is consumed")
                assert master.store.visible_end == master.store.end_position == lease.acknowledged


async def test_what_waits_for_a_member_to_be_known_is_acknowledged_when_it_reports(tmp_path: Path) -> None:
    """Else a new master would answer its first sends, and be read, only when its lease is renewed."""
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        master, lease = await start_managed(pair)
        grant(master, lease, MEMBER)
        await pair.start_replica(
            master_replication_address=str(pair.leader.address), master_address=str(master.address)
        )
        send = asyncio.create_task(producer.send(Message("orders", b"its copy is there, whose it is not known")))
        await until(
            lambda: 0 < master.store.end_position in pair.leader.replicas.positions().values(), "the replica has it"
        )
        assert lease.acknowledged == 0 and not send.done()
        name_the_replica(pair)
        assert lease.acknowledged == master.store.visible_end == master.store.end_position
        assert (await send).status is SendStatus.SEND_OK


async def test_what_was_shown_stays_shown_when_a_replica_is_named_that_lacks_it(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        master, lease = await start_managed(pair)
        await producer.send(Message("orders", b"stored here alone"))
        end = master.store.visible_end
        assert end == master.store.end_position == lease.acknowledged  # nobody is named: all is shown, and counts
        grant(master, lease, MEMBER)  # somebody who is not even connected
        assert master.store.visible_end == end
        send = asyncio.create_task(producer.send(Message("orders", b"hidden")))
        await until(lambda: master.store.flushed_position > end, "it is on the master's disk")
        assert master.store.visible_end == end and not send.done()
        grant(master, lease)  # the lease names nobody again
        assert (await send).status is SendStatus.SLAVE_NOT_AVAILABLE
        assert master.store.visible_end == master.store.end_position == lease.acknowledged


async def test_a_master_that_restarts_is_not_read_until_its_lease_says_how_far(tmp_path: Path) -> None:
    """What it shows, consumers go on behind: also if it is not the master any more, and nobody has told it."""
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        await start_managed(pair)
        await producer.send(Message("orders", b"shown or not"), queue=QueueId("orders", "broker-a", 0))
        await pair.stop_master()
        again = Lease()
        pair.master = Broker(pair.settings(Role.SYNC_MASTER, managed=True), pair.folder / "master", lease=again)
        await pair.master.start()
        connection = await asking(pair.master.address)
        assert (await pull(connection)).code in NOT_READ_YET
        grant(pair.master, again, MEMBER)
        assert (await pull(connection)).code in NOT_READ_YET, "who could take over lacks it"
        grant(pair.master, again)
        found = await pull(connection)
        assert found.code == ResponseCode.SUCCESS and b"shown or not" in found.body
        connection.close("done")


async def pull(connection: Connection) -> Received[Any]:
    header = PullHeader(
        consumer_group="readers",
        topic="orders",
        queue_id=0,
        queue_offset=0,
        max_msg_nums=32,
        sys_flag=int(PullFlag.SUBSCRIPTION),
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
    )
    return await connection.request(RequestCode.PULL_MESSAGE, header, timeout_ms=30_000)
