"""Store folders both ways: what Apache's broker wrote opens here, what PyroMQ wrote opens there, and back again."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from interop.apache import INDEX_SLOTS, ApacheBroker, ApacheNameServer
from interop.asking import connected
from interop.jars import Jars
from interop.pending import LADDER, collect, leave, nothing_is_due
from interop.process import Child, python_path
from interop.pyromq_server import SMALL_STORE, PyroMQServer
from interop.tests.conftest import Note
from interop.traffic import (
    TOPICS,
    Expected,
    Sent,
    differences,
    messages,
    pull_all,
    query_key,
    read_all,
    send_all,
)
from interop.world import until
from pyromq.store.check import check_store
from pyromq.store.check.report import CheckReport, StoreVerdict
from pyromq.store.files.disk import RealDisk
from pyromq.store.message_store import MessageStore
from pyromq.store.tables.groups import GroupTable
from pyromq.store.tables.offsets import OffsetTable
from pyromq.store.tables.topics import TopicTable
from pyromq.wire.codes import RequestCode
from pyromq.wire.headers.consumer import UpdateConsumerOffsetHeader

SECTION = "Stores both ways"
READER = "interop-reader"  # the group of pull_all
COUNT = 3_000
MORE = 700
KEYS_TRIED = 40
WHY_KEYS_ARE_MISSING = (
    "after a crash Apache deletes index files that are newer than the checkpoint, but indexes messages again only from "
    "the log file of the checkpoint on: keys of the deleted file from before that are gone, the messages are not"
)


@pytest.fixture(scope="module")
def names(jars: Jars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ApacheNameServer(jars, tmp_path_factory.mktemp("stores-namesrv")) as server:
        yield server.address


@dataclass
class Apache:
    """Starts brokers on store folders."""

    jars: Jars
    nameserver: str
    folder: Path

    def broker_on(self, store: Path, **options: str) -> ApacheBroker:
        return ApacheBroker(self.jars, self.folder, self.nameserver, store=store, options=options)

    def broker(self, store: Path, **options: str) -> ApacheBroker:
        broker = self.broker_on(store, **options)
        broker.start()
        return broker


@pytest.fixture
def apache(jars: Jars, names: str, tmp_path: Path) -> Apache:
    return Apache(jars, names, tmp_path / "broker")


def end(broker: ApacheBroker | PyroMQServer, how: str) -> None:
    if how == "kill -9":
        broker.kill()
    else:
        broker.stop()


def checked(folder: Path) -> CheckReport:
    return check_store(folder, index_slots=INDEX_SLOTS)


def some(expected: Expected) -> list[Sent]:
    every = list(expected.values())
    return every[:: max(1, len(every) // KEYS_TRIED)]


def keys_missing_here(store: MessageStore, expected: Expected) -> list[str]:
    return [
        sent.key
        for sent in some(expected)
        if [store.reader.record_at(position).body for position in store.find(sent.topic, sent.key)] != [sent.body]
    ]


async def keys_missing_there(address: str, expected: Expected) -> list[str]:
    return [
        sent.key
        for sent in some(expected)
        if [record.body for record in await query_key(address, sent.topic, sent.key)] != [sent.body]
    ]


async def commit_offset(address: str) -> None:
    header = UpdateConsumerOffsetHeader(consumer_group=READER, topic=TOPICS[0], queue_id=1, commit_offset=17)
    async with connected(address) as broker:
        response = await broker.request(RequestCode.UPDATE_CONSUMER_OFFSET, header, timeout_ms=5_000)
        assert response.code == 0, response.remark


def wait_saved(path: Path, text: str) -> None:
    """Apache saves offsets for the first time ten seconds after its start, then as often as it was told."""
    until(lambda: path.exists() and text in path.read_text(), what=f"a save of {path.name}")


@pytest.mark.case(SECTION, "Apache writes ({crc}), ends by {how}; PyroMQ checks, opens, reads, finds", pairing="result")
@pytest.mark.parametrize("crc", ["plain", "whole-record CRC"])
@pytest.mark.parametrize("how", ["clean stop", "kill -9"])
def test_a_store_of_apache_opens_here(apache: Apache, tmp_path: Path, how: str, crc: str) -> None:
    folder = tmp_path / "store"
    options = {} if crc == "plain" else {"enabledAppendPropCRC": "true"}
    broker = apache.broker(folder, **options, flushConsumerOffsetInterval="1000")
    expected = asyncio.run(send_all(broker.address, COUNT, "theirs"))
    asyncio.run(pull_all(broker.address))  # makes the group known
    asyncio.run(commit_offset(broker.address))
    if how == "kill -9":
        wait_saved(folder / "config" / "consumerOffset.json", READER)
    end(broker, how)
    before = checked(folder)
    assert before.verdict is (StoreVerdict.SOUND if how == "clean stop" else StoreVerdict.RECOVERABLE), before.findings
    assert before.log.records == COUNT and before.lost_messages == 0
    assert before.log.checksummed == (0 if crc == "plain" else COUNT)
    disk = RealDisk()
    topics = TopicTable.load(disk, folder)
    assert all(topics.get(topic) for topic in TOPICS)
    assert GroupTable.load(disk, folder).get(READER) is not None
    assert OffsetTable.load(disk, folder).get(TOPICS[0], READER, 1) == 17
    with MessageStore.open(folder, SMALL_STORE) as store:
        assert not store.recovered.cuts and not store.recovered.damaged
        assert differences(expected, read_all(store)) == []
        assert keys_missing_here(store, expected) == []
    assert checked(folder).verdict is StoreVerdict.SOUND


def write_here(folder: Path, logs: Path, *, checksums: bool, how: str) -> Expected:
    """Lets a process of ours write, and ends it."""
    arguments = [str(folder), str(COUNT), "yes" if checksums else "no", "clean" if how == "clean stop" else "kill"]
    command = [sys.executable, "-m", "interop.store_writer", *arguments]
    writer = Child("writer", command, logs, env={"PYTHONPATH": python_path()})
    mark = folder / "written"
    while not mark.exists():
        assert writer.is_running or mark.exists(), writer.log_tail()
        time.sleep(0.05)
    writer.kill()
    mark.unlink()
    expected: Expected = {}
    ends: dict[tuple[str, int], int] = {}
    for part in ("one", "two"):
        for wanted in messages(COUNT // 2, f"ours-{part}"):
            offset = ends.setdefault((wanted.topic, wanted.queue_id), 0)
            ends[wanted.topic, wanted.queue_id] += 1
            expected[wanted.topic, wanted.queue_id, offset] = wanted.sent(offset)
    return expected


@pytest.mark.case(
    SECTION, "PyroMQ writes ({crc}), ends by {how}; Apache serves, appends; PyroMQ goes on", pairing="result"
)
@pytest.mark.parametrize("crc", ["plain", "whole-record CRC"])
@pytest.mark.parametrize("how", ["clean stop", "kill -9"])
def test_a_store_of_ours_opens_there_and_comes_back(
    apache: Apache, tmp_path: Path, how: str, crc: str, note: Note
) -> None:
    folder = tmp_path / "store"
    expected = write_here(folder, tmp_path, checksums=crc != "plain", how=how)
    options = {} if crc == "plain" else {"enabledAppendPropCRC": "true"}
    broker = apache.broker(folder, **options)
    assert differences(expected, asyncio.run(pull_all(broker.address))) == []
    missing = asyncio.run(keys_missing_there(broker.address, expected))
    if how == "clean stop":
        assert missing == []
    elif missing:
        note(f"{len(missing)} of {len(some(expected))} keys not found; {WHY_KEYS_ARE_MISSING}")
    expected |= asyncio.run(send_all(broker.address, MORE, "more"))
    assert differences(expected, asyncio.run(pull_all(broker.address))) == []
    end(broker, how)
    after = checked(folder)
    assert after.verdict is not StoreVerdict.DAMAGED, after.findings
    assert after.log.records == COUNT + MORE and after.lost_messages == 0
    disk = RealDisk()
    assert OffsetTable.load(disk, folder).get(TOPICS[0], "written-group", 2) == 5
    group = GroupTable.load(disk, folder).get("written-group")
    assert group is not None and group.retry_max_times == 7
    with MessageStore.open(folder, SMALL_STORE) as store:
        assert not store.recovered.cuts and not store.recovered.damaged
        assert differences(expected, read_all(store)) == []
        assert keys_missing_here(store, expected) == []
    assert checked(folder).verdict is StoreVerdict.SOUND


PATIENCE = {  # Apache keeps for three seconds in memory what has ended; meanwhile it must not ask again
    "Apache": {"transactionTimeOut": "600000"},
    "PyroMQ": {"transactionCheckInterval": "6000"},
}


@pytest.mark.case(
    SECTION, "What waits (level, timer, half) with {writer}, ended by {how}, is taken over", pairing="result"
)
@pytest.mark.parametrize("writer", ["Apache", "PyroMQ"])
@pytest.mark.parametrize("how", ["clean stop", "kill -9"])
def test_what_waits_is_taken_over(apache: Apache, tmp_path: Path, writer: str, how: str) -> None:
    """Each delayed message comes once and not early, each prepared message is asked about once."""
    ours = PyroMQServer(tmp_path / "pyromq", ladder=LADDER)
    theirs = apache.broker_on(ours.store_folder, messageDelayLevel=LADDER, **PATIENCE[writer])
    first, second = (theirs, ours) if writer == "Apache" else (ours, theirs)
    first.start()
    pending = asyncio.run(leave(first.address))
    assert asyncio.run(nothing_is_due(first.address, pending))
    end(first, how)
    second.start()
    try:
        assert asyncio.run(collect(second.address, pending)) == []
    finally:
        second.kill()
