"""A broker whose disk is held back: each refusal of RocketMQ's flow control, and the way back to normal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from pyromq.broker.broker import Broker
from pyromq.model.topic import GroupConfig
from pyromq.store.files.disk import RealDisk, RealFile
from pyromq.store.settings import Flush
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.headers.consumer import SendBackHeader
from pyromq.wire.headers.producer import EndTransactionHeader
from pyromq.wire.json import bodies
from pyromq.wire.received import Received
from tests.integration.test_broker import TIMEOUT_MS, Client, send, send_header, settings
from tests.integration.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.both_modes]


class HeldDisk(RealDisk):
    """fsync of the commit log waits for ``free``."""

    def __init__(self) -> None:
        super().__init__()
        self.free = Event()
        self.free.set()

    def open(self, path: Path, *, writable: bool = True) -> RealFile:
        return self._held(super().open(path, writable=writable), path)

    def create(self, path: Path, size: int, *, reserve_bytes: int = 0, sync_folders: bool = True) -> RealFile:
        return self._held(super().create(path, size, reserve_bytes=reserve_bytes, sync_folders=sync_folders), path)

    def _held(self, file: RealFile, path: Path) -> RealFile:
        if path.parent.name != "commitlog":
            return file
        sync, free = file.sync, self.free

        def held_sync() -> None:
            free.wait(20)
            sync()

        file.sync = held_sync  # type: ignore[method-assign]
        return file


@asynccontextmanager
async def held_broker(folder: Path, **changes: Any) -> AsyncIterator[tuple[Broker, Client, HeldDisk]]:
    disk = HeldDisk()
    limits = {"unflushed_sends_max": 2, "stuck_disk_ms": 60_000, "parked_ms_max": 60_000}
    async with Broker(settings(**limits | changes), folder / "store", disk=disk) as broker:
        client = Client()
        await client.connect(broker)
        await send(client, b"first")
        disk.free.clear()
        yield broker, client, disk
        disk.free.set()
        client.connection.close()


def start_send(client: Client) -> asyncio.Future[Received[Any]]:
    code = RequestCode.SEND_MESSAGE_V2
    return client.connection.request_nowait(code, send_header(), b"x", timeout_ms=TIMEOUT_MS)


async def fill(broker: Broker, client: Client) -> list[asyncio.Future[Received[Any]]]:
    """Two sends wait for the disk; more than that may not."""
    sends = [start_send(client), start_send(client)]
    await until(lambda: broker.parts.write_path.pressure.is_busy)
    return sends


async def numbers(client: Client) -> dict[str, str]:
    answer = await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
    return dict(bodies.decode(answer.body, bodies.KeyValues).table)


async def back_to_normal(client: Client, disk: HeldDisk, sends: list[asyncio.Future[Received[Any]]]) -> None:
    disk.free.set()
    assert {(await each).code for each in sends} == {ResponseCode.SUCCESS}
    await send(client, b"after")


async def test_sends_wait_and_are_taken_when_the_disk_goes_on(tmp_path: Path) -> None:
    async with held_broker(tmp_path) as (broker, client, disk):
        sends = await fill(broker, client)
        sends += [start_send(client) for _ in range(5)]
        await until(lambda: len(broker.parts.write_path.gate) == 5)
        await back_to_normal(client, disk, sends)
        assert broker.parts.stats.counters.put_refused == 0


async def test_timeout_clean_queue(tmp_path: Path) -> None:
    async with held_broker(tmp_path, parked_ms_max=1) as (broker, client, disk):
        sends = await fill(broker, client)
        answer = await start_send(client)
        assert (answer.code, (answer.remark or "")[:21]) == (ResponseCode.SYSTEM_BUSY, "[TIMEOUT_CLEAN_QUEUE]")
        assert (await numbers(client))["flowControlTimeoutCleanQueue"] == "1"
        await back_to_normal(client, disk, sends)


async def test_overload(tmp_path: Path) -> None:
    async with held_broker(tmp_path, parked_sends_max=1) as (broker, client, disk):
        sends = await fill(broker, client)
        sends.append(start_send(client))
        answer = await start_send(client)
        assert (answer.code, (answer.remark or "")[:10]) == (ResponseCode.SYSTEM_BUSY, "[OVERLOAD]")
        assert (await numbers(client))["flowControlOverload"] == "1"
        await back_to_normal(client, disk, sends)


async def test_a_stuck_disk(tmp_path: Path) -> None:
    async with held_broker(tmp_path, stuck_disk_ms=300) as (broker, client, disk):
        sends = await fill(broker, client)
        parked = start_send(client)
        answer = await parked
        assert (answer.code, (answer.remark or "")[:20]) == (ResponseCode.SYSTEM_BUSY, "[PCBUSY_CLEAN_QUEUE]")
        answer = await start_send(client)
        assert (answer.code, (answer.remark or "")[:15]) == (ResponseCode.SYSTEM_BUSY, "[REJECTREQUEST]")
        seen = await numbers(client)
        assert (seen["flowControlPcBusyCleanQueue"], seen["flowControlRejectRequest"]) == ("1", "1")
        await back_to_normal(client, disk, sends)


async def test_a_stuck_disk_is_no_time_for_send_backs_and_decisions(tmp_path: Path) -> None:
    async with held_broker(tmp_path, stuck_disk_ms=200) as (broker, client, disk):
        broker.parts.tables.groups.update(GroupConfig(group_name="readers"))
        sends = await fill(broker, client)
        await until(lambda: broker.parts.write_path.pressure.stuck_ms() > 200)
        broker.parts.write_path.gate.update_pressure()
        end = EndTransactionHeader(
            producer_group="g", tran_state_table_offset=0, commit_log_offset=0, commit_or_rollback=8, msg_id="U"
        )
        back = SendBackHeader(position=0, group="readers", delay_level=0)
        for code, header in ((RequestCode.END_TRANSACTION, end), (RequestCode.CONSUMER_SEND_MSG_BACK, back)):
            answer = await client.ask(code, header)
            assert (answer.code, (answer.remark or "")[:17]) == (ResponseCode.SYSTEM_BUSY, "[PC_SYNCHRONIZED]")
        assert (await numbers(client))["flowControlPcSynchronized"] == "2"
        await back_to_normal(client, disk, sends)
        assert (await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)).code == ResponseCode.SUCCESS


def async_limits(**changes: Any) -> dict[str, Any]:
    """With async flush sends are answered at once; after these bytes the next ones wait."""
    return {"store": replace(settings().store, flush=Flush.ASYNC), "unflushed_bytes_max": 600} | changes


async def fill_bytes(broker: Broker, client: Client) -> list[asyncio.Future[Received[Any]]]:
    sends = []
    while not broker.parts.write_path.pressure.is_busy:
        sends.append(start_send(client))
        assert (await sends[-1]).code == ResponseCode.SUCCESS
        assert len(sends) < 20
    return sends


async def test_async_flush_sends_wait_and_are_taken_when_the_disk_goes_on(tmp_path: Path) -> None:
    async with held_broker(tmp_path, **async_limits()) as (broker, client, disk):
        sends = await fill_bytes(broker, client)
        sends += [start_send(client) for _ in range(5)]
        await until(lambda: len(broker.parts.write_path.gate) == 5)
        disk.free.set()
        await until(lambda: not broker.parts.write_path.pressure.is_busy)
        await back_to_normal(client, disk, sends)
        assert broker.parts.stats.counters.put_refused == 0


async def test_async_flush_refuses_late_sends_and_overload(tmp_path: Path) -> None:
    limits = async_limits(parked_sends_max=1, parked_ms_max=300)
    async with held_broker(tmp_path, **limits) as (broker, client, disk):
        sends = await fill_bytes(broker, client)
        parked = start_send(client)
        assert ((await start_send(client)).remark or "")[:10] == "[OVERLOAD]"
        assert ((await parked).remark or "")[:21] == "[TIMEOUT_CLEAN_QUEUE]"
        disk.free.set()
        await until(lambda: not broker.parts.write_path.pressure.is_busy)
        await back_to_normal(client, disk, sends)


async def test_async_flush_refuses_while_the_disk_is_stuck(tmp_path: Path) -> None:
    async with held_broker(tmp_path, **async_limits(stuck_disk_ms=300)) as (broker, client, disk):
        sends = await fill_bytes(broker, client)
        assert ((await start_send(client)).remark or "")[:20] == "[PCBUSY_CLEAN_QUEUE]"
        assert ((await start_send(client)).remark or "")[:15] == "[REJECTREQUEST]"
        disk.free.set()
        await until(lambda: not broker.parts.write_path.pressure.is_busy)
        await back_to_normal(client, disk, sends)
