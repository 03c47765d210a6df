"""Tables that are damaged or gone after a clean stop: the broker says so, and topics come back from their queues."""

from __future__ import annotations

import logging
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pyromq.broker.base.environment import Environment
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.base.table_keeper import TableKeeper
from pyromq.broker.state.tables import Tables, open_tables
from pyromq.errors import CorruptFileError
from pyromq.model.names import SCHEDULE_TOPIC
from pyromq.model.topic import GroupConfig, TopicConfig
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import StoreSettings
from pyromq.store.tables.config_table import ConfigTable
from pyromq.store.tables.filter_table import FilterTable
from pyromq.store.tables.groups import GroupTable
from pyromq.store.tables.offsets import DelayOffsets, OffsetTable
from pyromq.store.tables.request_modes import RequestModeTable
from pyromq.store.tables.topics import TopicTable
from pyromq.store.timers.metrics import TimerMetrics
from pyromq.testing import FaultyDisk, ManualClock
from pyromq.wire.json.bodies import RequestMode
from pyromq.wire.record import Draft

ROOT = Path("/data")
TABLES: list[type[ConfigTable]] = [
    TopicTable,
    GroupTable,
    OffsetTable,
    FilterTable,
    DelayOffsets,
    RequestModeTable,
    TimerMetrics,
]
DAMAGES = {
    "empty": lambda text: b"",
    "truncated": lambda text: text[: len(text) // 2],
    "garbage": lambda text: bytes(reversed(text)) + b"\xff\x00",
    "a list": lambda text: b"[1, 2]",
    "wrong types": lambda text: (
        b'{"dataVersion":7,"topicConfigTable":3,"subscriptionGroupTable":3,"offsetTable":3,'
        b'"filterDataByTopic":3,"messageRequestModeMap":3,"timingCount":3}'
    ),
    "missing": lambda text: None,
}


class Machine:
    """A folder on a disk, opened and closed as a broker does it."""

    def __init__(self) -> None:
        self.disk, self.clock = FaultyDisk(), ManualClock()
        sizes = StoreSettings(segment_bytes=1 << 16, queue_file_entries=100, index_slots=10, index_entries=50)
        settings = BrokerSettings(store=sizes)
        self.environment = Environment(settings=settings, clock=self.clock, disk=self.disk, rng=Random(1))

    def open(self) -> tuple[MessageStore, Tables]:
        store = MessageStore.open(ROOT, self.environment.settings.store, disk=self.disk, clock=self.clock)
        try:
            return store, open_tables(self.environment, store)
        except BaseException:
            store.close()
            raise

    def close(self, store: MessageStore, tables: Tables) -> None:
        saved: list[Any] = [tables.topics.table, tables.groups.table, tables.filters.table, tables.progress.table]
        TableKeeper(saved, worker=None, clock=self.clock).save_now()  # type: ignore[arg-type]
        store.close()


async def used() -> Machine:
    """A clean stop after two topics, each saved on its own, so that the backup lacks the newest."""
    machine = Machine()
    store, tables = machine.open()
    for number, topic in enumerate((SCHEDULE_TOPIC, "first", "second")):
        config = TopicConfig(topic_name=topic, read_queue_nums=3, write_queue_nums=3, perm=6)
        tables.topics.update(config)
        for queue_id in range(3):
            store.append([Draft(topic=topic, queue_id=queue_id, body=b"x")])
        store.flush()
        tables.groups.update(GroupConfig(group_name=f"group-{number}"))
        tables.progress.commit(f"group-{number}", topic, 0, 1)
        tables.progress.table.save()
        tables.filters.table.save()
    for kind in (DelayOffsets, RequestModeTable, TimerMetrics):
        table: Any = kind.load(machine.disk, ROOT)
        if isinstance(table, RequestModeTable):
            table.put(RequestMode(topic="first", consumer_group="group-0"))
        table.save()
        table.save()
    machine.close(store, tables)
    return machine


def damage(machine: Machine, path: Path, kind: str) -> None:
    text = DAMAGES[kind](machine.disk.read(path))
    if text is None:
        machine.disk.remove(path)
    else:
        machine.disk.write(path, text)


def load(machine: Machine, kind: type[ConfigTable]) -> ConfigTable:
    return kind.load(machine.disk, ROOT)


@pytest.mark.parametrize("damaged", DAMAGES)
@pytest.mark.parametrize("kind", TABLES)
async def test_a_damaged_table_is_named_and_costs_no_topic(
    kind: type[ConfigTable], damaged: str, caplog: pytest.LogCaptureFixture
) -> None:
    machine = await used()
    damage(machine, ROOT / "config" / kind.file_name, damaged)
    with caplog.at_level(logging.ERROR):
        load(machine, kind)  # as the wiring does for those that are not among the tables of ``open_tables``
        store, tables = machine.open()
    assert any(kind.file_name in record.getMessage() for record in caplog.records if record.levelno == logging.ERROR)
    for topic in ("first", "second"):
        config = tables.topics.get(topic)
        assert config is not None and config.write_queue_nums in (3, 4), "4: restored from its queues"
        assert store.reader.read(topic, 2, 0).count == 1
    machine.close(store, tables)
    again, tables = machine.open()
    assert tables.topics.get("second") is not None and tables.topics.table.trouble == ""
    again.close()


@pytest.mark.parametrize("kind", [TopicTable, GroupTable, OffsetTable, FilterTable])
@pytest.mark.parametrize("damaged", ["empty", "missing"])
async def test_a_table_without_any_copy_is_named_and_topics_come_back_from_their_queues(
    kind: type[ConfigTable], damaged: str, caplog: pytest.LogCaptureFixture
) -> None:
    machine = await used()
    for name in (kind.file_name, f"{kind.file_name}.bak"):
        damage(machine, ROOT / "config" / name, damaged)
    with caplog.at_level(logging.ERROR):
        store, tables = machine.open()
    assert any(kind.file_name in record.getMessage() for record in caplog.records)
    assert all(tables.topics.get(topic) is not None for topic in ("first", "second"))
    if kind is TopicTable:
        assert any("topics restored" in record.getMessage() for record in caplog.records)
    store.close()


@pytest.mark.parametrize("kind", TABLES)
async def test_a_table_with_two_damaged_copies_keeps_the_broker_from_starting_and_says_which(
    kind: type[ConfigTable],
) -> None:
    machine = await used()
    for name in (kind.file_name, f"{kind.file_name}.bak"):
        damage(machine, ROOT / "config" / name, "garbage")
    with pytest.raises(CorruptFileError, match=f"{kind.file_name} and its backup are damaged; restore one of them"):
        load(machine, kind)


async def test_after_a_clean_stop_nothing_is_said_and_no_topic_is_made() -> None:
    machine = Machine()
    for _ in range(2):
        store, tables = machine.open()
        assert not any(table.trouble for table in (tables.topics.table, tables.groups.table, tables.progress.table))
        store.append([Draft(topic="without-config", queue_id=0, body=b"x")])  # as RocketMQ leaves a deleted topic
        machine.close(store, tables)
    store, tables = machine.open()
    assert tables.topics.get("without-config") is None
    store.close()
