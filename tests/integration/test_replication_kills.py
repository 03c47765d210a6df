"""Masters and replicas as processes, killed and paused under load: with SYNC nothing acknowledged is lost.

A round: some senders, a fault at a random moment, the master is gone. What was acknowledged SEND_OK is then looked for
in the folder of the replica.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from pyromq.aio import Message, MQError, Producer
from pyromq.nameserver.server import NameServer
from pyromq.nameserver.settings import NameServerSettings
from pyromq.results import SendStatus
from pyromq.settings import ProducerSettings
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import StoreSettings
from pyromq.wire.message_id import decode_offset_id
from tests.crash.script import log_records
from tests.integration.broker_process import BrokerProcess
from tests.integration.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.rounds]

ROUNDS = int(os.environ.get("PYROMQ_REPLICATION_ROUNDS", "1"))  # of each kind; ``make crash`` has more
SENDERS = 8
SETTINGS = StoreSettings(segment_bytes=65_536, index_slots=1_000, index_entries=5_000)
Property = Callable[[str, object], None]


class Senders:
    """Send until told to stop, and remember what was acknowledged: body, and the position in the master's log."""

    def __init__(self, nameserver: str, rng: Random) -> None:
        self._rng = rng
        self._stopped = False
        settings = ProducerSettings(compress_from_bytes=1 << 20, attempt_timeout_ms=1_000)
        self._producer = Producer(group="senders", nameservers=[nameserver], settings=settings, timeout_ms=2_000)
        self.acknowledged: dict[bytes, int] = {}
        self.others = 0  # stored, but not confirmed by a replica

    async def run(self) -> None:
        async with self._producer:
            await asyncio.gather(*(self._send_on(number) for number in range(SENDERS)))

    def stop(self) -> None:
        self._stopped = True

    async def _send_on(self, sender: int) -> None:
        number = 0
        while not self._stopped:
            number += 1
            body = b"%d-%d-" % (sender, number) + b"x" * self._rng.randrange(1, 900)
            try:
                receipt = await self._producer.send(Message("orders", body))
            except MQError:
                await asyncio.sleep(0.01)
                continue
            if receipt.status is SendStatus.SEND_OK:
                self.acknowledged[body] = decode_offset_id(receipt.offset_message_id)[1]
            else:
                self.others += 1


def bodies_in(folder: Path) -> tuple[set[bytes], int]:
    """Of all messages of the topic that a folder has, and where its log ends; the store is recovered first."""
    with MessageStore.open(folder, SETTINGS) as store:
        return {record.body for record in log_records(store) if record.topic == b"orders"}, store.end_position


async def one_round(folder: Path, role: str, rng: Random, fault: str) -> tuple[int, int, int]:
    """Counts: acknowledged, stored without a second copy, lost."""
    shutil.rmtree(folder, ignore_errors=True)
    async with NameServer(NameServerSettings(port=0)) as names:
        nameserver = str(names.address)
        first = BrokerProcess(folder / "first", nameserver, replication__confirm_timeout_ms="500")
        second = BrokerProcess(folder / "second", nameserver)
        senders = Senders(nameserver, rng)
        sending: asyncio.Task[None] | None = None
        try:
            await first.start(role)
            await second.start("replica", 1)
            await first.until("replicationInSync", "1")
            sending = asyncio.create_task(senders.run())
            await until(lambda: len(senders.acknowledged) >= 20 or sending.done(), "senders send")
            assert not sending.done()
            await asyncio.sleep(rng.random() / 2)  # the fault itself comes at a random moment
            if fault == "replica killed first":
                await second.kill()
                await asyncio.sleep(rng.random() / 2)
                await second.start("replica", 1)
                await first.until("replicationInSync", "1")
                await asyncio.sleep(rng.random() / 2)
            elif fault == "replica paused first":
                second.server.pause()
                await asyncio.sleep(rng.random())
                second.server.resume()
                await asyncio.sleep(rng.random() / 2)
            if fault == "both killed":
                await asyncio.gather(first.kill(), second.kill())
            else:
                await first.kill()
            senders.stop()
            await second.stop()
            await sending
            await second.kill()
        finally:
            senders.stop()
            if sending is not None:
                await asyncio.gather(sending, return_exceptions=True)
            await first.kill()
            await second.kill()
    there, end = bodies_in(folder / "second")
    lost = senders.acknowledged.keys() - there
    assert all(senders.acknowledged[body] >= end for body in lost), "a replica has a prefix, without gaps"
    _, master_end = bodies_in(folder / "first")
    assert master_end >= end, "and nothing that its master does not have"
    return len(senders.acknowledged), senders.others, len(lost)


@pytest.mark.parametrize("fault", ["master killed", "replica killed first", "replica paused first", "both killed"])
async def test_with_sync_replication_nothing_acknowledged_is_lost_with_the_master(
    tmp_path: Path, fault: str, record_property: Property
) -> None:
    for number in range(ROUNDS):
        seed = f"{fault} {number}"
        acknowledged, others, lost = await one_round(tmp_path, "sync-master", Random(seed), fault)
        record_property("replicated messages", acknowledged)
        record_property("stored without a second copy", others)
        assert lost == 0, f"{lost} of {acknowledged} lost, seed {seed!r}"


async def test_with_async_replication_what_is_lost_is_what_the_replica_missed(
    tmp_path: Path, record_property: Property
) -> None:
    for number in range(ROUNDS):
        acknowledged, _, lost = await one_round(tmp_path, "async-master", Random(number), "master killed")
        record_property("messages sent to an async master", acknowledged)
        record_property("of these not at its replica", lost)
        assert lost < acknowledged


async def test_a_promoted_folder_serves_as_master_and_a_new_replica_follows(tmp_path: Path) -> None:
    async with NameServer(NameServerSettings(port=0)) as names:
        nameserver = str(names.address)
        first, second = (BrokerProcess(tmp_path / name, nameserver) for name in ("first", "second"))
        third = BrokerProcess(tmp_path / "third", nameserver)
        try:
            await first.start("sync-master")
            await second.start("replica", 1)
            await first.until("replicationInSync", "1")
            async with Producer(group="senders", nameservers=[nameserver]) as producer:
                sent = [await producer.send(Message("orders", b"%d" % number)) for number in range(30)]
            assert {receipt.status for receipt in sent} == {SendStatus.SEND_OK}
            await first.kill()
            await second.stop()
            await second.start("sync-master")
            await third.start("replica", 2)
            await second.until("replicationInSync", "1")
            async with Producer(group="senders", nameservers=[nameserver]) as producer:
                assert (await producer.send(Message("orders", b"after"))).status is SendStatus.SEND_OK
            await first.start("replica", 3)
            await first.until("replicationState", "FOLLOWING")
            assert (await first.facts())["replicationReason"] == "", "it had nothing that the new master had not"
        finally:
            for broker in (first, second, third):
                await broker.kill()
    assert bodies_in(tmp_path / "third") == bodies_in(tmp_path / "second")
