"""A crash right after the first message of a topic, before the table of topics was saved."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pyromq.broker.broker import Broker
from tests.integration.test_broker import Client, pull, pull_header, running, send, settings

pytestmark = pytest.mark.integration


async def test_the_topic_of_an_acknowledged_message_is_there_after_a_crash(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        await send(client, b"first", topic="brand-new", queue_id=3)
        assert broker.parts.tables.topics.table.unsaved
        shutil.copytree(tmp_path / "store", tmp_path / "crashed" / "store")
    async with Broker(settings(), tmp_path / "crashed" / "store") as broker:
        client = Client()
        await client.connect(broker)
        assert not broker.store.recovered.clean
        _, (record,), _ = await pull(client, pull_header(topic="brand-new", queue_id=3))
        assert record.body == b"first"
        client.connection.close()
