"""A flipped bit in the log of a replica: it leaves its master, gets the bytes again, and follows as before."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pyromq import Message
from pyromq.aio import Producer
from pyromq.broker.broker import Broker
from pyromq.results import SendStatus
from tests.integration.guarded import ROOT, guarded_access
from tests.integration.replication_pair import a_pair
from tests.integration.test_replication import log_bytes
from tests.integration.waiting import until

pytestmark = pytest.mark.integration


def flip_bits(store: Path) -> None:
    """In the bodies of two messages with another one between them, which were sealed long ago."""
    path = min((store / "commitlog").iterdir())
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[:4], "big")
    data[size + 100] ^= 1
    data[3 * size + 100] ^= 1
    path.write_bytes(data)


def damage_of(broker: Broker) -> str:
    return broker.store.health.damage


@pytest.mark.parametrize("is_guarded", [False, True])
async def test_damage_in_the_log_of_a_replica_is_mended_from_its_master(
    tmp_path: Path, is_guarded: bool, caplog: pytest.LogCaptureFixture
) -> None:
    access = guarded_access() if is_guarded else None
    async with a_pair(tmp_path) as pair:
        master = await pair.start_master(access=access)
        replica = await pair.start_replica(access=access)
        await until(lambda: pair.leader.replicas.in_sync(pair.leader.end), "in sync")
        credentials = ROOT if is_guarded else None
        async with Producer(pair.nameserver, group="senders", credentials=credentials, timeout_ms=60_000) as producer:
            for number in range(30):
                await producer.send(Message("orders", b"%d" % number * 50))
            await pair.caught_up()
            await pair.stop_replica()
            flip_bits(tmp_path / "replica")
            with caplog.at_level(logging.WARNING):
                replica = await pair.start_replica(access=access, follows=False)
                await until(lambda: "log damaged on disk" in caplog.text, "found")
                await until(lambda: caplog.text.count("damage mended") == 2, "mended")
            assert "replica refused" not in caplog.text
            await until(lambda: pair.leader.replicas.in_sync(pair.leader.end), "in sync again")
            assert not damage_of(replica) and log_bytes(replica.store) == log_bytes(master.store)
            assert (await producer.send(Message("orders", b"last"))).status is SendStatus.SEND_OK


async def test_a_master_with_damage_says_so_to_everybody_who_asks(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.start_master()
        async with pair.producer() as producer:
            for number in range(30):
                await producer.send(Message("orders", b"%d" % number * 50))
        await pair.stop_master()
        flip_bits(tmp_path / "master")
        master = await pair.start_master()
        await until(lambda: damage_of(master), "found")
        status = master.parts.replication.status("127.0.0.1:10911")
        assert status.log_damaged and status.reason == damage_of(master)
        assert master.parts.handlers.runtime.facts()["storeDamage"] == damage_of(master)


async def test_a_damaged_replica_does_not_count_while_its_master_has_nothing_to_mend_it_with(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.start_master()
        replica = await pair.start_replica()
        async with pair.producer() as producer:
            for number in range(30):
                await producer.send(Message("orders", b"%d" % number * 50))
            await pair.caught_up()
            await pair.stop_replica()
            await pair.stop_master()
            flip_bits(tmp_path / "replica")
            flip_bits(tmp_path / "master")
            await pair.start_master()
            replica = await pair.start_replica(follows=False)
            await until(lambda: damage_of(replica), "found")
            await until(lambda: "damaged, too" in pair.follower.reason, "and not mended with damage")
            assert not pair.leader.replicas.in_sync(pair.leader.end)
            assert (await producer.send(Message("orders", b"alone"))).status is SendStatus.SLAVE_NOT_AVAILABLE
