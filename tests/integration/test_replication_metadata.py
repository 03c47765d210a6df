"""What a replica takes over beside the log: in any order, with failures in between, and what it does with deletions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyromq import Message
from pyromq.broker.broker import Broker
from pyromq.broker.replicating.master_calls import MasterRefusedError, MasterTables
from pyromq.broker.replicating.metadata import MetadataSync
from pyromq.broker.state.progress import ReplicaProgress
from pyromq.model.topic import GroupConfig
from pyromq.replication.settings import Role
from pyromq.store.tables.offsets import DelayOffsets
from pyromq.testing import FaultyDisk
from tests.integration.replication_pair import Pair, a_pair
from tests.integration.test_replication import messages_in, same_stores
from tests.integration.waiting import until

pytestmark = pytest.mark.integration


def metadata_of(broker: Broker) -> MetadataSync:
    assert broker.parts.replication.metadata is not None
    return broker.parts.replication.metadata


def delete(master: Broker, topic: str) -> None:
    master.store.delete_topic(topic)
    master.parts.tables.topics.delete(topic)
    master.parts.tables.progress.begin_anew(topic, ())


async def make(pair: Pair, topic: str, count: int) -> int:
    """Messages of a producer that knows nothing of what was before; one of the queues that have some."""
    async with pair.producer() as producer:
        receipts = [await producer.send(Message(topic, b"%d" % number)) for number in range(count)]
    return receipts[0].queue.number


# --- deleted topics ---


async def test_a_topic_made_again_while_a_round_is_under_way_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_pair(tmp_path) as pair:
        master, replica = await pair.start_master(Role.ASYNC_MASTER), await pair.start_replica()
        await make(pair, "orders", 20)
        await pair.caught_up()
        await pair.metadata_taken()
        metadata, calls = metadata_of(replica), replica.parts.replication.master
        assert calls is not None
        ask, seen = calls.tables, list[MasterTables]()

        async def tables(known: tuple[int, int]) -> MasterTables:
            if not seen:
                delete(master, "orders")
            answer = await ask(known)
            if not seen:
                seen.append(answer)
                await make(pair, "orders", 9)
                await pair.caught_up()
            return answer

        monkeypatch.setattr(calls, "tables", tables)
        await until(lambda: seen, "the topic is gone in the answer of the master")
        await pair.metadata_taken()
        assert messages_in(replica, "orders") == messages_in(master, "orders") == 9
        same_stores(master, replica)
        assert replica.parts.tables.topics.get("orders") is not None and not metadata.troubles


async def test_a_topic_deleted_while_the_replica_was_away_goes(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        master = await pair.start_master(Role.ASYNC_MASTER)
        await pair.start_replica()
        await make(pair, "orders", 20)
        await make(pair, "invoices", 20)
        await pair.caught_up()
        await pair.metadata_taken()
        await pair.stop_replica()
        delete(master, "orders")
        replica = await pair.start_replica()
        await pair.metadata_taken()
        assert not messages_in(replica, "orders") and replica.parts.tables.topics.get("orders") is None
        assert messages_in(replica, "invoices") == 20
        await pair.stop_replica()
        replica = await pair.start_replica()
        assert not messages_in(replica, "orders"), "it stays deleted"


async def test_a_deletion_whose_records_are_too_new_waits_for_the_next_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_pair(tmp_path) as pair:
        master, replica = await pair.start_master(Role.ASYNC_MASTER), await pair.start_replica()
        calls = replica.parts.replication.master
        assert calls is not None
        ask, done = calls.tables, list[int]()

        async def tables(known: tuple[int, int]) -> MasterTables:
            start = master.store.end_position
            if not done:  # everything of the topic lies behind the first log end of this round
                await make(pair, "orders", 3)
                delete(master, "orders")
            answer = await ask(known)
            done.append(start)
            return answer._replace(log_start=start)

        monkeypatch.setattr(calls, "tables", tables)
        await until(lambda: len(done) > 2, "some rounds")
        await pair.metadata_taken()
        assert not messages_in(replica, "orders")


async def test_a_master_that_lost_its_table_of_topics_deletes_nothing_here(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_pair(tmp_path) as pair:
        master, replica = await pair.start_master(Role.ASYNC_MASTER), await pair.start_replica()
        await make(pair, "orders", 20)
        await pair.caught_up()
        await pair.metadata_taken()
        table, before = master.parts.tables.topics.table, dict(replica.parts.tables.topics.items())
        text, lost = table.text(), b'{"dataVersion":{"counter":1},"topicConfigTable":{"TBW102":{"topicName":"TBW102"}}}'
        table.adopt(lost)
        await pair.metadata_taken(3)
        assert messages_in(replica, "orders") == 20 and "lost by the master" in caplog.text
        table.adopt(text)
        await pair.metadata_taken()
        assert dict(replica.parts.tables.topics.items()) == before
        with pytest.raises(ValueError, match="it was lost"):
            replica.parts.tables.topics.adopt(b"{}")
        assert dict(replica.parts.tables.topics.items()) == before


# --- one part that fails ---


async def test_an_offset_that_the_master_refuses_stops_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_pair(tmp_path) as pair:
        master, replica = await pair.start_master(Role.ASYNC_MASTER), await pair.start_replica()
        queue = await make(pair, "orders", 3)
        await pair.caught_up()
        await pair.metadata_taken()
        calls, metadata = replica.parts.replication.master, metadata_of(replica)
        assert calls is not None
        commit, told = calls.commit, list[str]()

        async def refusing(header: Any) -> None:
            told.append(header.consumer_group)
            if header.consumer_group == "refused":
                raise MasterRefusedError("answers with code 16: no", 16)
            await commit(header)

        monkeypatch.setattr(calls, "commit", refusing)
        progress = replica.parts.tables.progress
        progress.commit("refused", "orders", queue, 1)
        progress.commit("welcome", "orders", queue, 1)
        await until(
            lambda: master.parts.tables.progress.committed("welcome", "orders", queue) == 1, "the other one arrived"
        )
        master.parts.tables.groups.table.put(GroupConfig(group_name="made-later"), 1)
        await until(lambda: replica.parts.tables.groups.table.get("made-later"), "other tables go on")
        await until(lambda: told.count("refused") > 2, "it is tried again")
        assert progress.committed("refused", "orders", queue) == 1, "and known here meanwhile"
        assert "code 16" in metadata.troubles["offsets committed here"]
        assert "code 16" in str(replica.parts.replication.runtime()["replicationMetadataTroubles"])
        assert caplog.text.count("code 16") == 1, "told once"
        delete(master, "orders")
        await until(lambda: not metadata.troubles, "what belonged to a topic that is gone is forgotten")
        assert isinstance(progress, ReplicaProgress) and not progress.take_commits()


async def test_offsets_committed_at_a_silent_copy_never_reach_the_broker_that_it_copies(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        master, copy = await pair.start_master(Role.ASYNC_MASTER), await pair.start_replica(silent=True)
        queue = await make(pair, "orders", 3)
        await pair.caught_up()
        await pair.metadata_taken()
        copy.parts.tables.progress.commit("readers", "orders", queue, 1)
        await pair.metadata_taken(3)
        assert master.parts.tables.progress.committed("readers", "orders", queue) is None
        assert copy.parts.tables.progress.committed("readers", "orders", queue) == 1, "it counts here"
        master.parts.tables.progress.commit("readers", "orders", queue, 0)
        await pair.metadata_taken()
        assert copy.parts.tables.progress.committed("readers", "orders", queue) == 1


async def test_a_table_that_is_no_table_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_pair(tmp_path) as pair:
        master, replica = await pair.start_master(Role.ASYNC_MASTER), await pair.start_replica()
        queue = await make(pair, "orders", 3)
        await pair.caught_up()
        await pair.metadata_taken()
        calls, metadata = replica.parts.replication.master, metadata_of(replica)
        assert calls is not None
        ask, broken = calls.tables, dict[str, bytes](topics=b"{]", offsets=b"7", timer_check=b"short")

        async def tables(known: tuple[int, int]) -> MasterTables:
            return (await ask(known))._replace(**broken)  # type: ignore[arg-type]

        monkeypatch.setattr(calls, "tables", tables)
        replica.parts.tables.progress.commit("readers", "orders", queue, 1)
        master.parts.tables.groups.table.put(GroupConfig(group_name="made-later"), 1)
        await until(lambda: replica.parts.tables.groups.table.get("made-later"), "groups are taken over")
        await until(lambda: set(metadata.troubles) == {"topics", "offsets", "timer check"}, "each is told")
        rounds = metadata.rounds
        broken.clear()
        await pair.metadata_taken()
        assert metadata.rounds > rounds and not metadata.troubles
        assert master.parts.tables.progress.committed("readers", "orders", queue) == 1, "it was not forgotten"


class PickyDisk(FaultyDisk):
    """Refuses to put one file into its place."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def rename(self, old: Path, new: Path) -> None:
        if new.name == self.name:
            raise OSError(5, "the disk says no")
        super().rename(old, new)


async def test_what_could_not_be_saved_is_saved_by_the_next_round(tmp_path: Path) -> None:
    disk = PickyDisk(DelayOffsets.file_name)
    async with a_pair(tmp_path) as pair:
        await pair.start_master(Role.ASYNC_MASTER)
        replica = await pair.start_replica(disk=disk)
        async with pair.producer() as producer:
            await producer.send(Message("later", b"1", delay_level=1))
        metadata = metadata_of(replica)
        await until(lambda: "says no" in metadata.troubles.get("delay offsets", ""), "not saved here")
        rounds = metadata.rounds
        disk.name = ""
        await until(lambda: not metadata.troubles and metadata.rounds > rounds, "saved, without a change at the master")
        await until(lambda: DelayOffsets.load(disk, replica.store.layout.root).get(1) == 1, "what was delivered")
