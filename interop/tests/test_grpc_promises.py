"""What our gRPC port promises beyond Apache's proxy: each promise tried on both; Apache's outcome is noted, ours holds.

Bare calls by grpcio, with the messages of ``pyromq.wire.grpc``.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.integration.grpc_client import GrpcTester, consumer_settings, message

import grpc
from interop.grpc.h2spec import ENOUGH, h2spec
from interop.grpc.servers import MAKES, GrpcServer, grpc_server
from interop.jars import Jars
from interop.pyromq_server import PyroMQServer
from interop.report import Case
from interop.tests.conftest import Fill, Note, case
from interop.world import Cluster, until
from pyromq import Admin, Message, Producer, SimpleConsumer
from pyromq.model.topic import GroupConfig
from pyromq.testing import free_port
from pyromq.wire.grpc.codes import ClientType, StatusCode
from pyromq.wire.grpc.definitions import GrpcMessage, ProtoTime, Resource
from pyromq.wire.grpc.services import (
    AckMessageEntry,
    AckMessageRequest,
    AckMessageResponse,
    ChangeInvisibleDurationRequest,
    ChangeInvisibleDurationResponse,
    EndTransactionRequest,
    ForwardToDeadLetterRequest,
    QueryRouteRequest,
    QueryRouteResponse,
    RecallMessageRequest,
    RecallMessageResponse,
    StatusResponse,
)

SECTION = "What the gRPC port promises beyond Apache's proxy"
FORGED = {"apache": 1_000, "pyromq": 100_000}
INTERNAL = (StatusCode.INTERNAL_ERROR, StatusCode.INTERNAL_SERVER_ERROR)
_names = itertools.count()
T = TypeVar("T")


@pytest.fixture(scope="module", params=MAKES)
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, jars: Jars
) -> Iterator[tuple[Cluster, GrpcServer]]:
    with grpc_server(request.param, jars, tmp_path_factory.mktemp(request.param)) as found:
        yield found


@pytest.fixture
def promised(running: tuple[Cluster, GrpcServer], note: Note) -> Callable[[str], None]:
    """Takes what is wrong: a note where it is Apache, a failure where it is ours."""

    def check(problem: str) -> None:
        if running[0].make == "pyromq":
            assert not problem, problem
        elif problem:
            note(problem)

    return check


@pytest.fixture
def cluster(running: tuple[Cluster, GrpcServer]) -> Cluster:
    return running[0]


class Ground:
    """A topic, its group, and a client that has told its settings."""

    def __init__(self, cluster: Cluster, client: GrpcTester, topic: str, group: str) -> None:
        self.cluster, self.client, self.topic, self.group = cluster, client, topic, group

    async def send(self, *sent: tuple[str, str]) -> None:
        """Each a body, and a message group or nothing."""
        for body, group in sent:
            fields = {"message_group": group, "message_type": 2} if group else {}
            response = await self.client.send(message(body.encode(), self.topic, **fields))
            assert response.status is not None and response.status.code == StatusCode.OK, response.status

    async def receive(self, count: int = 1, invisible_s: int = 30, tries: int = 3) -> list[GrpcMessage]:
        """So many messages, or fewer when no more come."""
        found: list[GrpcMessage] = []
        for _ in range(tries):
            fields = {"batch_size": count - len(found), "invisible_duration": ProtoTime(seconds=invisible_s)}
            found += await self.client.messages(group=self.group, topic=self.topic, **fields)
            if len(found) >= count:
                break
        return found

    async def ack(self, *handles: str, group: str = "") -> list[int]:
        """The status of each entry."""
        entries = [AckMessageEntry(message_id="01" + "0" * 32, receipt_handle=handle) for handle in handles]
        request = AckMessageRequest(
            group=Resource(name=group or self.group), topic=Resource(name=self.topic), entries=entries
        )
        response = await self.client.ask("AckMessage", request, AckMessageResponse)
        return [entry.status.code for entry in response.entries] or [response.status.code]


@asynccontextmanager
async def ground(
    cluster: Cluster, kind: str = "NORMAL", queues: int = 1, *, settings: bool = True, **options: Any
) -> AsyncIterator[Ground]:
    topic, group = f"promise-{next(_names)}", f"promised-{next(_names)}"
    await asyncio.to_thread(make, cluster, topic, kind, queues, GroupConfig(group_name=group, **options))
    async with grpc.aio.insecure_channel(cluster.endpoint) as channel:
        client = GrpcTester(channel, **{"x-mq-client-version": "5.1.2"})
        if settings:
            stream, _ = await client.settings(consumer_settings(group, topic, kind=ClientType.SIMPLE_CONSUMER))
        yield Ground(cluster, client, topic, group)
        if settings:
            stream.cancel()


def make(cluster: Cluster, topic: str, kind: str, queues: int, group: GroupConfig) -> None:
    with Admin(cluster.nameserver) as admin:
        admin.topics.create(topic, queues=queues, attributes={"message.type": kind})
        admin.groups.create(group)
        until(lambda: topic in admin.topics.names(), what="a route of the new topic")


def body(found: GrpcMessage) -> str:
    return found.body.decode()


def handle(found: GrpcMessage) -> str:
    assert found.system_properties is not None
    return found.system_properties.receipt_handle or ""


def attempt(found: GrpcMessage) -> int:
    assert found.system_properties is not None
    return found.system_properties.delivery_attempt or 0


def shown(codes: list[int]) -> str:
    return ", ".join(f"{StatusCode(code).name} × {count}" for code, count in Counter(codes).items())


def play(scenario: Coroutine[Any, Any, T], timeout_s: float = 240) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(timeout_s):
            return await scenario

    return asyncio.run(bounded())


# --- receipts -------------------------------------------------------------------------------------------------------


_POPPED, _NUMBER, _QUEUE, _OFFSET = 1, 3, 6, 7
"""Words of a handle, in both makes, that say which delivery it is."""


def forge(good: str, rng: random.Random) -> str:
    """A handle like one that was given out, of another delivery."""
    words = good.split(" ")
    for index in rng.sample((_POPPED, _NUMBER, _QUEUE, _OFFSET), rng.randint(1, 4)):
        words[index] = str(rng.choice([int(words[index]) + rng.randint(1, 9), rng.randrange(2**31)]))
    return " ".join(words)


@case("forged receipts are refused, and what they name is delivered", SECTION)
def test_forged(cluster: Cluster, promised: Callable[[str], None]) -> None:
    async def scenario() -> str:
        rng = random.Random(26)
        async with ground(cluster) as each:
            await each.send(("first", ""), ("second", ""))
            [first] = await each.receive(invisible_s=3_600)
            codes: list[int] = []
            for _ in range(FORGED[cluster.make] // 1_000):
                forged = [forge(handle(first), rng) for _ in range(1_000)]
                codes += await each.ack(*(text for text in forged if text != handle(first)))
            accepted = sum(code == StatusCode.OK for code in codes)
            kept = [body(found) for found in await each.receive()]
            problem = f"{accepted} of {len(codes)} accepted" if accepted else ""
            return problem or ("" if kept == ["second"] else f"then received: {kept}")

    promised(play(scenario()))


@case("a receipt acknowledges once", SECTION)
def test_twice(cluster: Cluster, promised: Callable[[str], None]) -> None:
    async def scenario() -> str:
        async with ground(cluster) as each:
            await each.send(("once", ""))
            [found] = await each.receive()
            assert await each.ack(handle(found)) == [StatusCode.OK]
            codes = await each.ack(handle(found))
            return "" if codes == [StatusCode.INVALID_RECEIPT_HANDLE] else f"the second time: {shown(codes)}"

    promised(play(scenario()))


@case("a receipt of one group means nothing to another", SECTION)
def test_other_group(cluster: Cluster, promised: Callable[[str], None]) -> None:
    async def scenario() -> str:
        async with ground(cluster) as each:
            other = f"{each.group}-other"
            await asyncio.to_thread(make, cluster, each.topic, "NORMAL", 1, GroupConfig(group_name=other))
            await each.send(("mine", ""))
            [found] = await each.receive()
            codes = await each.ack(handle(found), group=other)
            return "" if codes == [StatusCode.INVALID_RECEIPT_HANDLE] else f"the other group: {shown(codes)}"

    promised(play(scenario()))


# --- deliveries -----------------------------------------------------------------------------------------------------


@case("FIFO: a message in flight holds its message group, not its queue", SECTION)
def test_fifo_groups(cluster: Cluster, promised: Callable[[str], None]) -> None:
    async def scenario() -> str:
        async with ground(cluster, "FIFO", consume_message_orderly=True) as each:
            await each.send(("a0", "a"), ("b0", "b"), ("a1", "a"))
            [first] = await each.receive()
            others = [body(found) for found in await each.receive(tries=1)]
            assert body(first) == "a0" and "a1" not in others
            return "" if others == ["b0"] else f"while a0 is in flight, others get {others or 'nothing'}"

    promised(play(scenario()))


@case("suspend: released without counting an attempt", SECTION)
def test_suspend(cluster: Cluster, promised: Callable[[str], None]) -> None:
    async def scenario() -> str:
        async with ground(cluster) as each:
            await each.send(("wait", ""))
            [first] = await each.receive()
            request = ChangeInvisibleDurationRequest(
                group=Resource(name=each.group),
                topic=Resource(name=each.topic),
                receipt_handle=handle(first),
                invisible_duration=ProtoTime(seconds=1),
                suspend=True,
            )
            changed = await each.client.ask("ChangeInvisibleDuration", request, ChangeInvisibleDurationResponse)
            assert changed.status.code == StatusCode.OK, changed.status
            [again] = await each.receive(tries=6)
            return "" if attempt(again) == 1 else f"it comes as attempt {attempt(again)}"

    promised(play(scenario()))


@case("dead letters at the group's limit are made by the server (pop on remoting)", SECTION)
def test_limit(cluster: Cluster, promised: Callable[[str], None]) -> None:
    topic, group = f"promise-{next(_names)}", f"promised-{next(_names)}"
    make(cluster, topic, "NORMAL", 1, GroupConfig(group_name=group, retry_max_times=1))
    with Producer(cluster.nameserver, group="shop") as producer:
        producer.send(Message(topic, b"poison"))
    deliveries, end_s = 0, time.monotonic() + 45
    with (
        Admin(cluster.nameserver) as admin,
        SimpleConsumer(cluster.nameserver, group=group, topics=topic, start="earliest", invisible=2) as consumer,
    ):
        while not (letters := len(admin.dead_letters.list(group))) and deliveries < 4 and time.monotonic() < end_s:
            deliveries += len(consumer.receive(wait=3))
    promised("" if (letters, deliveries) == (1, 2) else f"{deliveries} deliveries, {letters} dead letters")


@case("an acknowledgement that was answered survives kill -9", SECTION)
def test_durable(running: tuple[Cluster, GrpcServer], promised: Callable[[str], None]) -> None:
    cluster, server = running

    async def acknowledge() -> tuple[str, str]:
        async with ground(cluster) as each:
            await each.send(*((f"{number:02}", "") for number in range(32)))
            found = await each.receive(32, invisible_s=10)
            codes = await each.ack(*map(handle, found))
            assert codes == [StatusCode.OK] * 32
            return each.topic, each.group

    async def receive_again(topic: str, group: str) -> int:
        async with grpc.aio.insecure_channel(cluster.endpoint) as channel:
            client = GrpcTester(channel)
            stream, _ = await client.settings(consumer_settings(group, topic, kind=ClientType.SIMPLE_CONSUMER))
            await asyncio.sleep(12)
            again = await Ground(cluster, client, topic, group).receive(32)
            stream.cancel()
            return len(again)

    names = play(acknowledge())
    server.kill()
    server.start()  # by this thread: a server ends with the thread that started it
    count = play(receive_again(*names))
    promised(f"{count} of 32 acknowledged messages come again" if count else "")


# --- statuses -------------------------------------------------------------------------------------------------------


async def _strange_calls(each: Ground) -> AsyncIterator[tuple[str, int]]:
    """What a confused client asks, and the status of the response."""
    group, topic = Resource(name=each.group), Resource(name=each.topic)
    ask = each.client.ask
    yield "receipt handle nonsense", (await each.ack("nonsense"))[0]
    yield "empty receipt handle", (await each.ack(""))[0]
    change = ChangeInvisibleDurationRequest(
        group=group, topic=topic, receipt_handle="nonsense", invisible_duration=ProtoTime(seconds=10)
    )
    found = await ask("ChangeInvisibleDuration", change, ChangeInvisibleDurationResponse)
    yield "change with a handle of nonsense", found.status.code
    forward = ForwardToDeadLetterRequest(group=group, topic=topic, receipt_handle="nonsense", message_id="x")
    found = await ask("ForwardMessageToDeadLetterQueue", forward, StatusResponse)
    yield "forward with a handle of nonsense", found.status.code
    for text in ("nonsense", "01" * 17):
        ending = EndTransactionRequest(topic=topic, message_id="x", transaction_id=text, resolution=1, source=1)
        yield f"transaction id {text}", (await ask("EndTransaction", ending, StatusResponse)).status.code
    recall = RecallMessageRequest(topic=topic, recall_handle="nonsense")
    found = await ask("RecallMessage", recall, RecallMessageResponse)
    yield "recall handle of nonsense", found.status.code
    for name in ("", " ", "no such topic!"):
        route = QueryRouteRequest(topic=Resource(name=name))
        yield f"route of topic {name!r}", (await ask("QueryRoute", route, QueryRouteResponse)).status.code
        parts = await each.client.receive(group=each.group, topic=name)
        yield f"receive of topic {name!r}", parts[0].status.code
    for name in ("", " "):
        parts = await each.client.receive(group=name, topic=each.topic)
        yield f"receive of group {name!r}", parts[0].status.code


@case("confused calls get a status that says what is wrong, never INTERNAL", SECTION)
def test_strange_calls(cluster: Cluster, promised: Callable[[str], None]) -> None:
    async def scenario() -> str:
        async with ground(cluster, "DELAY") as each:
            found = [(what, code) async for what, code in _strange_calls(each)]
        assert StatusCode.OK not in [code for _, code in found], found
        return ", ".join(what for what, code in found if code in INTERNAL)

    problem = play(scenario())
    promised(problem and f"INTERNAL: {problem}")


@case("a receive of a client that has told no settings is served, or refused with a reason", SECTION)
def test_no_settings(cluster: Cluster, promised: Callable[[str], None]) -> None:
    async def scenario() -> str:
        async with ground(cluster, settings=False) as each:
            await each.send(("here", ""))
            parts = await each.client.receive(group=each.group, topic=each.topic)
            status = parts[0].status
            return f"{StatusCode(status.code).name}: {status.message}" if status.code in INTERNAL else ""

    promised(play(scenario()))


# --- HTTP/2 ---------------------------------------------------------------------------------------------------------


@case("HTTP/2: h2spec 2.2.1", SECTION)
def test_h2spec(cluster: Cluster, promised: Callable[[str], None], fact: Note) -> None:
    found = h2spec(cluster.endpoint)
    fact(str(found))
    promised("" if found.passed >= ENOUGH else str(found))


def test_h2spec_pure(tmp_path: Path, fill: Fill) -> None:
    with PyroMQServer(tmp_path, grpc_port=free_port(), is_pure=True) as server:
        found = h2spec(server.endpoint)
    outcome = "ok" if found.passed >= ENOUGH else "fails"
    fill(Case(SECTION, "HTTP/2: h2spec 2.2.1, without the compiled core", "PyroMQ", outcome, [str(found)]))
    assert outcome == "ok", found.failures
