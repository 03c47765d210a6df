"""A broker that is told to stop while producers go on sending."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from pyromq.broker.broker import Broker
from pyromq.errors import TransportError
from pyromq.store.files.disk import RealDisk, RealFile
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import Flush
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.headers.producer import SendResponseHeader
from tests.integration.test_broker import Client, send_header, settings
from tests.integration.waiting import until

pytestmark = pytest.mark.integration
SENDERS = 4
STOP_S = 60


class SlowLog(RealDisk):
    """fsync of log files takes a while, as on real disks."""

    def create(self, path: Path, size: int, *, reserve_bytes: int = 0, sync_folders: bool = True) -> RealFile:
        file = super().create(path, size, reserve_bytes=reserve_bytes, sync_folders=sync_folders)
        if "commitlog" in path.parts:
            sync = file.sync

            def slow_sync() -> None:
                time.sleep(0.005)
                sync()

            file.sync = slow_sync  # type: ignore[method-assign]
        return file


async def send_for_ever(broker: Broker, acknowledged: list[int]) -> None:
    client = Client()
    await client.connect(broker)
    with suppress(TransportError):
        while True:
            answer = await client.ask(RequestCode.SEND_MESSAGE_V2, send_header(), b"x")
            if answer.code == ResponseCode.SUCCESS:
                acknowledged.append(answer.header_as(SendResponseHeader).queue_offset)


@pytest.mark.parametrize("flush", list(Flush))
async def test_a_broker_stops_cleanly_although_producers_never_pause(tmp_path: Path, flush: Flush) -> None:
    acknowledged: list[int] = []
    store = replace(settings().store, flush=flush)
    broker = Broker(settings(store=store), tmp_path / "store", disk=SlowLog())
    await broker.start()
    tasks = [asyncio.create_task(send_for_ever(broker, acknowledged)) for _ in range(SENDERS)]
    await until(lambda: len(acknowledged) > 50)
    stopping = asyncio.create_task(broker.stop())
    done, _ = await asyncio.wait([stopping], timeout=STOP_S)
    for task in tasks:
        task.cancel()
    await stopping
    assert done, "it waited for the producers"
    with MessageStore.open(tmp_path / "store", store) as reopened:
        assert reopened.recovered.clean, "it was closed in order"
        assert reopened.queues["orders", 0].next_offset > max(acknowledged)
