"""One thing goes wrong in a broker: nothing else is disturbed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyromq.broker.broker import Broker
from pyromq.errors import CorruptFileError
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.headers.shared import TopicHeader
from tests.integration.test_broker import Client, pull_header, running, send, settings
from tests.integration.waiting import until

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("wait_ms", [150, 5_000])
async def test_a_held_pull_that_fails_keeps_no_other_from_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_ms: int
) -> None:
    async with running(tmp_path) as (broker, client):
        await send(client, b"first")
        pulls: Any = broker.parts.handlers.pulls
        read = pulls._read
        header = pull_header(1, wait_ms=wait_ms)
        broken = msgspec.structs.replace(header, consumer_group="broken")
        asked = [asyncio.create_task(client.ask(RequestCode.PULL_MESSAGE, each)) for each in (broken, header)]
        await until(lambda: len(broker.parts.waiters) == 2)

        def fail(header: Any, *args: Any) -> Any:
            return 1 // 0 if header.consumer_group == "broken" else read(header, *args)

        monkeypatch.setattr(pulls, "_read", fail)
        if wait_ms > 1_000:
            await send(client, b"second")
        failed, answered = await asyncio.gather(*asked)
        assert failed.code == ResponseCode.SYSTEM_ERROR
        assert answered.code == (ResponseCode.SUCCESS if wait_ms > 1_000 else ResponseCode.PULL_NOT_FOUND)
        assert len(broker.parts.waiters) == 0


async def test_a_duty_that_fails_keeps_no_other_from_being_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as (broker, _):
        done: list[int] = []
        monkeypatch.setattr(broker.parts.services.table_keeper, "tick", lambda: 1 // 0)
        monkeypatch.setattr(broker.parts.services.delay_runner, "tick", lambda: done.append(1))
        await until(lambda: len(done) >= 2)


async def test_offsets_of_a_deleted_topic_do_not_come_back_with_a_crash(tmp_path: Path) -> None:
    async with running(tmp_path, offsets_save_ms=3_600_000) as (broker, client):
        broker.parts.tables.progress.commit("readers", "orders", 0, 5)
        broker.parts.services.offset_keeper.tick()
        saved = tmp_path / "store" / "config" / "consumerOffset.json"
        await until(lambda: saved.exists() and "orders@readers" in saved.read_text())
        await send(client, b"x")
        await delete_topic(client, "orders")
        assert "orders@readers" not in saved.read_text(), "the topic made anew would be read from offset 5 on"


async def delete_topic(client: Client, topic: str) -> None:
    answer = await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader(topic=topic))
    assert answer.code == ResponseCode.SUCCESS


async def test_a_broker_that_cannot_start_leaves_its_folder_to_the_next_one(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        await send(client, b"x")
    config = tmp_path / "store" / "config"
    whole = (config / "topics.json").read_text()
    for name in ("topics.json", "topics.json.bak"):
        (config / name).write_text("{")
    with pytest.raises(CorruptFileError):
        await Broker(settings(), tmp_path / "store").start()
    (config / "topics.json").write_text(whole)
    async with running(tmp_path) as (_, client):
        assert (await send(client, b"y")).queue_offset == 1
