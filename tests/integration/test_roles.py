"""Brokers under orders: granted, promoted, following, holding, cut; by the requests of an agent, without one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyromq import Message
from pyromq.aio import Admin, Producer
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.broker import Broker
from pyromq.broker.lifecycle import Lifecycle
from pyromq.broker.tenure import Tenure
from pyromq.clock import SystemClock, machine_s
from pyromq.errors import BrokerError, MQError
from pyromq.failover.broker_control import BrokerBeside
from pyromq.failover.record import LeaseRecord, MemberRole
from pyromq.nameserver.server import NameServer
from pyromq.nameserver.settings import NameServerSettings
from pyromq.net import open_connection
from pyromq.net.connection import FRAMES_AT_ONCE
from pyromq.replication.settings import Role
from pyromq.results import SendStatus
from pyromq.testing import free_port
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.headers.producer import SendHeader, SendResponseHeader
from tests.integration.replication_pair import QUICK, SMALL, a_pair
from tests.integration.test_replication import log_bytes, messages_in, same_stores
from tests.integration.test_replication_faults import HeldDisk
from tests.integration.waiting import until

pytestmark = pytest.mark.integration


class Managed:
    """A broker on a port and in a folder of its own, and the door through which an agent would come."""

    def __init__(self, folder: Path, nameserver: str, role: Role, number: int, **replication: Any) -> None:
        self.folder, self.port = folder, free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._settings = BrokerSettings(
            port=self.port,
            vip_port=False,
            nameservers=(nameserver,),
            broker_id=number if role is Role.REPLICA else 0,
            store=SMALL,
            replication=replace(
                QUICK, role=role, managed=True, port=free_port(), replica_id=10 + number, **replication
            ),
        )
        self.broker = Broker(self._settings, folder)
        self.control = BrokerBeside(self.address)

    async def start(self) -> None:
        self.broker = Broker(self._settings, self.folder)
        await self.broker.start()

    async def grant(self, number: int, *required: str, for_s: float = 600.0) -> None:
        record = LeaseRecord(holder=self.address, number=number, duration_ms=9_000, renewals=1)
        await self.control.grant(record, machine_s() + for_s, required)

    async def becomes(self, role: MemberRole, number: int) -> None:
        """Once it has carried out its last order."""
        for _ in range(2_000):
            try:
                status = await self.control.status()
            except MQError:
                status = None
            if status is not None and not status.changing and (status.role, status.number) == (role, number):
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"{self.address} is not {role} under lease {number}")

    async def promote(self, number: int) -> None:
        await self.control.promote(number, None)
        await self.becomes(MemberRole.MASTER, number)

    async def follow(self, other: Managed, number: int) -> None:
        await self.control.follow(other.address, number)
        await self.becomes(MemberRole.REPLICA, number)

    async def follows(self, other: Managed) -> None:
        """Once it has everything, and has told who it is."""
        await until(
            lambda: any(
                each.address == self.address and each.position == other.broker.store.end_position
                for each in members_of(other)
            ),
            "it follows",
        )


def members_of(master: Managed) -> tuple[Any, ...]:
    members = master.broker.parts.replication.members
    return members.statuses() if members is not None else ()


class Two:
    def __init__(self, nameserver: str, first: Managed, second: Managed) -> None:
        self.nameserver, self.first, self.second = nameserver, first, second

    async def send(self, *bodies: str) -> list[SendStatus]:
        async with Producer(self.nameserver, group="senders", timeout_ms=3_000) as producer:
            return [(await producer.send(Message("orders", body.encode()))).status for body in bodies]


@asynccontextmanager
async def two(folder: Path, role: Role = Role.SYNC_MASTER) -> AsyncIterator[Two]:
    """A master under lease 1, granted, and its replica, which has everything."""
    async with AsyncExitStack() as stack:
        names = await stack.enter_async_context(NameServer(NameServerSettings(port=0)))
        nameserver = str(names.address)
        first = Managed(folder / "first", nameserver, role, 0)
        second = Managed(folder / "second", nameserver, Role.REPLICA, 1, promoted_role=role)
        for each in (first, second):
            await stack.enter_async_context(each.control)
            await each.start()
        try:
            await first.promote(1)
            await first.grant(1)
            await second.follow(first, 1)
            await second.follows(first)
            await until(lambda: first.broker.parts.services.registrar.registered_with, "clients are sent there")
            yield Two(nameserver, first, second)
        finally:
            for each in (second, first):
                await each.broker.stop()


async def test_without_a_grant_nothing_is_acknowledged_and_nobody_is_sent_there(tmp_path: Path) -> None:
    async with two(tmp_path) as both:
        await both.first.grant(1, for_s=-1.0)
        with pytest.raises(MQError):
            await both.send("refused")
        assert messages_in(both.first.broker, "orders") == 0
        await both.first.grant(1)
        assert await both.send("taken") == [SendStatus.SEND_OK]


async def test_delayed_messages_wait_while_sends_are_held_and_without_a_grant(tmp_path: Path) -> None:
    async with two(tmp_path) as both:
        first = both.first
        runner = first.broker.parts.services.delay_runner
        assert runner.may_write()
        await first.control.hold()
        assert not runner.may_write(), "else the log grows while the next master reads its end"
        await first.control.release()
        assert runner.may_write()
        await first.grant(1, for_s=-1.0)
        assert not runner.may_write()


async def test_a_grant_names_who_must_have_a_message(tmp_path: Path) -> None:
    async with two(tmp_path) as both:
        await both.first.grant(1, both.second.address)
        assert await both.send("1", "2") == [SendStatus.SEND_OK] * 2
        status = await both.first.control.status()
        assert status.required == (both.second.address,) and status.acknowledged == status.end
        assert status.replica(both.second.address) is not None


async def test_orders_of_an_older_lease_are_refused(tmp_path: Path) -> None:
    async with two(tmp_path) as both:
        await both.first.promote(5)
        for order in (both.first.control.promote(4, None), both.first.control.follow(both.second.address, 4)):
            with pytest.raises(BrokerError, match="seen lease 5"):
                await order
        with pytest.raises(BrokerError, match="not master under another"):
            await both.first.grant(4)


async def test_a_broker_without_an_agent_takes_no_orders(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        master = await pair.start_master()
        async with BrokerBeside(str(master.address)) as control:
            status = await control.status()
            assert not status.managed and status.role is MemberRole.MASTER
            for order in (
                control.promote(1, None),
                control.follow("127.0.0.1:1", 1),
                control.hold(),
                control.grant(LeaseRecord(holder="a:1", number=1, duration_ms=9_000), 0, ()),
            ):
                with pytest.raises(BrokerError, match="--failover"):
                    await order


async def test_a_planned_change_keeps_everything(tmp_path: Path) -> None:
    async with two(tmp_path) as both:
        first, second = both.first, both.second
        await first.grant(1, second.address)
        await both.send(*map(str, range(10)))
        await first.control.hold()
        waiting = asyncio.ensure_future(both.send("held"))
        await until(lambda: len(first.broker.parts.write_path.gate), "the send waits")
        await second.promote(2)
        await second.grant(2)
        await until(lambda: second.broker.parts.services.registrar.registered_with, "clients are sent there")
        await first.follow(second, 2)
        await waiting
        await first.follows(second)
        assert messages_in(second.broker, "orders") == 11
        same_stores(second.broker, first.broker)
        assert (await first.control.status()).lost == ()


async def test_what_a_master_had_alone_is_cut_kept_and_told(tmp_path: Path) -> None:
    async with two(tmp_path, Role.ASYNC_MASTER) as both:
        first, second = both.first, both.second
        await both.send("1", "2", "3")
        await second.follows(first)
        await second.broker.stop()
        await both.send("alone-1", "alone-2")
        whole = log_bytes(first.broker.store)
        await first.broker.stop()
        await second.start()
        await second.promote(2)
        await second.grant(2)
        await until(lambda: second.broker.parts.services.registrar.registered_with, "clients are sent there")
        await both.send("after")
        await first.start()
        assert (await first.control.status()).role is MemberRole.MASTER, "as it was when it stopped"
        with pytest.raises(BrokerError, match="not master under another"):
            await first.grant(2)
        await first.follow(second, 2)
        await first.follows(second)
        same_stores(second.broker, first.broker)
        status = await first.control.status()
        (lost,) = status.lost
        assert (lost.number, lost.messages, lost.position) == (2, 2, status.epochs[-1].start)
        report = json.loads((Path(lost.folder) / "report.json").read_text())
        assert report["topics"] == {"orders": 2}
        kept = (Path(lost.folder) / f"{lost.position:020d}").read_bytes()
        assert kept == whole[lost.position :] and b"alone-1" in kept


async def test_a_restart_in_between_forgets_no_lease(tmp_path: Path) -> None:
    async with two(tmp_path) as both:
        first, second = both.first, both.second
        await second.promote(2)
        for each in (first, second):
            await each.broker.stop()
            await each.start()
        assert second.broker.settings.replication.role is Role.SYNC_MASTER, "although it was started as replica"
        assert second.broker.settings.broker_id == 0
        await first.follow(second, 2)
        await first.broker.stop()
        await first.start()
        assert first.broker.settings.replication.role is Role.REPLICA and first.broker.settings.broker_id == 10
        await first.follows(second)


async def test_a_topic_is_made_when_the_replicas_that_the_lease_names_know_it(tmp_path: Path) -> None:
    async with two(tmp_path) as both:
        first, second = both.first, both.second
        await first.grant(1, second.address)
        async with Admin(both.nameserver) as admin:
            await admin.topics.create("invoices", queues=2)
            assert second.broker.parts.tables.topics.get("invoices") is not None


# --- changes that fail, and orderly stops ---


async def test_the_loop_does_not_wait_for_the_disk_while_a_role_changes(tmp_path: Path) -> None:
    disk = HeldDisk()
    async with a_pair(tmp_path) as pair:
        replica = await pair.start_replica(follows=False, disk=disk)
        with disk.held():
            change = asyncio.create_task(replica.change_role(Role.ASYNC_MASTER, 0))
            await until(lambda: disk.waiting and replica.state is Lifecycle.LISTENING, "its store closes on a thread")
            connection = await open_connection(replica.address, clock=SystemClock())
            asked = asyncio.ensure_future(
                connection.request(RequestCode.GET_BROKER_RUNTIME_INFO, None, timeout_ms=60_000)
            )
            await asyncio.sleep(0)
            assert not change.done() and not asked.done()
        await change
        assert (await asked).code == ResponseCode.SUCCESS, "who connected in between is served"
        connection.close()
        await connection.wait_closed()


async def test_a_master_that_cannot_save_whom_it_follows_sends_clients_away_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(tmp_path) as pair:
        first, second = pair.first, pair.second
        await pair.send("before")
        await first.control.hold()
        connection = await open_connection(first.broker.address, clock=SystemClock())
        begun = connection.request_nowait(RequestCode.SEND_MESSAGE, _header(), b"held", timeout_ms=60_000)
        await until(lambda: len(first.broker.parts.write_path.gate) == 1, "it waits")

        def no_space(*_: object) -> None:
            raise OSError(28, "No space left on device")

        lease = first.broker.parts.replication.environment.lease
        assert lease is not None
        monkeypatch.setattr(lease, "save", no_space)
        await first.control.follow(second.address, 2)
        assert (await begun).code == ResponseCode.SERVICE_NOT_AVAILABLE, "at once: it was not stored"
        after = await connection.request(RequestCode.SEND_MESSAGE, _header(), b"later", timeout_ms=60_000)
        assert after.code == ResponseCode.SERVICE_NOT_AVAILABLE
        connection.close()
        await connection.wait_closed()


async def test_a_master_that_cannot_save_what_it_promises_acknowledges_nothing_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(tmp_path) as pair:
        lease = pair.first.broker.parts.replication.environment.lease
        assert lease is not None

        def no_space(*_: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patches:
            patches.setattr(lease, "save", no_space)
            with pytest.raises(MQError):
                await pair.send("refused")
            assert "No space left" in (await pair.first.control.status()).failing, "its agent hands over"
        assert await pair.send("taken") == [SendStatus.SEND_OK]
        assert not (await pair.first.control.status()).failing


def _header() -> SendHeader:
    return SendHeader(
        producer_group="senders",
        topic="orders",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
    )


async def test_sends_that_came_while_a_role_changed_are_stored_in_their_order(tmp_path: Path) -> None:
    disk = HeldDisk()
    async with a_pair(tmp_path) as pair:
        replica = await pair.start_replica(follows=False, disk=disk)
        with disk.held():
            change = asyncio.create_task(replica.change_role(Role.ASYNC_MASTER, 0))
            await until(lambda: disk.waiting and replica.state is Lifecycle.LISTENING, "its store closes on a thread")
            connection = await open_connection(replica.address, clock=SystemClock())
            header = _header()
            begun = [
                connection.request_nowait(RequestCode.SEND_MESSAGE, header, b"%d" % number, timeout_ms=60_000)
                for number in range(3 * FRAMES_AT_ONCE)
            ]
            await until(lambda: any(replica.dispatcher._early.values()), "the first of them are read")
        await change
        offsets = [response.header_as(SendResponseHeader).queue_offset for response in await asyncio.gather(*begun)]
        assert offsets == list(range(3 * FRAMES_AT_ONCE))
        connection.close()
        await connection.wait_closed()


async def test_a_change_that_fails_ends_in_the_former_role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_pair(tmp_path) as pair:
        master, replica = await pair.start_master(), await pair.start_replica()
        monkeypatch.setattr(
            replica.settings, "replication", replace(replica.settings.replication, port=pair.leader.address.port)
        )
        with pytest.raises(OSError, match="address"):
            await replica.change_role(Role.SYNC_MASTER, 0)
        assert replica.state is Lifecycle.SERVING and replica.settings.replication.role is Role.REPLICA
        assert replica.settings.broker_id == 1
        async with pair.producer() as producer:
            await until(lambda: pair.leader.replicas.in_sync(pair.leader.end), "it follows again")
            assert (await producer.send(Message("orders", b"1"))).status is SendStatus.SEND_OK, "and ticks"
        same_stores(master, replica)


async def test_a_change_that_cannot_go_back_either_stops_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.start_master()
        replica = await pair.start_replica()

        async def fail(tenure: Tenure, port: int) -> None:
            raise OSError("no")

        monkeypatch.setattr(Tenure, "start", fail)
        with pytest.raises(OSError, match="no"):
            await replica.change_role(Role.SYNC_MASTER, 0)
        assert replica.state is Lifecycle.STOPPED
        await replica.stop()
        monkeypatch.undo()
        again = await pair.start_replica()
        assert again.state is Lifecycle.SERVING, "the folder is free"


async def test_an_async_master_that_stops_sends_everything_first(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        master = await pair.start_master(Role.ASYNC_MASTER, slice_bytes=512)
        replica = await pair.start_replica()
        await until(lambda: pair.leader.replicas.in_sync(pair.leader.end), "in sync")
        await asyncio.gather(*(producer.send(Message("orders", b"x" * 15_000)) for _ in range(150)))
        end = master.store.end_position
        await pair.stop_master()
        await until(lambda: replica.store.end_position == end, "all of it has come")
