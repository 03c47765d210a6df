"""``pyromq follow``: a copy that its broker takes no notice of, and that takes its place when told to."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from pyromq import Message
from pyromq.aio import Producer
from pyromq.broker import following
from pyromq.clock import SystemClock
from pyromq.errors import ConfigError, RemoteProtocolError
from pyromq.net import Address, open_connection
from pyromq.replication.settings import Role
from pyromq.results import SendStatus
from pyromq.store.files.disk import RealDisk
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import StoreSettings
from pyromq.store.timers.check import load_timer_check
from pyromq.store.timers.files import TimerFiles
from pyromq.testing import AsyncServerProcess, ServerProcessError
from pyromq.wire.codes import RequestCode, ResponseCode
from tests.integration.guarded import ROOT, guarded_access
from tests.integration.replication_pair import SMALL, a_pair
from tests.integration.test_replication import log_bytes
from tests.integration.waiting import until

pytestmark = pytest.mark.integration


class Follow(AsyncServerProcess):
    """The command as a process; ``says`` is its next line."""

    lines_read = 0

    async def says(self) -> str:
        await until(lambda: self.output.count("\n") > self.lines_read, "it says something")
        self.lines_read += 1
        return self.output.splitlines()[self.lines_read - 1]


def follow(*arguments: str, environment: dict[str, str] | None = None) -> Follow:
    return Follow("follow", *arguments, env=environment)


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


async def test_a_copy_has_the_file_sizes_and_the_delays_of_its_broker(tmp_path: Path) -> None:
    """Another broker may open its folder next, with the settings of the first."""
    async with a_pair(tmp_path) as pair:
        store = replace(SMALL, queue_file_entries=500, delay_ladder_ms=(1_000, 90_000), keep_ms=7_200_000)
        master = await pair.start_master(store=store)
        settings = await following.settings_of_a_copy(master.address, host="127.0.0.1", port=0)
        for name in (
            *("segment_bytes", "queue_file_entries", "index_slots", "index_entries", "timer_log_bytes"),
            *("delay_ladder_ms", "keep_ms", "body_bytes_max"),
        ):
            assert getattr(settings.store, name) == getattr(store, name), name


async def test_a_copy_that_was_stopped_has_the_timers_that_wait_in_its_files(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair, pair.producer() as producer:
        master = await pair.start_master(Role.ASYNC_MASTER)
        await producer.send(Message("later", b"soon", delay_ms=1))
        await producer.send(Message("later", b"much later", delay_ms=600_000))
        timers = master.parts.services.delay_runner
        await until(lambda: timers.files.noted.queue_offset > 0 and timers.timers.pending == 1, "the master noted it")
        async with follow(str(master.address), "--data", str(tmp_path / "copy")) as copy:
            assert (await copy.says()).startswith("ready")
            assert (await copy.says()).startswith("caught up")
            assert await copy.stop() == 0
        found = load_timer_check(RealDisk(), tmp_path / "copy" / "config" / "timercheck")
        assert found is not None and found[0].queue_offset == master.store.queues["rmq_sys_wheel_timer", 0].next_offset
        with MessageStore.open(tmp_path / "copy", StoreSettings(segment_bytes=SMALL.segment_bytes)) as store:
            queue = store.reader.range_of("rmq_sys_wheel_timer", 0)
            assert queue is not None
            now_ms = SystemClock().now_ms()
            files = TimerFiles.open(RealDisk(), tmp_path / "copy", store.settings, store.records, queue, now_ms)
            assert files.queue_offset == queue.end and files.pending(now_ms // 1_000) == 1
            files.close()


async def test_a_broker_with_access_control_is_followed_as_one_of_its_users(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        master = await pair.start_master(Role.ASYNC_MASTER, access=guarded_access())
        with pytest.raises(RemoteProtocolError, match="does not tell its settings"):
            await following.settings_of_a_copy(master.address, host="127.0.0.1", port=0)
        user = {"PYROMQ_ACCESS_KEY": ROOT.access_key, "PYROMQ_SECRET_KEY": ROOT.secret_key}
        async with follow(str(master.address), "--data", str(tmp_path / "copy"), environment=user) as copy:
            address = (await copy.says()).split("broker=")[1].split()[0]
            assert (await copy.says()).startswith("caught up")
            connection = await open_connection(Address.parse(address), clock=SystemClock())
            header = {"consumerGroup": "g", "topic": "TBW102", "queueId": "0", "queueOffset": "0", "maxMsgNums": "1"}
            header |= {"sysFlag": "0", "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0"}
            answer = await connection.request(RequestCode.PULL_MESSAGE, header, timeout_ms=5_000)
            assert answer.code == ResponseCode.SYSTEM_BUSY, "nobody reads here what users alone may read there"
            connection.close()
            await connection.wait_closed()
            assert await copy.stop() == 0
        arguments = (str(master.address), "--data", str(tmp_path / "other"), "--take-over", "--nameserver", "x:1")
        with pytest.raises(ServerProcessError, match="has access control, and its users do not come along"):
            await follow(*arguments, environment=user).start()
        assert not (tmp_path / "other" / "commitlog").exists()
