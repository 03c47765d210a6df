"""A process that fills a store and then waits to be stopped or killed: ``python -m interop.store_writer``."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

from interop.pyromq_server import SMALL_STORE
from interop.traffic import QUEUES, TOPICS, write_all
from pyromq.model.topic import GroupConfig, TopicConfig
from pyromq.store.files.disk import RealDisk
from pyromq.store.message_store import MessageStore
from pyromq.store.tables.groups import GroupTable
from pyromq.store.tables.offsets import OffsetTable
from pyromq.store.tables.topics import TopicTable


def fill(folder: Path, count: int, prefix: str, *, checksums: bool) -> MessageStore:
    """An open store with messages, sealed in the middle, and the tables that a broker needs."""
    store = MessageStore.open(folder, replace(SMALL_STORE, checksums=checksums))
    write_all(store, count // 2, f"{prefix}-one")
    store.seal()
    write_all(store, count // 2, f"{prefix}-two")
    store.note_flushed()
    save_tables(folder)
    return store


def save_tables(folder: Path) -> None:
    now_ms, disk = int(time.time() * 1000), RealDisk()
    topics = TopicTable.load(disk, folder)
    for topic in TOPICS:
        topics.put(TopicConfig(topic_name=topic, read_queue_nums=QUEUES, write_queue_nums=QUEUES), now_ms)
    topics.save()
    groups = GroupTable.load(disk, folder)
    groups.put(GroupConfig(group_name="written-group", retry_max_times=7), now_ms)
    groups.save()
    offsets = OffsetTable.load(disk, folder)
    offsets.put(TOPICS[0], "written-group", 2, 5)
    offsets.save()


def main(folder: str, count: str, checksums: str, end: str) -> None:
    store = fill(Path(folder), int(count), "ours", checksums=checksums == "yes")
    if end == "clean":
        store.close()
    Path(folder, "written").touch()
    if end != "clean":
        time.sleep(600)


if __name__ == "__main__":
    main(*sys.argv[1:])
