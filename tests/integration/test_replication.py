"""A master and its replica: what a send's status promises, what is taken over, and what is refused and told."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pyromq import Message
from pyromq.aio import PushConsumer
from pyromq.broker.broker import Broker
from pyromq.client.core.client import Client
from pyromq.client.core.settings import ClientSettings
from pyromq.clock import SystemClock
from pyromq.model.topic import GroupConfig, TopicConfig
from pyromq.net import Address, Connection, Handler, open_connection
from pyromq.replication.follower import Following
from pyromq.replication.settings import Role
from pyromq.results import SendStatus
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import Flush
from pyromq.testing import FaultyDisk
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.flags import PullFlag
from pyromq.wire.headers.consumer import PullResponseHeader
from pyromq.wire.json import bodies, java_json
from pyromq.wire.received import Received
from pyromq.wire.record import split_records
from pyromq.wire.transfer import NAMED, SILENT, encode_name, encode_report
from tests.integration.guarded import guarded_access
from tests.integration.replication_pair import SMALL, CuttingProxy, Pair, a_pair
from tests.integration.test_push_consumer import FAST, Seen
from tests.integration.waiting import LOOK_AGAIN_S, until

pytestmark = pytest.mark.integration


def log_bytes(store: MessageStore) -> bytes:
    found, position = [], store.first_position
    while position < store.end_position:
        end = min(store.end_position, position - position % SMALL.segment_bytes + SMALL.segment_bytes)
        found.append(bytes(store.records.bytes_at(position, end - position)))
        position = end
    return b"".join(found)


def same_stores(master: Broker, replica: Broker) -> None:
    assert log_bytes(master.store) == log_bytes(replica.store)
    for key, queue in master.store.queues.items():
        assert replica.store.queues[key].next_offset == queue.next_offset, key


def messages_in(broker: Broker, topic: str) -> int:
    return sum(queue.next_offset for (name, _), queue in broker.store.queues.items() if name == topic)


def bodies_at(broker: Broker, topic: str, queue: int, offset: int) -> list[bytes]:
    """What a consumer reads there."""
    runs = broker.store.reader.read(topic, queue, offset).runs
    return [record.body for run in runs for record in split_records(bytes(run))]


class Asker(Handler):
    """A client that is asked nothing."""

    def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
        pytest.fail("no request was expected")


async def asking(address: Address) -> Connection:
    return await open_connection(address, clock=SystemClock(), handler=Asker())


# --- what a status promises ---


@pytest.mark.parametrize("flush", list(Flush))
async def test_a_send_is_answered_when_a_replica_has_it_on_disk(tmp_path: Path, flush: Flush) -> None:
    store = replace(SMALL, flush=flush)
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        master, replica = await pair.start_master(store=store), await pair.start_replica(store=store)
        receipts = await asyncio.gather(
            *(producer.send(Message("orders", bytes([n]) * (1 + n * 20), keys=f"k{n}")) for n in range(150))
        )
        assert {receipt.status for receipt in receipts} == {SendStatus.SEND_OK}
        on_disk = replica.store.flushed_position
        assert on_disk == master.store.end_position, "each had waited for the replica's disk"
        same_stores(master, replica)
        assert replica.store.find("orders", "k77") == master.store.find("orders", "k77") != []
        assert master.parts.replication.confirmed == on_disk


async def test_without_a_replica_a_send_is_stored_and_says_so(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        master = await pair.start_master()
        receipt = await producer.send(Message("orders", b"1"))
        assert receipt.status is SendStatus.SLAVE_NOT_AVAILABLE
        assert bodies_at(master, "orders", receipt.queue.number, receipt.offset) == [b"1"], "it is stored here"
        replica = await pair.start_replica()
        await until(lambda: pair.leader.replicas.in_sync(pair.leader.end), "the replica is in sync")
        assert (await producer.send(Message("orders", b"2"))).status is SendStatus.SEND_OK
        await pair.stop_replica()
        await until(lambda: not len(pair.leader.replicas), "the master knows")
        assert (await producer.send(Message("orders", b"3"))).status is SendStatus.SLAVE_NOT_AVAILABLE
        replica = await pair.start_replica()
        await pair.caught_up()
        assert pair.master is not None
        same_stores(pair.master, replica)


async def test_an_async_master_does_not_wait(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        master = await pair.start_master(Role.ASYNC_MASTER)
        assert (await producer.send(Message("orders", b"1"))).status is SendStatus.SEND_OK
        replica = await pair.start_replica()
        await pair.caught_up()
        same_stores(master, replica)


async def test_with_async_flush_a_replica_does_not_wait_for_the_next_flush_that_is_due(
    tmp_path: Path,
) -> None:
    store = replace(SMALL, flush=Flush.ASYNC, flush_interval_ms=3_600_000, flush_thorough_ms=3_600_000)
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        master = await pair.start_master(Role.ASYNC_MASTER, store=store)
        replica = await pair.start_replica(store=store)
        for number in range(20):
            await producer.send(Message("orders", b"%d" % number))
        await pair.caught_up()
        same_stores(master, replica)


async def test_a_replica_that_hears_nothing_lets_sends_time_out_and_then_goes_on(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        master = await pair.start_master(confirm_timeout_ms=200)
        async with CuttingProxy(pair.leader.address) as proxy:
            replica = await pair.start_replica(master_replication_address=proxy.address)
            await until(lambda: pair.leader.replicas.in_sync(pair.leader.end), "the replica is in sync")
            proxy.swallows_to_replica = True
            receipt = await producer.send(Message("orders", b"2"))
            assert receipt.status is SendStatus.FLUSH_SLAVE_TIMEOUT
            assert bodies_at(master, "orders", receipt.queue.number, receipt.offset) == [b"2"], "it is stored here"
            proxy.swallows_to_replica = False
            proxy.cut()
            await pair.caught_up()
            same_stores(master, replica)
            await until(lambda: pair.leader.replicas.confirmed(pair.leader.end) == pair.leader.end, "confirmed, late")


async def test_a_master_that_hears_nothing_lets_sends_time_out_though_the_replica_has_them(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        master = await pair.start_master(confirm_timeout_ms=200)
        async with CuttingProxy(pair.leader.address) as proxy:
            replica = await pair.start_replica(master_replication_address=proxy.address)
            await until(lambda: pair.leader.replicas.in_sync(pair.leader.end), "the replica is in sync")
            proxy.swallows_to_master = True
            assert (await producer.send(Message("orders", b"1"))).status is SendStatus.FLUSH_SLAVE_TIMEOUT
            await pair.caught_up()
            same_stores(master, replica)


async def test_a_silent_replica_is_waited_for_once_and_counts_again_when_it_is_back(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        await pair.start_master(stall_ms_max=200)  # and a minute for a send to be late
        async with CuttingProxy(pair.leader.address) as proxy:
            await pair.start_replica(master_replication_address=proxy.address)
            await until(lambda: pair.leader.replicas.in_sync(pair.leader.end), "the replica is in sync")
            proxy.swallows_to_replica = True
            for body in (b"1", b"2"):
                assert (await producer.send(Message("orders", body))).status is SendStatus.SLAVE_NOT_AVAILABLE
            assert len(pair.leader.replicas) == 1, "its connection is there as before"
            proxy.swallows_to_replica = False
            proxy.cut()
            await until(lambda: pair.leader.replicas.in_sync(pair.leader.end), "in sync again")
            assert (await producer.send(Message("orders", b"3"))).status is SendStatus.SEND_OK


async def test_a_replica_that_goes_while_sends_wait_ends_their_wait(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        await pair.start_master(confirm_timeout_ms=60_000)
        async with CuttingProxy(pair.leader.address) as proxy:
            await pair.start_replica(master_replication_address=proxy.address)
            await until(lambda: pair.leader.replicas.in_sync(pair.leader.end), "the replica is in sync")
            proxy.swallows_to_master = True
            sending = asyncio.ensure_future(producer.send(Message("orders", b"1")))
            assert pair.master is not None
            pressure = pair.master.parts.write_path.pressure
            await until(lambda: pressure.waiting_for_replicas, "the send waits")
            proxy.accepts = False
            proxy.cut()
            assert (await sending).status is SendStatus.SLAVE_NOT_AVAILABLE


# --- transfers that are cut ---


async def test_a_transfer_torn_after_any_number_of_bytes_goes_on_where_it_was(tmp_path: Path) -> None:
    rng = Random(20_261_116)
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        master = await pair.start_master(Role.ASYNC_MASTER, slice_bytes=777)
        for _ in range(200):
            await producer.send(Message("orders", rng.randbytes(rng.randrange(1, 400))))
        async with CuttingProxy(pair.leader.address) as proxy:
            proxy.tear_after = 2_003
            replica = await pair.start_replica(follows=False, master_replication_address=proxy.address)
            while replica.store.flushed_position < master.store.end_position:
                proxy.tear_after = rng.randrange(2_000, 6_000)
                assert log_bytes(master.store).startswith(log_bytes(replica.store))
                await asyncio.sleep(LOOK_AGAIN_S)
            same_stores(master, replica)
            assert proxy.connections > 10


async def test_a_replica_that_starts_late_gets_everything(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        master = await pair.start_master(Role.ASYNC_MASTER)
        for _ in range(30):
            await producer.send(Message("orders", b"x" * 9_000))
        assert len(master.store.log.segments) > 3
        replica = await pair.start_replica()
        await pair.caught_up()
        same_stores(master, replica)


async def test_a_replica_begins_where_the_masters_log_begins(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        master = await pair.start_master(Role.ASYNC_MASTER)
        for _ in range(30):
            await producer.send(Message("orders", b"x" * 9_000))
        assert master.store.seal() and master.store.delete_oldest(2) == 2
        first = master.store.first_position
        replica = await pair.start_replica()
        await pair.caught_up()
        assert replica.store.first_position == first > 0
        same_stores(master, replica)
        await pair.stop_replica()
        replica = await pair.start_replica(folder="other", from_last_file=True)
        await pair.caught_up()
        assert replica.store.first_position == master.store.log.segments.last.base > first


async def test_a_replica_that_is_too_far_behind_says_so_and_changes_nothing(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        master = await pair.start_master(Role.ASYNC_MASTER)
        await producer.send(Message("orders", b"1"))
        replica = await pair.start_replica()
        await pair.caught_up()
        before = log_bytes(replica.store)
        await pair.stop_replica()
        for _ in range(30):
            await producer.send(Message("orders", b"x" * 9_000))
        assert master.store.seal() and master.store.delete_oldest(2) == 2
        replica = await pair.start_replica(follows=False)
        await until(lambda: pair.follower.state is Following.REFUSED, "refused")
        assert "empty folder" in pair.follower.reason and log_bytes(replica.store) == before


# --- a replica's disk ---


async def test_a_replica_whose_disk_is_full_goes_on_when_there_is_space(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        master = await pair.start_master(confirm_timeout_ms=200)
        replica = await pair.start_replica(disk=disk)
        await producer.send(Message("orders", b"1"))
        room, disk.capacity_bytes = disk.capacity_bytes, 1
        for _ in range(30):  # some files full
            receipt = await producer.send(Message("orders", b"x" * 9_000))
        assert receipt.status is not SendStatus.SEND_OK
        await until(lambda: not replica.store.health.writable, "the replica's disk is full")
        assert log_bytes(master.store).startswith(log_bytes(replica.store))
        disk.capacity_bytes = room
        await pair.caught_up()
        same_stores(master, replica)


async def test_a_slow_disk_of_a_replica_makes_sends_wait_and_loses_nothing(tmp_path: Path) -> None:
    disk = FaultyDisk()
    disk.before_each(lambda kind: time.sleep(0.02) if kind == "sync" else None)
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        master = await pair.start_master()
        replica = await pair.start_replica(disk=disk)
        receipts = await asyncio.gather(*(producer.send(Message("orders", b"%d" % n)) for n in range(100)))
        assert {receipt.status for receipt in receipts} == {SendStatus.SEND_OK}
        same_stores(master, replica)


# --- logs that are not the same ---


async def test_a_master_that_lost_its_log_is_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        await pair.start_master(Role.ASYNC_MASTER)
        await pair.start_replica()
        for number in range(20):
            await producer.send(Message("orders", b"%d" % number))
        await pair.caught_up()
        await pair.metadata_taken()
        await pair.stop_replica()
        await pair.stop_master()
        await pair.start_master(Role.ASYNC_MASTER, folder="a-new-disk")
        replica = await pair.start_replica(follows=False)
        before, topics = log_bytes(replica.store), dict(replica.parts.tables.topics.items())
        await until(lambda: pair.follower.state is Following.REFUSED, "refused")
        assert "Nothing was changed" in pair.follower.reason
        assert log_bytes(replica.store) == before and dict(replica.parts.tables.topics.items()) == topics
        assert "orders" in topics, "an empty master does not empty its replica's tables"
        assert caplog.text.count("replica does not follow") == 1, "told once, not at every attempt"


async def test_a_master_with_other_messages_is_not_followed(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        await pair.start_master(Role.ASYNC_MASTER)
        await pair.start_replica()
        for number in range(20):
            await producer.send(Message("orders", b"%d" % number))
        await pair.caught_up()
        await pair.stop_replica()
        await pair.stop_master()
        await pair.start_master(Role.ASYNC_MASTER, folder="a-new-disk")
        async with pair.producer() as other:
            for number in range(40):
                await other.send(Message("orders", b"other %d" % number))
        replica = await pair.start_replica(follows=False)
        before = log_bytes(replica.store)
        await until(lambda: pair.follower.state is Following.REFUSED, "refused")
        assert "other bytes" in pair.follower.reason and log_bytes(replica.store) == before


async def test_files_of_another_size_are_refused_and_told(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        await pair.start_master(Role.ASYNC_MASTER)
        for _ in range(10):
            await producer.send(Message("orders", b"x" * 9_000))
        larger = replace(SMALL, segment_bytes=1 << 20)
        await pair.start_replica(follows=False, store=larger)
        await until(lambda: "mappedFileSizeCommitLog" in pair.follower.reason, "told")


# --- strangers at the port for replicas ---


async def test_forged_reports_confirm_nothing(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        await pair.start_master(confirm_timeout_ms=200)
        await producer.send(Message("orders", b"1"))
        _, writer = await asyncio.open_connection(*pair.leader.address)
        writer.write(encode_report(1))
        await until(lambda: [each.sent for each in pair.leader.replicas] == [pair.leader.end], "it gets the log")
        writer.write(encode_report(1))
        assert (await producer.send(Message("orders", b"2"))).status is SendStatus.SLAVE_NOT_AVAILABLE
        assert pair.leader.replicas.positions() == {}, "it has not said that it took anything"
        writer.write(encode_report(2))
        await until(lambda: len(pair.leader.replicas.in_sync(pair.leader.end)) == 1, "it counts as a replica")
        for forged in (1 << 60, -5, 0, NAMED, SILENT, 1):
            writer.write(encode_report(forged))
        assert (await producer.send(Message("orders", b"3"))).status is SendStatus.FLUSH_SLAVE_TIMEOUT
        assert pair.leader.replicas.positions() == {"127.0.0.1": 2}
        writer.close()


async def test_two_replicas_on_one_machine_are_two_copies(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        await pair.start_master(in_sync_replicas=3)
        first = await pair.start_replica()
        assert (await producer.send(Message("orders", b"1"))).status is SendStatus.SLAVE_NOT_AVAILABLE
        settings = replace(pair.settings(Role.REPLICA), broker_id=2)
        async with Broker(settings, tmp_path / "second") as second:
            await until(lambda: len(pair.leader.replicas.in_sync(pair.leader.end)) == 2, "both count")
            assert set(pair.leader.replicas.positions()) == {"127.0.0.1 id 1", "127.0.0.1 id 2"}
            receipt = await producer.send(Message("orders", b"2"))
            assert receipt.status is SendStatus.SEND_OK
            assert first.store.flushed_position == second.store.flushed_position == pair.leader.end
        await until(lambda: len(pair.leader.replicas.in_sync(pair.leader.end)) == 1, "one is gone")
        assert (await producer.send(Message("orders", b"3"))).status is SendStatus.SLAVE_NOT_AVAILABLE


async def test_a_replica_counts_when_it_has_compared_and_not_before(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        await pair.start_master()
        await pair.start_replica()
        await until(lambda: pair.leader.replicas.in_sync(pair.leader.end) == [0], "also with an empty log")
        await producer.send(Message("orders", b"x" * 9_000))
        await pair.stop_replica()
        async with CuttingProxy(pair.leader.address) as proxy:
            proxy.swallows_to_replica = True
            await pair.start_replica(follows=False, master_replication_address=proxy.address, heartbeat_interval_ms=10)
            await until(
                lambda: [each.sent for each in pair.leader.replicas] == [pair.leader.end], "it is sent the rest"
            )
            pair.follower.tick()
            assert pair.leader.replicas.positions() == {}
            assert (await producer.send(Message("orders", b"2"))).status is SendStatus.SLAVE_NOT_AVAILABLE
            proxy.swallows_to_replica = False
            proxy.cut()
            await until(lambda: pair.leader.replicas.in_sync(pair.leader.end) == [pair.leader.end], "compared")


async def test_a_name_that_comes_in_pieces_is_understood(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.start_master()
        _, writer = await asyncio.open_connection(*pair.leader.address)
        for byte in encode_name(7) + encode_report(0):
            writer.write(bytes([byte]))
            await writer.drain()
        writer.write(encode_report(0))
        await until(lambda: pair.leader.replicas.positions() == {"127.0.0.1 id 7": 0}, "named")
        writer.close()


@pytest.mark.parametrize("first", [1 << 60, -1, -(1 << 63)])
async def test_a_replica_that_claims_more_than_the_master_has_is_refused(
    tmp_path: Path, first: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.start_master()
        with caplog.at_level(logging.ERROR):
            for _ in range(2):
                reader, writer = await asyncio.open_connection(*pair.leader.address)
                writer.write(encode_report(first))
                with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                    await reader.readexactly(1)
                writer.close()
        assert caplog.text.count("replica refused") == 1


async def test_addresses_that_are_not_allowed_get_nothing(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.start_master(replica_addresses=("10.0.0.0/8",))
        reader, writer = await asyncio.open_connection(*pair.leader.address)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            writer.write(encode_report(0))
            await reader.readexactly(1)
        writer.close()
        replica = await pair.start_replica(follows=False)
        await until(lambda: pair.follower.reason, "told")
        assert pair.follower.state is not Following.FOLLOWING and not replica.store.end_position


# --- metadata ---


async def test_topics_groups_and_offsets_are_taken_over(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        master, replica = await pair.start_master(), await pair.start_replica()
        topic = TopicConfig(topic_name="made-by-hand", read_queue_nums=3, write_queue_nums=3, perm=6)
        master.parts.tables.topics.update(topic)
        master.parts.tables.groups.table.put(GroupConfig(group_name="readers", retry_max_times=3), 1)
        receipt = await producer.send(Message("orders", b"1"))
        master.parts.tables.progress.commit("readers", "orders", receipt.queue.number, 1)
        await pair.metadata_taken()
        tables = replica.parts.tables
        assert tables.topics.get("made-by-hand") == topic
        assert tables.groups.table.get("readers") == master.parts.tables.groups.table.get("readers")
        assert tables.progress.committed("readers", "orders", receipt.queue.number) == 1
        assert replica.parts.replication.metadata_version == master.parts.replication.metadata_version
        master.parts.tables.topics.delete("orders")
        master.store.delete_topic("orders")
        await pair.metadata_taken()
        assert tables.topics.get("orders") is None and ("orders", 0) not in replica.store.queues
        await producer.send(Message("orders", b"made again"))
        await pair.caught_up()
        same_stores(master, replica)
        await pair.stop_replica()
        replica = await pair.start_replica()
        assert replica.parts.tables.topics.get("made-by-hand") == topic, "it was saved"


async def test_offsets_committed_at_the_replica_reach_the_master(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        await pair.start_master(Role.ASYNC_MASTER)
        replica = await pair.start_replica()
        receipt = await producer.send(Message("orders", b"1"))
        await pair.caught_up()
        await pair.metadata_taken()
        await pair.stop_master()
        await until(lambda: not pair.follower.attached.is_set(), "the master is gone")
        replica.parts.tables.progress.commit("readers", "orders", receipt.queue.number, 1)
        master = await pair.start_master(Role.ASYNC_MASTER)
        progress = master.parts.tables.progress
        await until(lambda: progress.committed("readers", "orders", receipt.queue.number) == 1, "merged")


async def test_with_access_control_a_replica_signs_what_it_asks(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        master = await pair.start_master(Role.ASYNC_MASTER, access=guarded_access())
        topic = TopicConfig(topic_name="made-by-hand", read_queue_nums=3, write_queue_nums=3, perm=6)
        master.parts.tables.topics.update(topic)
        replica = await pair.start_replica(access=guarded_access())
        await pair.metadata_taken()
        assert replica.parts.tables.topics.get("made-by-hand") == topic
        await pair.stop_replica()
        await pair.start_replica(follows=False, folder="stranger")
        await until(lambda: "code 16" in pair.follower.reason, "a replica without credentials is told")
        assert pair.replica is not None and not pair.replica.store.end_position


# --- requests at a replica ---


async def test_a_replica_refuses_writes_in_rocketmqs_words(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        await pair.start_master()
        replica = await pair.start_replica()
        await producer.send(Message("orders", b"1"))
        await pair.caught_up()
        connection = await asking(replica.address)
        wanted: dict[RequestCode, tuple[ResponseCode, str]] = {
            RequestCode.SEND_MESSAGE_V2: (ResponseCode.SYSTEM_BUSY, "[REJECTREQUEST]"),
            RequestCode.SEND_BATCH_MESSAGE: (ResponseCode.SYSTEM_BUSY, "[REJECTREQUEST]"),
            RequestCode.PULL_MESSAGE: (ResponseCode.SYSTEM_BUSY, "[REJECTREQUEST]"),
            RequestCode.CONSUMER_SEND_MSG_BACK: (ResponseCode.SYSTEM_ERROR, "no master available"),
            RequestCode.END_TRANSACTION: (ResponseCode.SLAVE_NOT_AVAILABLE, "replica"),
            RequestCode.RECALL_MESSAGE: (ResponseCode.SLAVE_NOT_AVAILABLE, "replica"),
            RequestCode.UPDATE_AND_CREATE_TOPIC: (ResponseCode.SYSTEM_ERROR, "Can't modify topic"),
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: (ResponseCode.SYSTEM_ERROR, "Can't modify topic"),
        }
        end = replica.store.end_position
        try:
            for code, (answer, words) in wanted.items():
                response = await connection.request(code, HEADERS[code], b"{}", timeout_ms=5_000)
                assert (response.code, words in (response.remark or "")) == (answer, True), (code, response.remark)
        finally:
            connection.close()
        assert replica.store.end_position == end


SEND = {**dict.fromkeys("aci", "x"), **dict.fromkeys("defghj", "0"), "b": "orders"}
HEADERS: dict[RequestCode, dict[str, str] | None] = {
    RequestCode.SEND_MESSAGE_V2: SEND,
    RequestCode.SEND_BATCH_MESSAGE: SEND,
    RequestCode.PULL_MESSAGE: {
        **{"consumerGroup": "g", "topic": "orders", "queueId": "0", "queueOffset": "0", "maxMsgNums": "1"},
        **{"sysFlag": "0", "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0", "subscription": "*"},
    },
    RequestCode.CONSUMER_SEND_MSG_BACK: {"offset": "0", "group": "g", "delayLevel": "1"},
    RequestCode.END_TRANSACTION: {
        **{
            "producerGroup": "g",
            "tranStateTableOffset": "0",
            "commitLogOffset": "0",
            "commitOrRollback": "8",
            "msgId": "x",
        },
    },
    RequestCode.RECALL_MESSAGE: {"topic": "orders", "recallHandle": "x"},
    RequestCode.UPDATE_AND_CREATE_TOPIC: {
        **{"topic": "t", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"},
        **{"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"},
    },
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: None,
}


async def test_tools_see_replicas_and_how_far_they_are(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        master, replica = await pair.start_master(), await pair.start_replica()
        await producer.send(Message("orders", b"1"))
        connection = await asking(master.address)
        other = await asking(replica.address)
        try:
            answer = await connection.request(RequestCode.GET_BROKER_HA_STATUS, timeout_ms=5_000)
            state = java_json.decode(answer.body, bodies.ReplicationState)
            assert state.master and state.in_sync_slave_nums == 1
            assert state.ha_connection_info[0].slave_ack_offset == master.store.end_position
            answer = await other.request(RequestCode.GET_BROKER_HA_STATUS, timeout_ms=5_000)
            state = java_json.decode(answer.body, bodies.ReplicationState)
            assert not state.master and state.ha_client_runtime_info.max_offset == replica.store.end_position
            answer = await other.request(RequestCode.GET_BROKER_RUNTIME_INFO, timeout_ms=5_000)
            table = java_json.decode(answer.body, bodies.KeyValues).table
            assert table["replicationRole"] == "replica" and table["replicationState"] == "FOLLOWING"
        finally:
            connection.close()
            other.close()


# --- reading from replicas ---


def quick(pair: Pair) -> ClientSettings:
    return ClientSettings(nameservers=(pair.nameserver,), route_poll_ms=300, heartbeat_ms=300)


def reader(client: Client, listener: Seen) -> PushConsumer:
    return PushConsumer(group="readers", listener=listener, topics=["orders"], settings=FAST, client=client)


async def test_the_backlog_is_read_from_a_replica_while_the_master_is_dead(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.start_master(replica_reads=True)
        replica = await pair.start_replica(replica_reads=True)
        sent = {b"%d" % number for number in range(60)}
        async with pair.producer() as producer:
            for body in sorted(sent):
                assert (await producer.send(Message("orders", body))).status is SendStatus.SEND_OK
        await pair.metadata_taken()
        await pair.stop_master()
        seen = Seen()
        async with Client(quick(pair)) as client, reader(client, seen):
            await until(lambda: set(seen.bodies) == sent, "read from the replica")
            progress = replica.parts.tables.progress
            committed = lambda: sum(progress.committed("readers", "orders", n) or 0 for n in range(8))  # noqa: E731
            await until(lambda: committed() == 60, "offsets are kept at the replica")
            master = await pair.start_master(replica_reads=True)
            async with pair.producer() as producer:
                await producer.send(Message("orders", b"after"))
            await until(lambda: b"after" in seen.bodies, "read from the master again")
        progress = master.parts.tables.progress
        await until(lambda: committed() >= 61, "and at the master, when it is back")


@pytest.mark.parametrize(("reads", "suggested"), [(True, 1), (False, 0)])
async def test_a_master_sends_readers_of_old_messages_to_a_replica(tmp_path: Path, reads: bool, suggested: int) -> None:
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        store = replace(SMALL, hot_bytes=2_000)
        master = await pair.start_master(Role.ASYNC_MASTER, store=store, replica_reads=reads)
        await pair.start_replica(store=store, replica_reads=True)
        master.parts.tables.groups.table.put(GroupConfig(group_name="readers"), 1)
        queue = (await producer.send(Message("orders", b"first"))).queue
        for _ in range(20):
            await producer.send(Message("orders", b"x" * 500), queue=queue)
        await pair.caught_up()
        await pair.metadata_taken()
        connection = await asking(master.address)
        other = await asking(pair.replica.address) if pair.replica else connection
        try:
            header = pull(queue.number, 0)
            answer = await connection.request(RequestCode.PULL_MESSAGE, header, timeout_ms=5_000)
            assert answer.header_as(PullResponseHeader).suggest_which_broker_id == suggested, "it is far behind"
            answer = await connection.request(RequestCode.PULL_MESSAGE, pull(queue.number, 20), timeout_ms=5_000)
            assert answer.header_as(PullResponseHeader).suggest_which_broker_id == 0, "it is near the end"
            answer = await other.request(RequestCode.PULL_MESSAGE, header, timeout_ms=5_000)
            assert (answer.code, answer.header_as(PullResponseHeader).suggest_which_broker_id) == (0, 1)
            answer = await other.request(RequestCode.PULL_MESSAGE, pull(queue.number, 5_000), timeout_ms=5_000)
            told = answer.header_as(PullResponseHeader)
            assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY and told.suggest_which_broker_id == 0
            assert told.next_begin_offset == 5_000, "a replica moves nobody elsewhere"
        finally:
            connection.close()
            other.close()


@pytest.mark.parametrize("reads", [True, False])
async def test_a_group_names_the_broker_that_it_is_sent_to(tmp_path: Path, reads: bool) -> None:
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        store = replace(SMALL, hot_bytes=2_000)
        master = await pair.start_master(Role.ASYNC_MASTER, store=store, replica_reads=reads)
        group = GroupConfig(group_name="readers", broker_id=3, which_broker_when_consume_slowly=2)
        master.parts.tables.groups.table.put(group, 1)
        queue = (await producer.send(Message("orders", b"first"))).queue
        for _ in range(20):
            await producer.send(Message("orders", b"x" * 500), queue=queue)
        connection = await asking(master.address)
        try:
            for offset, suggested in ((0, 2), (20, 3), (21, 3)):
                answer = await connection.request(
                    RequestCode.PULL_MESSAGE, pull(queue.number, offset), timeout_ms=5_000
                )
                told = answer.header_as(PullResponseHeader).suggest_which_broker_id
                assert told == (suggested if reads else 0), offset
        finally:
            connection.close()


def pull(queue: int, offset: int) -> dict[str, str]:
    flags = int(PullFlag.SUBSCRIPTION)
    return {
        **{"consumerGroup": "readers", "topic": "orders", "queueId": str(queue), "queueOffset": str(offset)},
        **{"maxMsgNums": "1", "sysFlag": str(flags), "commitOffset": "0", "suspendTimeoutMillis": "0"},
        **{"subVersion": "0", "subscription": "*", "expressionType": "TAG"},
    }


# --- a change of roles ---


async def test_a_promoted_replica_delivers_what_was_delayed_and_goes_on(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        await pair.start_master()
        replica = await pair.start_replica()
        await until(lambda: pair.leader.replicas.in_sync(pair.leader.end), "in sync")
        at_once = await producer.send(Message("orders", b"at once"))
        await producer.send(Message("later", b"by level", delay_level=1))
        await producer.send(Message("later", b"by time", delay_ms=1_500))
        await producer.send(Message("later", b"much later", delay_ms=600_000))
        await pair.caught_up()
        await pair.metadata_taken()
        end = replica.store.end_position
        assert replica.parts.services.delay_runner.schedule.waiting_from() < end, "retention keeps what waits"
        await pair.stop_master()
        await replica.change_role(Role.SYNC_MASTER, 0)
        pair.master, pair.replica = replica, None
        assert replica.store.end_position >= end
        await until(lambda: messages_in(replica, "later") == 2, "both delivered")
        timers = replica.parts.services.delay_runner.timers
        await until(lambda: timers.pending == 1, "the third one waits")
        async with pair.producer() as later:
            receipt = await later.send(Message("orders", b"after"))
        assert receipt.status is SendStatus.SLAVE_NOT_AVAILABLE, "it waits for replicas of its own"
        assert (receipt.queue.number, receipt.offset) != (at_once.queue.number, at_once.offset)


async def test_a_master_that_became_a_replica_follows_the_new_one(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        old = await pair.start_master()
        new = await pair.start_replica()
        for number in range(10):
            await producer.send(Message("orders", b"%d" % number))
        await pair.caught_up()
        await pair.metadata_taken()
        await old.change_role(Role.REPLICA, 2)
        await new.change_role(Role.SYNC_MASTER, 0)
        pair.master, pair.replica = new, old
        await until(lambda: pair.follower.state is Following.FOLLOWING, "roles are changed")
        async with pair.producer() as later:
            await until(lambda: pair.leader.replicas.in_sync(pair.leader.end), "in sync")
            assert (await later.send(Message("orders", b"after"))).status is SendStatus.SEND_OK
        await pair.caught_up()
        same_stores(new, old)
