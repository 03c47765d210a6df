"""A store folder behind glass: everything can be looked at, and no byte of it changes."""

from __future__ import annotations

import hashlib
import re
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import httpx
import pytest

from pyromq import Admin, Message, Producer, aio
from pyromq.broker.base.settings import BrokerSettings
from pyromq.cli.servers.store_folder import StandingClock, StoreFolder, served_folder, store_shape
from pyromq.errors import MQError, StoreNotFoundError
from pyromq.store.files.layout import Layout
from pyromq.store.settings import StoreSettings
from pyromq.testing import LoopbackBroker, ServerProcess
from pyromq.testing.loopback import SMALL_FILES

pytestmark = pytest.mark.integration

TINY_FILES = replace(SMALL_FILES, segment_bytes=64 << 10, queue_file_entries=50)


def fingerprint(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Of each file and folder: mode, time of change, content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(folder))] = (path.stat().st_mode, path.stat().st_mtime_ns, content)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A store that a broker closed: two topics, a key, a delayed message."""
    data, rng = tmp_path / "data", Random(7)
    with LoopbackBroker(BrokerSettings(store=TINY_FILES), folder=data) as broker:
        with Producer(broker.nameserver, group="shop") as producer:
            for number in range(200):
                body = b"order %d " % number + rng.randbytes(1_000)
                producer.send(Message("orders", body, keys=f"order-{number}"))
            producer.send(Message("reminders", b"later", delay_ms=3_600_000))
    yield data
    for path in [data, *data.rglob("*")]:  # pytest removes it
        path.chmod(stat.S_IRWXU)


def lock_up(folder: Path) -> None:
    for path in [*folder.rglob("*"), folder]:
        path.chmod(0o500 if path.is_dir() else 0o400)


async def test_a_read_only_folder_is_shown_and_stays_as_it_is(folder: Path) -> None:
    lock_up(folder)
    before = fingerprint(folder)
    async with StoreFolder(folder) as opened, aio.Admin(opened.nameserver, credentials=opened.credentials) as admin:
        assert {"orders", "reminders"} <= set(await admin.topics.names())
        stats = await admin.topics.stats("orders")
        (message,) = await admin.messages.find("orders", "order-150")
        delayed = await admin.delays.list()
        facts = await admin.stores.facts("broker-a")
    assert sum(each.max_offset - each.min_offset for each in stats.values()) == 200
    assert message.body.startswith(b"order 150 ")
    assert [each.topic for each in delayed] == ["reminders"]
    assert facts is not None and facts.recovery.clean and facts.segment_count > 3
    assert fingerprint(folder) == before


async def test_a_store_that_was_not_closed_recovers_in_memory(folder: Path) -> None:
    with LoopbackBroker(BrokerSettings(store=TINY_FILES), folder=folder) as broker:
        with Producer(broker.nameserver, group="shop") as producer:
            producer.send(Message("orders", b"the last one", keys="last"))
    newest = sorted((folder / "commitlog").iterdir())[-1]
    with newest.open("r+b") as file:
        file.seek(len(newest.read_bytes().rstrip(b"\0")) + 100)
        file.write(b"torn")
    (folder / "abort").write_bytes(b"1")  # as a process leaves it that was killed
    shutil.rmtree(folder / "consumequeue" / "orders")  # derived, and rebuilt from the log
    lock_up(folder)
    before = fingerprint(folder)
    async with StoreFolder(folder) as opened, aio.Admin(opened.nameserver, credentials=opened.credentials) as admin:
        (message,) = await admin.messages.find("orders", "last")
        facts = await admin.stores.facts("broker-a")
    assert message.body == b"the last one"
    assert facts is not None and not facts.recovery.clean and facts.recovery.cuts and facts.recovery.rebuilt
    assert fingerprint(folder) == before


async def test_a_folder_in_use_is_shown_beside_its_broker(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with LoopbackBroker(BrokerSettings(store=TINY_FILES), folder=data) as broker:
        async with aio.Producer(broker.nameserver, group="shop") as producer:
            await producer.send(Message("orders", b"one", keys="k"))
            async with (
                StoreFolder(data) as opened,
                aio.Admin(opened.nameserver, credentials=opened.credentials) as admin,
            ):
                assert opened.is_in_use
                (message,) = await admin.messages.find("orders", "k")
            await producer.send(Message("orders", b"two", keys="k"))
        async with aio.Admin(broker.nameserver) as admin:
            assert len(await admin.messages.find("orders", "k")) == 2
    assert message.body == b"one"


async def test_nothing_can_be_sent_and_nothing_becomes_due(folder: Path) -> None:
    before = fingerprint(folder)
    async with StoreFolder(folder) as opened:
        for who in (opened.credentials, None):  # the owner, and another user of the machine
            async with aio.Producer(opened.nameserver, group="intruder", credentials=who) as producer:
                with pytest.raises(MQError):
                    await producer.send(Message("orders", b"no"))
        async with aio.Admin(opened.nameserver) as stranger:
            with pytest.raises(MQError):
                await stranger.topics.names()
        clock = StandingClock(opened.ended_ms)
        began_ms = clock.monotonic_ms()
        while clock.monotonic_ms() == began_ms:
            pass
        assert clock.now_ms() == opened.ended_ms
    assert fingerprint(folder) == before


async def test_a_folder_without_a_store_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreNotFoundError, match="commitlog"):
        async with StoreFolder(tmp_path):
            pass
    with pytest.raises(StoreNotFoundError):
        async with StoreFolder(tmp_path / "nothing"):
            pass


def test_the_shape_of_files_is_found_out(folder: Path) -> None:
    shape = store_shape(Layout(folder))
    assert (shape.segment_bytes, shape.queue_file_entries) == (64 << 10, 50)
    assert (shape.index_slots, shape.index_entries) == (10_000, 50_000)
    assert store_shape(Layout(folder / "nothing")) == StoreSettings()


def test_a_folder_is_served_beside_another_loop(folder: Path) -> None:
    with served_folder(folder) as opened, Admin(opened.nameserver, credentials=opened.credentials) as admin:
        assert "orders" in admin.topics.names()
    with pytest.raises(StoreNotFoundError):
        with served_folder(folder / "nothing"):
            pass


def test_the_console_shows_a_folder_and_changes_nothing(folder: Path) -> None:
    lock_up(folder)
    before = fingerprint(folder)
    environment = {"PYROMQ_CONSOLE_PASSWORD": "glass", "PYTHONWARNINGS": "error"}
    with ServerProcess("console", "--store", str(folder), env=environment) as console:
        url = console.addresses["console"]
        with httpx.Client(base_url=url, headers={"Origin": url}, follow_redirects=True, timeout=30) as browser:
            browser.get("/login")
            token = re.findall(r'name="csrf" value="([^"]*)"', browser.get("/login").text)
            signed_in = browser.post("/login", data={"name": "admin", "password": "glass", "csrf": (token or [""])[0]})
            assert signed_in.status_code == 200 and "store folder, read-only" in signed_in.text
            assert "orders" in browser.get("/topics").text
            assert "reminders" in browser.get("/delays").text and "being written" in browser.get("/store").text
            (csrf,) = set(re.findall(r'name="csrf" content="([^"]+)"', browser.get("/topics").text))
            refused = browser.post("/delays/cancel", data={"handle": "x", "csrf": csrf})
            assert refused.status_code == 403
        console.signal(signal.SIGINT)
        assert console.wait(30) == 0
    assert fingerprint(folder) == before


def test_the_console_names_a_folder_that_is_no_store(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pyromq", "console", "--store", str(tmp_path), "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "commitlog" in done.stderr and "Traceback" not in done.stderr
