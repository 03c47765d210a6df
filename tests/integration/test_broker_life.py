"""The states of a broker: what start and stop do in each of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.broker import Broker
from pyromq.broker.lifecycle import Lifecycle
from pyromq.errors import CorruptFileError, StoreInUseError
from pyromq.store.files.disk import RealDisk
from tests.integration.test_broker import Client, send, settings

pytestmark = pytest.mark.integration


async def test_a_broker_goes_through_its_states_once(tmp_path: Path) -> None:
    broker = Broker(settings(), tmp_path)
    assert broker.state is Lifecycle.NEW
    await broker.start()
    assert broker.state is Lifecycle.SERVING
    await broker.stop()
    assert broker.state is Lifecycle.STOPPED
    with pytest.raises(AssertionError, match="starts once"):
        await broker.start()


async def test_a_broker_that_was_never_started_has_nothing_to_stop(tmp_path: Path) -> None:
    broker = Broker(settings(), tmp_path)
    await broker.stop()
    async with broker:
        assert broker.state is Lifecycle.SERVING


async def test_stopping_twice_at_once_stops_once(tmp_path: Path) -> None:
    broker = Broker(settings(), tmp_path)
    await broker.start()
    client = Client()
    await client.connect(broker)
    await send(client, b"x")
    await asyncio.gather(broker.stop(), broker.stop())
    assert broker.state is Lifecycle.STOPPED
    await broker.stop()


async def test_a_start_that_fails_on_a_folder_in_use_leaves_nothing_to_stop(tmp_path: Path) -> None:
    async with Broker(settings(), tmp_path):
        second = Broker(settings(), tmp_path)
        with pytest.raises(StoreInUseError):
            await second.start()
        assert second.state is Lifecycle.STOPPED
        await second.stop()


async def test_a_start_that_fails_on_a_damaged_table_does_not_keep_the_folder(tmp_path: Path) -> None:
    damaged = tmp_path / "config" / "topics.json"
    damaged.parent.mkdir()
    damaged.write_text("{")
    broken = Broker(settings(), tmp_path)
    with pytest.raises(CorruptFileError):
        await broken.start()
    assert broken.state is Lifecycle.STOPPED
    await broken.stop()
    damaged.unlink()
    async with Broker(settings(), tmp_path) as healed:
        assert healed.state is Lifecycle.SERVING


class Defective(RealDisk):
    def lock(self, path: Path) -> Any:
        return 1 // 0


async def test_a_start_that_fails_for_any_reason_gives_its_port_back(tmp_path: Path) -> None:
    async with Broker(settings(vip_port=False), tmp_path / "first") as first:
        port = first.address.port
    broken = Broker(settings(vip_port=False, port=port), tmp_path / "first", disk=Defective())
    with pytest.raises(ZeroDivisionError):
        await broken.start()
    assert broken.state is Lifecycle.STOPPED
    async with Broker(settings(vip_port=False, port=port), tmp_path / "second") as second:
        assert second.address.port == port
