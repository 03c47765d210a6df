"""``pyromq follow``: a copy that its broker takes no notice of, and that takes its place when told to."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pyromq import Message
from pyromq.aio import Producer
from pyromq.broker import following
from pyromq.errors import ConfigError
from pyromq.replication.settings import Role
from pyromq.results import SendStatus
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import StoreSettings
from tests.integration.replication_pair import SMALL, a_pair
from tests.integration.test_replication import log_bytes
from tests.integration.waiting import PATIENCE_S, until

pytestmark = pytest.mark.integration


class Follow:
    """The command as a process; ``says`` is its next line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def says(self) -> str:
        assert self._process.stdout is not None
        return (await asyncio.wait_for(self._process.stdout.readline(), PATIENCE_S)).decode().strip()

    async def stop(self) -> int:
        if self._process.returncode is None:
            self._process.terminate()
        return await asyncio.wait_for(self._process.wait(), PATIENCE_S)


@asynccontextmanager
async def follow(*arguments: str) -> AsyncIterator[Follow]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pyromq", "follow", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    followed = Follow(process)
    try:
        yield followed
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_a_copy_is_never_an_acknowledgement_and_has_every_byte(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        master = await pair.start_master(confirm_timeout_ms=200)
        await producer.send(Message("orders", b"before"))
        async with follow(str(master.address), "--data", str(tmp_path / "copy")) as copy:
            assert (await copy.says()).endswith(f"copies={master.address}")
            assert (await copy.says()).startswith("caught up")
            for number in range(5):
                receipt = await producer.send(Message("orders", b"%d" % number * 5_000))
                assert receipt.status is SendStatus.SLAVE_NOT_AVAILABLE, "there is no replica, and nobody is waited for"
            assert pair.leader.replicas.in_sync(pair.leader.end) == []
            assert pair.leader.replicas.confirmed(pair.leader.end) < master.store.end_position
            sent = [each.sent for each in pair.leader.replicas]
            assert sent == [master.store.end_position], "and it was sent all the same"
            await until(lambda: (tmp_path / "copy" / "commitlog").is_dir(), "the copy has files")
            await asyncio.sleep(0)
            wanted, end = log_bytes(master.store), master.store.end_position
            files = lambda: b"".join(f.read_bytes() for f in sorted((tmp_path / "copy" / "commitlog").iterdir()))  # noqa: E731
            await until(lambda: files()[:end] == wanted, "the copy has every byte")
            assert await copy.stop() == 0
        with MessageStore.open(tmp_path / "copy", StoreSettings(segment_bytes=SMALL.segment_bytes)) as store:
            assert log_bytes(store) == wanted and not store.recovered.damaged


async def test_a_copy_takes_over_with_the_same_offsets(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        master = await pair.start_master(Role.ASYNC_MASTER)
        async with pair.producer() as producer:
            before = [await producer.send(Message("orders", b"%d" % number)) for number in range(20)]
        master.parts.tables.progress.commit("readers", "orders", before[0].queue.number, 1)
        arguments = (str(master.address), "--data", str(tmp_path / "copy"), "--take-over")
        async with follow(*arguments, "--nameserver", pair.nameserver) as copy:
            assert (await copy.says()).startswith("ready")
            assert (await copy.says()).startswith("caught up")
            ends = {key: queue.next_offset for key, queue in master.store.queues.items() if key[0] == "orders"}
            await pair.stop_master()
            assert (await copy.says()).startswith("master broker=")
            async with Producer(group="senders", nameservers=[pair.nameserver]) as producer:
                receipt = await producer.send(Message("orders", b"after"))
            assert receipt.offset == ends.get(("orders", receipt.queue.number), 0)
            assert await copy.stop() == 0


async def test_a_broker_without_a_port_for_replicas_cannot_be_followed(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        master = await pair.start_master(Role.ALONE)
        with pytest.raises(ConfigError, match="--role async-master"):
            await following.settings_of_a_copy(master.address, host="127.0.0.1", port=0)
