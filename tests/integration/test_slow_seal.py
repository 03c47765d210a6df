"""A seal that takes long: what else has to be saved does not wait for it."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import pytest

from pyromq.broker.broker import Broker
from pyromq.store.files.disk import RealDisk, RealFile
from pyromq.wire.codes import RequestCode
from pyromq.wire.headers.consumer import UpdateConsumerOffsetHeader
from tests.integration.test_broker import Client, send, settings
from tests.integration.waiting import until

pytestmark = pytest.mark.integration


class SlowQueues(RealDisk):
    """fsync of queue files waits for ``free``."""

    def __init__(self) -> None:
        super().__init__()
        self.free, self.waits, self.went_on = Event(), Event(), Event()

    def create(self, path: Path, size: int, *, reserve_bytes: int = 0, sync_folders: bool = True) -> RealFile:
        file = super().create(path, size, reserve_bytes=reserve_bytes, sync_folders=sync_folders)
        if "consumequeue" in path.parts:
            sync = file.sync

            def slow_sync() -> None:
                self.waits.set()
                if not self.free.wait(20):
                    self.went_on.set()
                sync()

            file.sync = slow_sync  # type: ignore[method-assign]
        return file


async def test_offsets_and_topics_are_saved_while_thousands_of_queues_are_sealed(tmp_path: Path) -> None:
    disk, config = SlowQueues(), tmp_path / "store" / "config"
    async with Broker(settings(offsets_save_ms=50), tmp_path / "store", disk=disk) as broker:
        client = Client()
        await client.connect(broker)
        await send(client, b"x")
        broker.parts.services.sealer.start()
        await until(disk.waits.is_set)
        try:
            commit = UpdateConsumerOffsetHeader(consumer_group="readers", topic="orders", queue_id=0, commit_offset=1)
            await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
            await send(client, b"x", topic="bills")
            offsets, topics = config / "consumerOffset.json", config / "topics.json"
            await until(lambda: offsets.exists() and "orders@readers" in offsets.read_text())
            await until(lambda: '"bills"' in topics.read_text())
            assert not disk.went_on.is_set(), "the seal is still under way"
        finally:
            disk.free.set()
            client.connection.close()
