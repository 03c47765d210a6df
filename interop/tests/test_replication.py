"""Masters and replicas of both makes: the same bytes on both disks, acknowledgements that count, tables taken over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from interop.apache import ApacheBroker
from interop.jars import Jars
from interop.pyromq_server import SMALL_STORE
from interop.tests.conftest import Note, case
from pyromq.aio import Message, Producer
from pyromq.broker import following
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.broker import Broker
from pyromq.nameserver.server import NameServer
from pyromq.nameserver.settings import NameServerSettings
from pyromq.net import Address
from pyromq.replication.settings import ReplicationSettings, Role
from pyromq.results import SendStatus
from pyromq.settings import ProducerSettings
from pyromq.store.message_store import MessageStore

SECTION = "Masters and replicas"
MESSAGES = 400
TEST_S_MAX = 400
APACHE_REPLICA = {"brokerRole": "SLAVE", "brokerId": "1"}
APACHE_MASTER = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2", "slaveTimeout": "30000"}


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, TEST_S_MAX))


async def until(condition: Callable[[], object], what: str, timeout_s: float = 120) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"did not happen within {timeout_s} s: {what}"
        await asyncio.sleep(0.05)


def has_all(broker: Broker, wanted: int) -> bool:
    return sum(queue.next_offset for (name, _), queue in broker.store.queues.items() if name == "orders") == wanted


def ours(nameserver: str, role: Role) -> BrokerSettings:
    return BrokerSettings(
        port=0,
        vip_port=False,
        nameservers=(nameserver,),
        broker_id=1 if role is Role.REPLICA else 0,
        store=replace(SMALL_STORE, full_percent=100),
        replication=ReplicationSettings(role=role, metadata_interval_ms=500, confirm_timeout_ms=30_000),
    )


@asynccontextmanager
async def apache(jars: Jars, folder: Path, nameserver: str, options: dict[str, str]) -> AsyncIterator[ApacheBroker]:
    broker = ApacheBroker(jars, folder, nameserver, options)
    await asyncio.to_thread(broker.start)
    try:
        yield broker
    finally:
        await asyncio.to_thread(broker.stop)


async def send_all(nameserver: str, rng: Random) -> set[SendStatus]:
    settings = ProducerSettings(compress_from_bytes=1 << 20, attempt_timeout_ms=60_000)
    found = set()
    async with Producer(group="senders", nameservers=[nameserver], settings=settings, timeout_ms=60_000) as producer:
        for number in range(MESSAGES):
            message = Message(
                "orders", rng.randbytes(rng.randrange(1, 3_000)), keys=f"k{number}", tags=f"t{number % 3}"
            )
            found.add((await producer.send(message)).status)
    return found


def stored(folder: Path, end: int) -> bytes:
    """The log up to there, as its files have it."""
    files = sorted((folder / "commitlog").iterdir())
    return b"".join(file.read_bytes() for file in files)[:end]


def log_of(store: MessageStore) -> bytes:
    return stored(store.layout.root, store.end_position)


@case("PyroMQ master, Apache replica", SECTION)
def test_an_apache_replica_has_the_bytes_of_our_master(tmp_path: Path, jars: Jars, fact: Note) -> None:
    async def work() -> None:
        async with NameServer(NameServerSettings(port=0)) as names:
            nameserver = str(names.address)
            async with Broker(ours(nameserver, Role.SYNC_MASTER), tmp_path / "master") as master:
                async with apache(jars, tmp_path / "replica", nameserver, APACHE_REPLICA) as replica:
                    leader = master.parts.replication.leader
                    assert leader is not None
                    await until(lambda: leader.replicas.in_sync(leader.end), "Apache's replica is in sync")
                    assert await send_all(nameserver, Random(1)) == {SendStatus.SEND_OK}
                    assert leader.replicas.confirmed(leader.end) == master.store.end_position
                    assert stored(replica.store_folder, master.store.end_position) == log_of(master.store)
                fact(f"{master.store.end_position} bytes, equal; every send waited for Apache's acknowledgement")

    run(work())


@case("Apache master, PyroMQ replica", SECTION)
def test_our_replica_has_the_bytes_of_an_apache_master(tmp_path: Path, jars: Jars, fact: Note) -> None:
    async def work() -> None:
        async with NameServer(NameServerSettings(port=0)) as names:
            nameserver = str(names.address)
            async with apache(jars, tmp_path / "master", nameserver, APACHE_MASTER) as master:
                async with Broker(ours(nameserver, Role.REPLICA), tmp_path / "replica") as replica:
                    follower, metadata = replica.parts.replication.follower, replica.parts.replication.metadata
                    assert follower is not None and metadata is not None
                    await until(follower.attached.is_set, "our replica follows")
                    assert await send_all(nameserver, Random(2)) == {SendStatus.SEND_OK}, "inSyncReplicas is 2"
                    rounds = metadata.rounds
                    await until(lambda: metadata.rounds > rounds + 1, "tables are taken over")
                    assert replica.parts.tables.topics.get("orders") is not None
                    end = replica.store.end_position
                    assert stored(master.store_folder, end) == log_of(replica.store)
                    assert has_all(replica, MESSAGES)
                    fact(f"{end} bytes, equal; Apache counted our acknowledgements")

    run(work())


@pytest.mark.parametrize("times", [2])
@case("Apache master, PyroMQ replica that starts late and again", SECTION)
def test_our_replica_of_an_apache_master_starts_late_and_again(
    tmp_path: Path, jars: Jars, fact: Note, times: int
) -> None:
    async def work() -> None:
        async with NameServer(NameServerSettings(port=0)) as names:
            nameserver = str(names.address)
            options = {"brokerRole": "ASYNC_MASTER"}
            async with apache(jars, tmp_path / "master", nameserver, options) as master:
                for number in range(times):
                    await send_all(nameserver, Random(number))
                    async with Broker(ours(nameserver, Role.REPLICA), tmp_path / "replica") as replica:
                        wanted = MESSAGES * (number + 1)
                        await until(partial(has_all, replica, wanted), "our replica has everything")
                        assert replica.store.first_position == 0
                        assert stored(master.store_folder, replica.store.end_position) == log_of(replica.store)
                fact("from the first byte, then on from where it was")

    run(work())


@case("Apache master, PyroMQ follows silently and takes over", SECTION)
def test_a_silent_copy_of_an_apache_master_takes_over(tmp_path: Path, jars: Jars, fact: Note) -> None:
    async def work() -> None:
        async with NameServer(NameServerSettings(port=0)) as names:
            nameserver = str(names.address)
            options = {**APACHE_MASTER, "slaveTimeout": "300"}
            async with apache(jars, tmp_path / "master", nameserver, options) as master:
                at = Address.parse(master.address)
                settings = await following.settings_of_a_copy(at, host="127.0.0.1", port=0)
                async with Broker(settings, tmp_path / "copy") as copy:
                    await following.caught_up(copy)
                    statuses = await send_some(nameserver, 10)
                    assert SendStatus.SEND_OK not in statuses, "Apache did not count the copy"
                    await until(partial(has_all, copy, 10), "the copy has everything all the same")
                    end = copy.store.end_position
                    assert stored(master.store_folder, end) == log_of(copy.store)
                    await following.caught_up(copy)
                    await asyncio.to_thread(master.stop)
                    await following.master_gone(copy)
                    await following.take_over(copy, [nameserver])
                    assert await send_some(nameserver, 5) == {SendStatus.SEND_OK}
                    assert has_all(copy, 15)
                fact(f"answers without a second copy: {', '.join(sorted(each.value for each in statuses))}")

    run(work())


async def send_some(nameserver: str, count: int) -> set[SendStatus]:
    settings = ProducerSettings(compress_from_bytes=1 << 20)
    async with Producer(group="senders", nameservers=[nameserver], settings=settings, timeout_ms=60_000) as producer:
        return {(await producer.send(Message("orders", b"%d" % number))).status for number in range(count)}
