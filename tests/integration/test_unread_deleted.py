"""A disk that others fill: messages go by force, and the broker says whose they were."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from pyromq.broker.broker import Broker
from pyromq.store.files.disk import DiskUsage, RealDisk
from pyromq.wire.codes import RequestCode
from pyromq.wire.json import bodies
from tests.integration.test_broker import Client, send, settings
from tests.integration.waiting import until

pytestmark = pytest.mark.integration


class SharedDisk(RealDisk):
    """As full as others make it."""

    percent = 10

    def usage(self, path: Path) -> DiskUsage:
        return DiskUsage(1 << 30, (1 << 30) * self.percent // 100, (1 << 30) * (100 - self.percent) // 100)


async def test_unread_messages_that_go_by_force_are_named_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk, store = SharedDisk(), replace(settings().store, segment_bytes=4_096)
    async with Broker(settings(store=store), tmp_path / "store", disk=disk) as broker:
        client = Client()
        await client.connect(broker)
        for number in range(40):
            await send(client, b"%900d" % number)
        (topic,) = {topic for topic, _ in broker.store.queues}
        broker.parts.tables.progress.commit("shop", topic, 0, 1)
        disk.percent = 86
        with caplog.at_level(logging.ERROR):
            await until(lambda: broker.parts.stats.counters.unread_deleted > 0)
        assert any(f"topic={topic} group=shop" in record.getMessage() for record in caplog.records)
        answer = await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        told = dict(bodies.decode(answer.body, bodies.KeyValues).table)
        assert int(told["unreadMessagesDeleted"]) > 0
        client.connection.close()


async def test_by_choice_sends_are_refused_and_unread_messages_stay(tmp_path: Path) -> None:
    disk = SharedDisk()
    store = replace(settings().store, segment_bytes=4_096, delete_unread=False, full_percent=90)
    async with Broker(settings(store=store), tmp_path / "store", disk=disk) as broker:
        client = Client()
        await client.connect(broker)
        for number in range(40):
            await send(client, b"%900d" % number)
        (topic,) = {topic for topic, _ in broker.store.queues}
        broker.parts.tables.progress.commit("shop", topic, 0, 1)
        disk.percent = 95
        await until(lambda: not broker.store.health.writable)
        with pytest.raises(AssertionError, match="full"):
            await send(client, b"one more")
        await until(
            lambda: broker.store.first_position == 0 and broker.parts.services.maintenance.disk_state.name == "FULL"
        )
        known = broker.store.reader.range_of(topic, 0)
        assert known is not None and known.first <= 1
        client.connection.close()
