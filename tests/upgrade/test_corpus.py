"""Folders and databases of earlier states open, and what they hold is served."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import subprocess
import tarfile
from pathlib import Path

import pytest

from pyromq.aio import Admin, PushConsumer, ReceivedMessage
from pyromq.idempotent import Marks, once
from pyromq.outbox import Outbox
from pyromq.store.check import StoreVerdict, check_store
from pyromq.testing import AsyncServerProcess

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.tar.xz"))


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    archive: Path = request.param
    if shutil.which("tar"):  # it keeps holes of sparse files as holes
        subprocess.run(["tar", "-xSf", archive, "-C", tmp_path], check=True)
    else:
        with tarfile.open(archive) as opened:
            opened.extractall(tmp_path, filter="data")
    [found] = tmp_path.iterdir()
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "folder" in metafunc.fixturenames:
        metafunc.parametrize("folder", CORPUS, indirect=True, ids=[each.name.split(".")[0] for each in CORPUS])


def test_there_are_earlier_states() -> None:
    assert len({each.name.rsplit("-", 1)[0] for each in CORPUS}) >= 2
    assert all(each.stat().st_size < 64 * 1024 for each in CORPUS)


async def taken(nameserver: str, group: str, topic: str, count: int, marks: Marks | None = None) -> list[bytes]:
    """Bodies that a group gets, from where it is; waits until there are ``count``."""
    bodies: list[bytes] = []
    enough = asyncio.Event()

    def listen(message: ReceivedMessage) -> None:
        bodies.append(bytes(message.body))
        if len(bodies) >= count:
            loop.call_soon_threadsafe(enough.set)

    loop = asyncio.get_running_loop()
    listener = once(listen, marks) if marks else listen
    async with PushConsumer(nameserver, group=group, topics=topic, listener=listener, start="earliest"):
        async with asyncio.timeout(60):
            await enough.wait()
    return bodies


async def test_a_folder_of_an_earlier_state_is_served(folder: Path) -> None:
    written = json.loads((folder / "written.json").read_text())
    report = check_store(folder / "data")
    assert report.verdict in (StoreVerdict.SOUND, StoreVerdict.RECOVERABLE), report.findings
    async with AsyncServerProcess("up", "--no-metrics", data=folder / "data") as server:
        expected = {b"order %d" % number for number in range(written["plain"])}
        everything = await taken(server.nameserver, "audit", "orders", written["plain"])
        assert set(everything) == expected
        assert len(everything) == written["plain"]
        assert len(await taken(server.nameserver, "payers", "payments", 1)) == 1
        async with Admin(server.nameserver) as admin:
            waiting = len(await admin.delayed("later"))
        due = written["delayed"] - waiting  # two hours after they were written they are delivered
        assert due == 0 or len(await taken(server.nameserver, "late", "later", due)) == due
    assert check_store(folder / "data").verdict in (StoreVerdict.SOUND, StoreVerdict.RECOVERABLE)


async def test_marks_and_progress_of_an_earlier_state_go_on(folder: Path) -> None:
    written = json.loads((folder / "written.json").read_text())
    async with AsyncServerProcess("up", "--no-metrics", data=folder / "data") as server:
        left = written["plain"] - written["taken"]
        marks = Marks(str(folder / "marks.db"), scope="billing")
        rest = await taken(server.nameserver, "billing", "orders", left, marks)
        assert len(set(rest)) == left, "what was taken has its mark, and is not taken again"


def test_an_outbox_of_an_earlier_state_goes_on(folder: Path) -> None:
    outbox = Outbox(str(folder / "outbox.db"))
    outbox.create()
    assert outbox.refused() == []
    assert outbox.prune() >= 0
    with sqlite3.connect(folder / "outbox.db") as connection:
        assert connection.execute("SELECT id FROM payments").fetchall() == [(42,)]
