"""How acknowledged messages were lost upstream, by RocketMQ's issues: the same scene on Apache's brokers and on ours.

A scene says what happened. Ours must keep the promise; what Apache's does is written into the table, whatever it is.

Not here, because a Controller decides who is master in them and PyroMQ has none to set beside it: RMQ#6662 and #7017
(two masters during a partition), #10578 (a stale replica is elected), #7689 (confirmed offset after a restart of all).
Nor #7923 (timers of an acting master), because PyroMQ's replicas never act as masters.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from interop import world as waiting
from interop.apache import ApacheBroker, ApacheNameServer
from interop.asking import connected
from interop.conversation import pull_header, send_header, topic_header
from interop.jars import Jars
from interop.pairs import a_broker, role_of
from interop.pyromq_server import SMALL_STORE
from interop.replicas import scripted_replica
from interop.report import Case, column
from interop.tests.conftest import Fill
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.broker import Broker
from pyromq.net import Address
from pyromq.replication.settings import ReplicationSettings, Role
from pyromq.store.settings import Flush
from pyromq.testing import free_port
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.json import bodies, java_json

SECTION = "Losses that were reported upstream"
SCENE_S_MAX = 240
MAKES = ("apache", "pyromq")
TIMEOUT_MS = 400  # that a master waits for replicas
BEYOND = 1 << 30


@dataclass(frozen=True, slots=True)
class Scene:
    """``play`` returns what was seen, and whether an acknowledged message could be lost by it."""

    name: str
    copies: int
    play: Callable[[Address], Awaitable[tuple[bool, str]]]
    word: str = "loses"  # for it, in the table


async def ask_send(master: Address) -> str:
    """The status that a sender sees."""
    async with connected(str(master)) as broker:
        header = send_header("Losses", 0)
        answer = await broker.request(RequestCode.SEND_MESSAGE_V2, header, b"x" * 100, timeout_ms=20_000)
    if answer.code == ResponseCode.SYSTEM_ERROR:
        return f"an error: {(answer.remark or '').split(',')[0]}"
    return "SEND_OK" if answer.code == 0 else ResponseCode(answer.code).name


async def end_of(master: Address) -> int:
    async with connected(str(master)) as broker:
        answer = await broker.request(RequestCode.GET_BROKER_RUNTIME_INFO, timeout_ms=10_000)
    return int(java_json.decode(answer.body, bodies.KeyValues).table["commitLogMaxOffset"])


async def filled(master: Address) -> int:
    """Where the log ends that has something in it."""
    async with connected(str(master)) as broker:
        header = topic_header("Losses", 1)
        await broker.request(RequestCode.UPDATE_AND_CREATE_TOPIC, header, timeout_ms=20_000)
    await ask_send(master)
    return await end_of(master)


def verdict(status: str) -> tuple[bool, str]:
    return status == "SEND_OK", f"the send is answered {status}"


async def alone(master: Address) -> tuple[bool, str]:
    await filled(master)
    return verdict(await ask_send(master))


async def one_honest_replica(master: Address) -> tuple[bool, str]:
    """How it should be; else the other scenes prove nothing."""
    end = await filled(master)
    async with scripted_replica(master, end) as replica:
        await asyncio.wait_for(replica.heard.wait(), 30)
        replica.report(end)  # it has compared: a first report says only from where on
        await asyncio.sleep(1)
        status = await ask_send(master)
    return status != "SEND_OK", f"the send is answered {status}"


async def two_connections(master: Address) -> tuple[bool, str]:
    end = await filled(master)
    async with scripted_replica(master, end) as first, scripted_replica(master, end) as second:
        for each in (first, second):
            await asyncio.wait_for(each.heard.wait(), 30)
        return verdict(await ask_send(master))


async def ahead_of_its_master(master: Address) -> tuple[bool, str]:
    """The master has lost the end of its log, its replica has it: nothing that comes now can be copied."""
    end = await filled(master)
    async with scripted_replica(master, end + BEYOND, honest=False) as replica:
        await asyncio.sleep(1)
        status = await ask_send(master)
        return status == "SEND_OK" and replica.received == 0, f"the send is answered {status}, the replica got nothing"


async def forged(master: Address) -> tuple[bool, str]:
    end = await filled(master)
    async with scripted_replica(master, end, honest=False) as replica:
        await asyncio.wait_for(replica.heard.wait(), 30)
        replica.report(end + BEYOND)
        await asyncio.sleep(1)
        return verdict(await ask_send(master))


async def stranger(master: Address) -> tuple[bool, str]:
    await filled(master)
    async with scripted_replica(master, 1, honest=False, host="127.0.0.9") as replica:
        async with asyncio.timeout(30):
            while not replica.received and not replica.ended.is_set():  # noqa: ASYNC110, either of two
                await asyncio.sleep(0.05)
        return replica.received > 0, f"it got {'the log' if replica.received else 'nothing'}"


SCENES = (
    Scene("SYNC master, one replica that has everything: confirmed (for comparison)", 2, one_honest_replica),
    Scene("SYNC master without a replica, inSyncReplicas as it comes: not confirmed (5.x)", 1, alone),
    Scene("two connections of one replica, three copies wanted: not confirmed (TODO upstream)", 3, two_connections),
    Scene("a replica that is ahead of its master: not confirmed (RMQ#3349, #2706)", 2, ahead_of_its_master),
    Scene("a position that no log has, reported by anybody: not confirmed (RMQ#3015, #1155)", 2, forged),
    Scene("an address that is no replica's asks for the log: gets nothing (RMQ#1893)", 2, stranger, "differs"),
)


@contextmanager
def names(jars: Jars, folder: Path) -> Iterator[str]:
    with ApacheNameServer(jars, folder / "names") as server:
        yield server.address


@pytest.fixture(scope="module")
def nameserver(jars: Jars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with names(jars, tmp_path_factory.mktemp("losses")) as address:
        yield address


@asynccontextmanager
async def a_master(make: str, jars: Jars, folder: Path, nameserver: str, copies: int) -> AsyncIterator[Address]:
    """A SYNC master that wants so many copies."""
    if make == "apache":
        wanted = {"inSyncReplicas": str(copies)} if copies > 1 else {}
        options = {"brokerRole": "SYNC_MASTER", "slaveTimeout": str(TIMEOUT_MS), **wanted}
        apache = ApacheBroker(jars, folder, nameserver, options)
        await asyncio.to_thread(apache.start)
        try:
            yield Address.parse(apache.address)
        finally:
            apache.kill()
        return
    settings = BrokerSettings(
        port=free_port(neighbours=(1,)),
        vip_port=False,
        store=replace(SMALL_STORE, full_percent=100, flush=Flush.SYNC),  # replicas get what is on disk
        replication=ReplicationSettings(
            role=Role.SYNC_MASTER,
            in_sync_replicas=copies,
            confirm_timeout_ms=TIMEOUT_MS,
            replica_addresses=("127.0.0.1",),
        ),
    )
    async with Broker(settings, folder) as broker:
        yield broker.address


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, SCENE_S_MAX))


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("copies", sorted({scene.copies for scene in SCENES}))
def test_scenes_of_a_master(make: str, copies: int, jars: Jars, nameserver: str, tmp_path: Path, fill: Fill) -> None:
    """All scenes that want as many copies, one after the other, of one master."""

    async def work() -> None:
        async with a_master(make, jars, tmp_path / "master", nameserver, copies) as master:
            for scene in SCENES:
                if scene.copies == copies:
                    lost, words = await scene.play(master)
                    note_down(fill, make, scene.name, words, scene.word if lost else "ok")
                    await asyncio.sleep(1)  # the connections of this scene are gone

    run(work())


def note_down(fill: Fill, make: str, name: str, words: str, outcome: str) -> None:
    fill(Case(SECTION, name, column("", make), outcome, [] if outcome == "ok" else [words]))
    assert make == "apache" or outcome == "ok", f"{name}: {words}"


# --- a pair ---

NEW_TOPIC = "Created"
NEW_QUEUES = 3
SETTLED_S = 15  # the first tables are taken over ten seconds after the start of an Apache replica
KILLED_AFTER_S = 10  # so long after the topic was made the master is gone


@pytest.mark.parametrize("make", MAKES)
def test_a_topic_made_shortly_before_the_master_died(
    make: str, jars: Jars, nameserver: str, tmp_path: Path, fill: Fill
) -> None:
    """RMQ#9804: the messages were copied, the topic was not."""
    first = a_broker(make, jars, tmp_path / "first", nameserver, master=True)
    second = a_broker(make, jars, tmp_path / "second", nameserver, master=False)
    first.start()
    try:
        second.start()
        time.sleep(SETTLED_S)
        asyncio.run(make_and_fill(first.address))
        wanted = asyncio.run(end_of(Address.parse(first.address)))
        waiting.until(lambda: asyncio.run(end_of(Address.parse(second.address))) >= wanted, 60, "the log is copied")
        time.sleep(KILLED_AFTER_S)
        first.kill()
        second.stop()
        second.options = role_of(make, master=True)
        second.start()
        words = asyncio.run(readable(second.address))
    finally:
        first.kill()
        second.kill()
    name = f"a topic made {KILLED_AFTER_S} s before its master died is there when the replica is master (RMQ#9804)"
    note_down(fill, make, name, words, "ok" if not words else "loses")


async def make_and_fill(address: str) -> None:
    async with connected(address) as broker:
        header = topic_header(NEW_TOPIC, NEW_QUEUES)
        assert (await broker.request(RequestCode.UPDATE_AND_CREATE_TOPIC, header, timeout_ms=10_000)).code == 0
        for queue in range(NEW_QUEUES):
            sent = await broker.request(
                RequestCode.SEND_MESSAGE_V2, send_header(NEW_TOPIC, queue), b"kept", timeout_ms=10_000
            )
            assert sent.code == 0, sent.remark


async def readable(address: str) -> str:
    """What a consumer is told; empty when it gets everything."""
    async with connected(address) as broker:
        for queue in range(NEW_QUEUES):
            header = pull_header(0, topic=NEW_TOPIC, queue_id=queue, consumer_group="interop-reader")
            answer = await broker.request(RequestCode.PULL_MESSAGE, header, timeout_ms=10_000)
            if answer.code != ResponseCode.SUCCESS:
                return f"pulls are answered {ResponseCode(answer.code).name} until somebody makes the topic again"
    return ""
