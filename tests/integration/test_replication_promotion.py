"""A master is gone from one moment to the next: what its replica does with everything that was still to happen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pyromq import Message, TransactionOutcome
from pyromq.aio import PushConsumer, ReceivedMessage, TransactionProducer
from pyromq.broker.broker import Broker
from pyromq.client.core.client import Client
from pyromq.model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from pyromq.model.topic import GroupConfig, Perm
from pyromq.replication.settings import Role
from pyromq.results import SendStatus
from pyromq.store.files.disk import RealDisk
from pyromq.store.tables.request_modes import RequestModeTable
from pyromq.wire.codes import RequestCode
from pyromq.wire.json import bodies
from pyromq.wire.json.bodies import RequestMode
from tests.integration.replication_pair import SMALL, CuttingProxy, Pair, a_pair
from tests.integration.test_push_consumer import FAST, Seen
from tests.integration.test_replication import asking, messages_in, quick
from tests.integration.waiting import until

pytestmark = pytest.mark.integration

STORE = replace(
    SMALL, delay_ladder_ms=(300, 300, 3_000, *(3_000,) * 15)
)  # a message that fails once comes back by the third
FAR_MS = 600_000


@asynccontextmanager
async def a_pair_to_lose(folder: Path) -> AsyncIterator[tuple[Pair, CuttingProxy]]:
    """A sync master and its replica, with something between them that can be cut."""
    async with a_pair(folder) as pair:
        await pair.start_master(store=STORE)
        async with CuttingProxy(pair.leader.address) as proxy:
            await pair.start_replica(store=STORE, master_replication_address=proxy.address)
            await until(lambda: pair.leader.replicas.in_sync(pair.leader.end), "in sync")
            yield pair, proxy


async def lose_the_master(pair: Pair, proxy: CuttingProxy) -> Broker:
    """What it does from now on reaches nobody. The replica is the master then."""
    proxy.accepts = False
    proxy.cut()
    await until(lambda: not pair.follower.attached.is_set(), "cut off")
    await pair.stop_master()
    promoted = pair.replica
    assert promoted is not None
    await promoted.change_role(Role.ASYNC_MASTER, 0)
    pair.master, pair.replica = promoted, None
    return promoted


class Failing(Seen):
    """Fails for one body."""

    async def __call__(self, message: ReceivedMessage) -> None:
        await super().__call__(message)
        if message.body == b"again":
            raise RuntimeError("try it again")


def reader(client: Client, listener: Seen) -> PushConsumer:
    topics = ["orders", "later", "paid"]
    return PushConsumer(group="readers", listener=listener, topics=topics, settings=FAST, client=client)


def undecided(message: ReceivedMessage) -> TransactionOutcome:
    return TransactionOutcome.UNKNOWN


def committed(message: ReceivedMessage) -> TransactionOutcome:
    return TransactionOutcome.COMMIT


async def test_nothing_that_was_acknowledged_is_missing_after_the_master_is_lost(tmp_path: Path) -> None:
    async with a_pair_to_lose(tmp_path) as (pair, proxy):
        acknowledged: set[bytes] = set()
        async with pair.producer() as producer, Client(quick(pair)) as client:
            failing = Failing()
            for body in (b"1", b"2", b"again"):
                assert (await producer.send(Message("orders", body))).status is SendStatus.SEND_OK
                acknowledged.add(body)
            async with reader(client, failing):
                await until(lambda: failing.has([b"1", b"2", b"again"]), "read once")
                master = pair.master
                assert master is not None
                await until(lambda: messages_in(master, SCHEDULE_TOPIC) == 1, "the one that failed is sent back")
            for number in range(5):
                by_level = Message("later", b"by level %d" % number, delay_level=3)
                by_time = Message("later", b"by time %d" % number, delay_ms=3_000)
                for message in (by_level, by_time):
                    assert (await producer.send(message)).status is SendStatus.SEND_OK
                    acknowledged.add(message.body)
            assert (await producer.send(Message("later", b"far", delay_ms=FAR_MS))).status is SendStatus.SEND_OK
            paying = TransactionProducer(client=client, group="payers", topics="paid", check=undecided)
            async with paying:
                for number in range(3):
                    receipt = await paying.send(Message("paid", b"half %d" % number), undecided)
                    assert receipt.prepared.status is SendStatus.SEND_OK
                    acknowledged.add(b"half %d" % number)
        await pair.metadata_taken()
        promoted = await lose_the_master(pair, proxy)
        promoted.settings.transaction_timeout_ms = promoted.settings.transaction_check_interval_ms = 100
        seen = Seen()
        async with Client(quick(pair)) as client, reader(client, seen):
            async with TransactionProducer(client=client, group="payers", topics="paid", check=committed):
                left = acknowledged - {b"1", b"2"}
                await until(lambda: seen.has(sorted(left)), "delayed, retried and prepared ones are read")
            again = next(message for message in seen.messages if message.body == b"again")
            assert again.delivery_attempt >= 1, "how often it was tried is part of it"
            progress = promoted.parts.tables.progress
            moved = lambda: sum(progress.committed("readers", "orders", n) or 0 for n in range(8))  # noqa: E731
            assert moved() == 3, "what was read is not read again"
        assert set(failing.bodies) | set(seen.bodies) == acknowledged, "nothing else, and not what is far away"
        assert promoted.parts.services.delay_runner.timers.pending == 1
        assert messages_in(promoted, TIMER_TOPIC) == 6


async def test_settings_of_groups_and_topics_are_those_of_the_lost_master(tmp_path: Path) -> None:
    async with a_pair_to_lose(tmp_path) as (pair, proxy):
        master = pair.master
        assert master is not None
        groups, locks = master.parts.tables.groups, master.parts.tables.locks
        groups.table.put(GroupConfig(group_name="paused", consume_enable=False, retry_max_times=2), 1)
        groups.table.forbid("readers", "orders", int(Perm.READ), 1)
        connection = await asking(master.address)
        mode = RequestMode(topic="orders", consumer_group="readers", pop_share_queue_num=3)
        await connection.request(RequestCode.SET_MESSAGE_REQUEST_MODE, None, bodies.encode(mode), timeout_ms=5_000)
        connection.close()
        async with pair.producer() as producer:
            receipt = await producer.send(Message("orders", b"1"))
        master.parts.tables.progress.commit("readers", "orders", receipt.queue.number, 1)
        await pair.metadata_taken()
        before = groups.table.get("paused"), dict(master.parts.tables.topics.items())
        assert locks.lock("readers", "client-1", [receipt.queue]) and locks.is_held("readers")
        promoted = await lose_the_master(pair, proxy)
        tables = promoted.parts.tables
        assert (tables.groups.table.get("paused"), dict(tables.topics.items())) == before
        assert tables.groups.table.forbidden("readers", "orders") == Perm.READ
        assert tables.progress.committed("readers", "orders", receipt.queue.number) == 1
        modes = RequestModeTable.load(RealDisk(), promoted.store.layout.root)
        assert modes.get("orders", "readers") == mode
        assert not tables.locks.is_held("readers"), "consumers lock again, at the new master"
