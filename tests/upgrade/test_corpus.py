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
from pyromq.clock import SystemClock
from pyromq.console.auth.accounts import Accounts
from pyromq.console.auth.roles import ConsoleIdentity, ConsoleRole
from pyromq.console.settings import ConsoleSettings
from pyromq.idempotent import Marks, once
from pyromq.operate.jobs.files import JobFiles
from pyromq.operate.jobs.record import JobState
from pyromq.outbox import Outbox
from pyromq.store.check import StoreVerdict, check_store
from pyromq.testing import AsyncServerProcess
from tests.upgrade.writing_more import settings_of

HERE = Path(__file__).parent
CORPUS = sorted((HERE / "corpus").glob("*ed.tar.xz"))  # stopped, killed
MORE = sorted((HERE / "corpus").glob("*-more.tar.xz"))


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
        archives = MORE if metafunc.function.__name__.startswith("test_beside") else CORPUS
        metafunc.parametrize("folder", archives, indirect=True, ids=[each.name.split(".")[0] for each in archives])


def test_there_are_earlier_states() -> None:
    assert len({each.name.rsplit("-", 1)[0] for each in CORPUS}) >= 2
    assert MORE and all(each.stat().st_size < 64 * 1024 for each in (*CORPUS, *MORE))


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
            waiting = len(await admin.delays.list("later"))
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


def test_beside_a_store_settings_mean_what_they_meant(folder: Path) -> None:
    assert settings_of(folder / "broker.toml") == json.loads((folder / "written.json").read_text())["settings"]


def test_beside_a_store_passwords_and_tokens_of_a_console_are_good(folder: Path) -> None:
    written = json.loads((folder / "written.json").read_text())
    accounts = Accounts(ConsoleSettings(data=folder / "console"), SystemClock())
    assert not accounts.generated
    assert accounts.verify("admin", written["password"]) == ConsoleIdentity("admin", ConsoleRole.OPERATOR)
    assert accounts.verify("admin", "another") is None
    [token] = accounts.tokens
    assert (token.name, token.role) == ("robot", ConsoleRole.READER)
    assert accounts.token(written["token"]) is not None


def test_beside_a_store_jobs_of_a_console_are_listed(folder: Path) -> None:
    records = [JobFiles(path).load() for path in sorted((folder / "console/jobs").iterdir())]
    found = [(each.id, each.state, each.counts.confirmed, each.counts.unknown) for each in records if each is not None]
    assert found == [("0-abc", JobState.FINISHED, 0, 0), ("1-abc", JobState.INTERRUPTED, 1, 1)]
