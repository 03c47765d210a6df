"""What a replica has when it becomes the master, whatever it had not taken over yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq import Message
from pyromq.aio import PullConsumer
from pyromq.replication.settings import Role
from pyromq.results import SendStatus
from tests.integration.replication_pair import Pair, a_pair
from tests.integration.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]

NEVER_MS = 3_600_000


async def bodies_of(pair: Pair, topic: str) -> set[bytes]:
    found: set[bytes] = set()
    async with PullConsumer(pair.nameserver, group="readers", topics=topic, start="earliest") as consumer:
        while not found:
            found |= {message.body for message in await consumer.poll(timeout_ms=1_000)}
    return found


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_topic_that_the_replica_had_not_heard_of_is_there_with_its_messages(
    tmp_path: Path, is_restarted: bool
) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.start_master()
        replica = await pair.start_replica(metadata_interval_ms=NEVER_MS)
        await until(lambda: pair.leader.replicas.in_sync(pair.leader.end), "the replica is in sync")
        metadata = replica.parts.replication.metadata
        assert metadata is not None
        await until(lambda: metadata.rounds == 1, "the only tables for an hour")
        async with pair.producer() as producer:
            receipt = await producer.send(Message("brand-new", b"promised"))
        assert receipt.status is SendStatus.SEND_OK
        assert "brand-new" not in dict(replica.parts.tables.topics.items())
        await pair.stop_master()
        if is_restarted:
            await pair.stop_replica()
            await pair.start_master(folder="replica")
        else:
            await replica.change_role(Role.SYNC_MASTER, 0)
        assert await bodies_of(pair, "brand-new") == {b"promised"}


async def test_replicas_are_told_the_advertised_host_by_name_servers_and_by_the_master_itself(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        master = await pair.start_master(advertised_host="127.0.0.2")
        port = pair.leader.address.port
        assert master.parts.services.registrar.ha_address == f"127.0.0.2:{port}"
        assert master.parts.replication.status("127.0.0.1:1").replication_address == f"127.0.0.2:{port}"


async def test_a_broker_that_becomes_the_master_answers_before_replicas_can_connect(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        master = await pair.start_master()
        replication = master.parts.replication
        await pair.leader.stop()  # as it is between the change of role and the new port
        assert replication.runtime()["replicationAddress"] == ""
        assert replication.status("127.0.0.1:1").replication_address == ""
