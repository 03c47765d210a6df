"""What a case plays in: a client, a cluster, and names that no other case uses."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from interop.asking import answers, connected
from interop.conversation import topic_header
from interop.driver import ClientUnderTest
from interop.drivers import Drivers
from pyromq.wire.codes import RequestCode
from pyromq.wire.headers.nameserver import GetRouteHeader

Seen = list[dict[str, Any]]
PROBE: Final = "probe"
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Cluster:
    """A name server and a broker of one make."""

    make: str
    nameserver: str
    broker: str
    endpoint: str = ""  # of gRPC clients


@dataclass(frozen=True, slots=True)
class Member:
    """A producer or consumer that a driver runs."""

    kind: str
    name: str
    client: ClientUnderTest = field(repr=False)

    def call(self, op: str, **arguments: Any) -> Any:
        return self.client.call(f"{self.kind}.{op}", name=self.name, **arguments)

    def wait(self, count: int, timeout_s: float = 60) -> Seen:
        """Everything a push consumer saw, once it is so many messages or the time is over."""
        seen: Seen = self.call("wait", count=count, timeoutMs=int(timeout_s * 1000))
        return seen

    def poll(self, count: int, timeout_s: float = 60) -> Seen:
        """The next messages of a pull consumer."""
        seen: Seen = self.call("poll", count=count, timeoutMs=int(timeout_s * 1000))
        return seen


class World:
    """``client`` is who is under test; other drivers come from ``drivers`` where a case wants several."""

    def __init__(self, client: ClientUnderTest, cluster: Cluster, drivers: Drivers) -> None:
        self.client, self.cluster, self.drivers = client, cluster, drivers
        number = next(_numbers)
        self.topic, self.group = f"Topic{number}", f"group-{number}"
        self._running: list[Member] = []

    def start(self, kind: str, *, client: ClientUnderTest | None = None, **arguments: Any) -> Member:
        member = Member(kind, f"{kind}{next(_numbers)}", client or self.client)
        member.call("start", **{"group": self.group, "nameserver": self.cluster.nameserver} | arguments)
        self._running.append(member)
        return member

    def push(self, **arguments: Any) -> Member:
        return self.start("push", **{"topic": self.topic} | arguments)

    def stop(self, member: Member) -> None:
        self._running.remove(member)
        if member.client.is_running:
            member.call("stop")

    def close(self) -> None:
        for member in list(self._running):
            self.stop(member)

    def create_topic(self, queues: int = 4, topic: str = "") -> None:
        """By a bare request, whatever client is under test; back when the name server knows it."""
        topic = topic or self.topic
        asyncio.run(_ask(self.cluster.broker, RequestCode.UPDATE_AND_CREATE_TOPIC, topic_header(topic, queues)))
        until(lambda: self.has_route(topic), what="a route of the new topic")

    def create_retry_topic(self) -> None:
        """A broker creates it with the group; the first consumer would find it when it renews its routes only."""
        self.create_topic(queues=1, topic=f"%RETRY%{self.group}")

    def has_route(self, topic: str) -> bool:
        header = GetRouteHeader(topic=topic)
        return answers(self.cluster.nameserver, RequestCode.GET_ROUTEINFO_BY_TOPIC, header=header)

    def allow_reading(self, topic: str) -> None:
        """Topics of dead letters can be written only, until an operator says otherwise."""
        header = topic_header(topic, 1)
        asyncio.run(_ask(self.cluster.broker, RequestCode.UPDATE_AND_CREATE_TOPIC, header))
        until(lambda: self.has_readable_route(topic), what="a readable topic")

    def has_readable_route(self, topic: str) -> bool:
        header = GetRouteHeader(topic=topic)
        return answers(self.cluster.nameserver, RequestCode.GET_ROUTEINFO_BY_TOPIC, b'"perm":6', header=header)

    def send(self, producer: Member, bodies: Iterable[str], mode: str = "sync", **fields: Any) -> Seen:
        messages = [{"topic": self.topic, "body": body, **fields} for body in bodies]
        results: Seen = producer.call("send", mode=mode, messages=messages)
        return results

    def settle(self, producer: Member, consumers: Sequence[Member]) -> None:
        """Sends probes until each of the consumers gets some: then the group has shared out the queues.

        An orderly member that asks for a lock before the other has given it back asks again twenty seconds later.
        """
        for number in range(90):
            heard = [len(consumer.wait(0)) for consumer in consumers]
            self.send(producer, [f"{PROBE}{number}-{n}" for n in range(8)])
            time.sleep(0.5)
            if all(len(each.wait(0)) > before for each, before in zip(consumers, heard, strict=True)):
                return
        raise AssertionError(f"after 45 s one of the members has no queue: {[len(each.wait(0)) for each in consumers]}")


def until(holds: Callable[[], object], timeout_s: float = 60, what: str = "it") -> None:
    """Asks until the answer is yes."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not happen within {timeout_s} s"
        time.sleep(0.1)


def bodies_of(messages: Iterable[dict[str, Any]]) -> list[str]:
    """Without probes."""
    return [message["body"] for message in messages if not message["body"].startswith(PROBE)]


def numbers(count: int, start: int = 0) -> list[str]:
    """Texts that sort as they count."""
    return [f"{n:03}" for n in range(start, start + count)]


async def _ask(address: str, code: RequestCode, header: Any) -> None:
    async with connected(address) as connection:
        response = await connection.request(code, header, timeout_ms=5_000)
        assert response.code == 0, response.remark
