"""The master is dead: clients of every language read the backlog from its replica, of either make."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from interop.apache import ApacheNameServer
from interop.asking import connected
from interop.conversation import send_header, topic_header
from interop.drivers import LANGUAGES, Drivers
from interop.jars import Jars
from interop.pairs import a_broker
from interop.report import Case, column
from interop.tests.conftest import Fill
from interop.tests.test_upstream_losses import end_of
from interop.world import Member, Seen, until
from pyromq.net import Address
from pyromq.wire.codes import RequestCode

SECTION = "The master is dead"
NAME = "{kind} consumer, started now, reads the backlog from the replica (RMQ#9879)"
WHY = {"go": ": a Go client asks masters alone for offsets (apache/rocketmq-client-go#1055)"}
RUNNING = "push consumer that was running goes on at the replica"
KINDS = ("push", "lite")
TOPIC, QUEUES, MESSAGES = "Backlog", 4, 40
MANY = 8_000  # more than the 1 000 of a queue that a consumer reads ahead
WORK_MS = {"java": 20, "go": 20, "pyromq": 100}  # on a message: the last is not done when the master dies
RUN_S = 150
AT_ONCE = 50
READ_S = 60  # a route is looked at every 30 seconds, a rebalance comes every 20
TABLES_S_MAX = 90  # an Apache replica takes tables over once a minute

found: dict[tuple[str, str, str], bool] = {}  # make, case, language: whether everything was read


@pytest.fixture(scope="module")
def nameserver(jars: Jars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ApacheNameServer(jars, tmp_path_factory.mktemp("reads")) as server:
        yield server.address


@contextmanager
def a_pair(make: str, jars: Jars, folder: Path, nameserver: str, messages: int) -> Iterator[Callable[[], None]]:
    """A master and a replica that has everything; what is yielded kills the master."""
    master = a_broker(make, jars, folder / "master", nameserver, master=True)
    replica = a_broker(make, jars, folder / "replica", nameserver, master=False)
    master.start()
    try:
        asyncio.run(fill_topic(master.address, messages))
        replica.start()
        until(lambda: copied(master.address, replica.address), TABLES_S_MAX, "log and tables are copied")
        yield master.kill
    finally:
        master.kill()
        replica.kill()


@pytest.mark.parametrize("make", ["apache", "pyromq"])
def test_the_backlog_is_read_from_a_replica(
    make: str, jars: Jars, drivers: Drivers, nameserver: str, tmp_path: Path, fill: Fill
) -> None:
    with a_pair(make, jars, tmp_path, nameserver, MESSAGES) as kill_master:
        kill_master()
        for kind in KINDS:
            for language in LANGUAGES:
                count = read(drivers, nameserver, language, kind)
                note_down(fill, make, NAME.format(kind=kind.replace("lite", "pull")), language, count, MESSAGES)


@pytest.mark.parametrize("make", ["apache", "pyromq"])
def test_consumers_that_run_go_on_at_the_replica(
    make: str, jars: Jars, drivers: Drivers, nameserver: str, tmp_path: Path, fill: Fill
) -> None:
    with a_pair(make, jars, tmp_path, nameserver, MANY) as kill_master:
        members = {}
        for language in LANGUAGES:
            members[language] = member = Member("push", f"running-{language}", drivers.fresh(language))
            group = f"running-{language}-{make}"
            member.call("start", group=group, nameserver=nameserver, topic=TOPIC, workMs=WORK_MS[language])
        for member in members.values():
            until(partial(member.wait, 1, 1), READ_S, "it consumes")
        kill_master()
        left = {language: MANY - len(distinct(member.wait(0))) for language, member in members.items()}
        assert all(left.values()), "nothing was left to be read"
        for language, member in members.items():
            note_down(fill, make, RUNNING, language, len(distinct(read_on(member))), MANY)


def read_on(member: Member) -> Seen:
    """A driver answers within a minute and a half."""
    member.wait(MANY, RUN_S / 2)
    return member.wait(MANY, RUN_S / 2)


def note_down(fill: Fill, make: str, name: str, language: str, count: int, wanted: int) -> None:
    """What Apache's brokers give a client, ours must give it; a client that gets it from neither has no such thing."""
    found[make, name, language] = count == wanted
    reasons = [] if count == wanted else [f"{count} of {wanted} messages within {READ_S} s{WHY.get(language, '')}"]
    fill(Case(SECTION, name, column(language, make), "–" if reasons else "ok", reasons))
    if make == "pyromq":
        assert count == wanted or not found.get(("apache", name, language), True), (name, language, reasons)


def distinct(seen: Seen) -> set[str]:
    return {message["msgId"] for message in seen}


async def fill_topic(address: str, messages: int) -> None:
    async with connected(address) as broker:
        await broker.request(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_header(TOPIC, QUEUES), timeout_ms=10_000)

        async def send(number: int) -> None:
            header = send_header(TOPIC, number % QUEUES, f"UNIQ_KEY\x01backlog{number}\x02")
            answer = await broker.request(RequestCode.SEND_MESSAGE_V2, header, b"%d" % number, timeout_ms=20_000)
            assert answer.code == 0, answer.remark

        for first in range(0, messages, AT_ONCE):
            await asyncio.gather(*(send(number) for number in range(first, min(first + AT_ONCE, messages))))


def copied(master: str, replica: str) -> bool:
    async def ask() -> bool:
        if await end_of(Address.parse(replica)) < await end_of(Address.parse(master)):
            return False
        async with connected(replica) as broker:
            answer = await broker.request(RequestCode.GET_ALL_TOPIC_CONFIG, timeout_ms=10_000)
            return f'"{TOPIC}"'.encode() in answer.body

    return asyncio.run(ask())


def read(drivers: Drivers, nameserver: str, language: str, kind: str) -> int:
    """How many messages a new group gets."""
    member = Member(kind, f"{kind}-{language}", drivers.fresh(language))
    member.call("start", group=f"{kind}-{language}", nameserver=nameserver, topic=TOPIC)
    seen = member.wait(MESSAGES, READ_S) if kind == "push" else member.poll(MESSAGES, READ_S)
    member.call("stop")
    return len(distinct(seen))
