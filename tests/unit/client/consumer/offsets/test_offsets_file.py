"""The file of a broadcasting group survives torn writes."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from pyromq.client.consumer.offsets.offset_keeper import FileOffsets
from pyromq.client.consumer.offsets.offsets_file import (
    OffsetsFile,
    OffsetsUnreadableError,
    decode_offsets,
    encode_offsets,
    offsets_path,
)
from pyromq.client.consumer.rules.start_offset import Stored
from pyromq.errors import ConfigError, InvalidNameError, RemoteProtocolError
from pyromq.model.queue import QueueId

ORDERS_0, ORDERS_1 = QueueId("orders", "broker-a", 0), QueueId("orders", "broker-a", 1)
OLD, NEW = encode_offsets({ORDERS_0: 41}), encode_offsets({ORDERS_0: 42, ORDERS_1: 7})


def test_the_text_is_rocketmqs_with_object_keys() -> None:
    assert encode_offsets({ORDERS_0: 42}) == (
        b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:42}}'
    )
    assert encode_offsets({ORDERS_1: 1, ORDERS_0: 2}) == encode_offsets({ORDERS_0: 2, ORDERS_1: 1})


def test_a_file_as_java_prints_it_can_be_read() -> None:
    text = b"""{
	"offsetTable":{{
			"brokerName":"broker-a",
			"queueId":1,
			"topic":"orders"
		}:7,{
			"brokerName":"broker-a",
			"queueId":0,
			"topic":"orders"
		}:-1
	}
}"""
    assert decode_offsets(text) == {ORDERS_1: 7}


def test_the_path_is_rocketmqs(tmp_path: Path) -> None:
    path = offsets_path(tmp_path, "10.0.0.1@DEFAULT", "billing")
    assert path == tmp_path / ".rocketmq_offsets" / "10.0.0.1@DEFAULT" / "billing" / "offsets.json"


@pytest.mark.parametrize("client_id", ["", ".", "..", "a/b", "..\\x", "a\0b"])
def test_a_client_id_that_leads_elsewhere_is_refused(tmp_path: Path, client_id: str) -> None:
    with pytest.raises(ConfigError):
        offsets_path(tmp_path, client_id, "billing")


def test_a_group_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidNameError):
        offsets_path(tmp_path, "client", "../x")


def test_without_a_file_there_are_no_offsets(tmp_path: Path) -> None:
    assert OffsetsFile(tmp_path / "offsets.json").load() == {}


def test_what_was_saved_is_loaded_and_the_table_before_is_the_backup(tmp_path: Path) -> None:
    path = tmp_path / "client" / "group" / "offsets.json"
    OffsetsFile(path).save(OLD)
    OffsetsFile(path).save(NEW)
    assert OffsetsFile(path).load() == {ORDERS_0: 42, ORDERS_1: 7}
    assert path.with_name("offsets.json.bak").read_bytes() == OLD
    assert sorted(name.name for name in path.parent.iterdir()) == ["offsets.json", "offsets.json.bak"]


@pytest.mark.parametrize("cut", range(len(NEW)))
def test_a_file_torn_anywhere_is_passed_over_for_its_backup(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "offsets.json"
    path.with_name("offsets.json.bak").write_bytes(OLD)
    path.write_bytes(NEW[:cut])
    assert OffsetsFile(path).load() == {ORDERS_0: 41}


@pytest.mark.parametrize("cut", [0, 1, 20, len(NEW) - 1])
def test_a_torn_file_without_a_backup_is_an_error_rather_than_a_fresh_start(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "offsets.json"
    path.write_bytes(NEW[:cut])
    with pytest.raises(OffsetsUnreadableError):
        OffsetsFile(path).load()


def test_a_torn_file_never_becomes_the_backup(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    path.with_name("offsets.json.bak").write_bytes(OLD)
    path.write_bytes(NEW[:30])
    OffsetsFile(path).save(NEW)
    assert path.with_name("offsets.json.bak").read_bytes() == OLD
    assert OffsetsFile(path).load() == {ORDERS_0: 42, ORDERS_1: 7}


def test_a_missing_file_with_a_backup_is_what_a_crash_of_java_leaves(tmp_path: Path) -> None:
    (tmp_path / "offsets.json.bak").write_bytes(OLD)
    assert OffsetsFile(tmp_path / "offsets.json").load() == {ORDERS_0: 41}


@pytest.mark.parametrize("failing_call", range(1, 7))
def test_a_save_that_stops_anywhere_leaves_the_old_table_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing_call: int
) -> None:
    path, calls = tmp_path / "offsets.json", 0
    file = OffsetsFile(path)
    file.save(OLD)

    def count() -> None:
        nonlocal calls
        calls += 1
        if calls == failing_call:
            raise OSError("stopped here")

    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: (count(), fsync(descriptor)))
    monkeypatch.setattr(Path, "replace", lambda self, target: (count(), replace(self, target)))
    with pytest.raises(OSError, match="stopped here"):
        file.save(NEW)
    monkeypatch.undo()
    assert OffsetsFile(path).load() in ({ORDERS_0: 41}, {ORDERS_0: 42, ORDERS_1: 7})
    OffsetsFile(path).save(NEW)
    assert OffsetsFile(path).load() == {ORDERS_0: 42, ORDERS_1: 7}


@pytest.mark.parametrize("text", [b"", b"[]", b'{"offsetTable":[1]}', b'{"offsetTable":{"x":1}}', b"\xff"])
def test_a_text_that_is_no_table_is_refused(text: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_offsets(text)


async def test_the_file_is_never_written_by_two_at_once() -> None:
    class Slow:
        def __init__(self) -> None:
            self.writing = self.writing_max = 0
            self.texts: list[bytes] = []
            self.go_on = threading.Event()

        def save(self, text: bytes) -> None:
            self.writing += 1
            self.writing_max = max(self.writing_max, self.writing)
            assert self.go_on.wait(60)
            self.texts.append(text)
            self.writing -= 1

    file = Slow()
    keeper = FileOffsets(cast(Any, file))
    keeper._is_loaded = True
    keeper.table.update(ORDERS_0, 41)
    periodic = asyncio.ensure_future(keeper.persist([]))
    await asyncio.sleep(0)
    keeper.table.update(ORDERS_0, 42)
    keeper.table.update(ORDERS_1, 7)
    closing = asyncio.ensure_future(keeper.persist([]))
    for _ in range(10):  # as many turns as it needs to begin a write of its own, if it could
        await asyncio.sleep(0)
    file.go_on.set()
    await asyncio.gather(periodic, closing)
    assert file.writing_max == 1 and file.texts == [OLD, NEW]


async def test_a_file_that_was_never_read_is_not_written() -> None:
    """An empty table in place of one that could not be read would skip everything, or repeat it."""

    class Unreadable:
        texts: ClassVar[list[bytes]] = []

        def load(self) -> None:
            raise OSError("not now")

        def save(self, text: bytes) -> None:
            self.texts.append(text)

    file = Unreadable()
    keeper = FileOffsets(cast(Any, file))
    assert await keeper.stored(ORDERS_0) is Stored.UNREADABLE
    await keeper.persist([ORDERS_0])
    assert file.texts == []
