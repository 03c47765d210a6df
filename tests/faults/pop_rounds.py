"""Rounds of kill -9 with consumers that pop, over both protocols; the processes are those of the other rounds.

    alone        a broker is killed, and starts again on its folder
    a pair       a sync master is killed, its replica becomes the master, the old one comes back as its replica

In the middle of everything: two senders, a simple consumer of each protocol in a group of its own, and one of each in a
group that they share. ``python -m tests.faults.pop_rounds [--seed N] [--kills N] [--alone | --pair]``.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final

from pyromq.aio import Admin, Message, MQError, Producer, SimpleConsumer
from pyromq.broker.base.settings import GrpcSettings
from pyromq.errors import LeaseLostError
from pyromq.net import Address, Backoff
from pyromq.replication.settings import Role
from pyromq.results import SendStatus
from pyromq.settings import ClientSettings
from pyromq.testing import free_port
from tests.faults.cluster import STORE, Cluster, Member, running_cluster
from tests.grpc.consumer import FAILURES, GrpcConsumer, ReceiptRefusedError, facts_of, popped_ms
from tests.grpc.pop_book import Place, PopBook
from tests.integration.waiting import until

TOPIC, BROKER, QUEUES = "orders", "broker-a", 4
GROUPS = REMOTING, GRPC, SHARED = ("pops4", "pops5", "shared")
LIFE: Final = 25  # kills, then new folders
_INVISIBLE_S: Final = 10.0
_WAIT_S: Final = 2.0
_FORGOTTEN, _RELEASED = 0.05, 0.1
_PAUSE_S: Final = 0.03
_CONFIRM_MS: Final = 20_000  # acknowledgements wait for the replica as long as a busy machine needs
_DRAINED_S: Final = 180
_WATCH_S: Final = 12.0


class PopMember(Member):
    """A broker with a gRPC port."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder, name, STORE)
        self.grpc_port = free_port()

    def settings(self, role: Role, broker_id: int) -> dict[str, Any]:
        found = super().settings(role, broker_id)
        replication = replace(found["replication"], confirm_timeout_ms=_CONFIRM_MS)
        return {**found, "replication": replication, "grpc": GrpcSettings(port=self.grpc_port)}


class AloneCluster(Cluster):
    """One broker, which starts again."""

    async def start(self, names: Address) -> None:
        self.nameserver = str(names)
        self.master.names.target = names
        await self.master.start(self.role, 0)

    async def kill_and_go_on(self) -> None:
        await self.master.kill()
        await self.master.start(self.role, 0)


class PairCluster(Cluster):
    """A sync master and its replica, which change places."""

    async def kill_and_go_on(self) -> None:
        await self.master.kill()
        await self.fail_over()
        await self.come_back()


def cluster_in(folder: Path, *, is_alone: bool) -> AloneCluster | PairCluster:
    folder.mkdir(parents=True, exist_ok=True)
    if is_alone:
        return AloneCluster([PopMember(folder, "only")], Role.ALONE)
    return PairCluster([PopMember(folder, name) for name in ("first", "second")], Role.SYNC_MASTER)


@dataclass
class PopLoad:
    """What is sent and consumed, and what clients were told of it."""

    cluster: AloneCluster | PairCluster
    rng: Random
    book: PopBook = field(default_factory=PopBook)
    sent: set[bytes] = field(default_factory=set)  # confirmed
    done: dict[str, set[bytes]] = field(default_factory=lambda: {group: set() for group in GROUPS})
    is_sending: bool = True
    numbers: Any = field(default_factory=count)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with Admin(self.cluster.nameserver) as admin:
            await admin.topics.create(TOPIC, queues=QUEUES)
        work = [self._send(), self._send()]
        work += [self._pop_by_remoting(group) for group in (REMOTING, SHARED)]
        work += [self._pop_by_grpc(group) for group in (GRPC, SHARED)]
        tasks = [asyncio.ensure_future(each) for each in work]
        try:
            yield
            for task in tasks:
                if task.done():
                    task.result()  # a client that ended by itself is a defect
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def acks(self) -> int:
        return len(self.book.acked)

    def missing(self) -> dict[str, set[bytes]]:
        return {group: left for group in GROUPS if (left := self.sent - self.done[group])}

    def _client(self) -> ClientSettings:
        backoff = Backoff(first_ms=50, ceiling_ms=500)
        return ClientSettings(nameservers=self.cluster.nameserver, route_poll_ms=1_000, backoff=backoff)

    async def _send(self) -> None:
        async with Producer(client_settings=self._client(), group="senders") as producer:
            for number in self.numbers:
                while not self.is_sending:  # noqa: ASYNC110 - until the end
                    await asyncio.sleep(_PAUSE_S)
                body = b"%d" % number
                with suppress(MQError):
                    receipt = await producer.send(Message(TOPIC, body), timeout=20)
                    if receipt.status is SendStatus.SEND_OK:
                        self.sent.add(body)
                await asyncio.sleep(_PAUSE_S)

    # --- consumers ---

    async def _pop_by_remoting(self, group: str) -> None:
        async with SimpleConsumer(
            client_settings=self._client(), group=group, topics=TOPIC, start="earliest", invisible=_INVISIBLE_S
        ) as consumer:
            while True:
                try:
                    for message in await consumer.receive(8, wait=_WAIT_S):
                        place = TOPIC, BROKER, message.queue_id, message.offset
                        self.book.handed_out(group, place, popped_ms(message.receipt) / 1000)
                        await self._settle(
                            group,
                            message.body,
                            place,
                            lambda m=message: consumer.ack(m),
                            lambda m=message: consumer.release(m),
                        )
                except MQError:
                    await asyncio.sleep(_PAUSE_S)

    async def _pop_by_grpc(self, group: str) -> None:
        addresses = [
            ("127.0.0.1", member.grpc_port) for member in self.cluster.members if isinstance(member, PopMember)
        ]
        consumer = GrpcConsumer(addresses, f"grpc-{group}", group, TOPIC)
        while True:
            try:
                for message in await consumer.receive(8, wait_s=_WAIT_S, invisible_s=_INVISIBLE_S):
                    facts = facts_of(message)
                    place = TOPIC, BROKER, facts.queue_id, facts.queue_offset or 0
                    self.book.handed_out(group, place, popped_ms(facts.receipt_handle or "") / 1000)
                    await self._settle(
                        group,
                        message.body,
                        place,
                        lambda m=message: consumer.ack(m),
                        lambda m=message: consumer.release(m, invisible_s=_INVISIBLE_S),
                    )
            except FAILURES:
                consumer.leave()
                await asyncio.sleep(_PAUSE_S)

    async def _settle(
        self,
        group: str,
        body: bytes,
        place: Place,
        ack: Callable[[], Awaitable[None]],
        release: Callable[[], Awaitable[None]],
    ) -> None:
        luck = self.rng.random()
        if self.is_sending and luck < _FORGOTTEN:
            return
        try:
            if self.is_sending and luck < _RELEASED:
                await release()
                return
            await ack()
        except (LeaseLostError, ReceiptRefusedError):
            return  # it has to come again
        except FAILURES:
            self.done[group].add(body)  # perhaps
            raise
        self.book.acknowledged(group, place, time.time())
        self.done[group].add(body)


@dataclass
class PopOutcome:
    kills: int = 0
    sent: int = 0
    acks: int = 0
    lost: list[str] = field(default_factory=list)
    seen_again: list[str] = field(default_factory=list)
    tracebacks: list[str] = field(default_factory=list)

    def add(self, other: PopOutcome) -> None:
        self.kills += other.kills
        self.sent += other.sent
        self.acks += other.acks
        self.lost += other.lost
        self.seen_again += other.seen_again
        self.tracebacks += other.tracebacks

    @property
    def problems(self) -> list[str]:
        return [*self.lost, *self.seen_again, *self.tracebacks]

    def __str__(self) -> str:
        ends = f"lost {len(self.lost)}, acknowledged seen again {len(self.seen_again)}"
        return f"kills {self.kills}, sends confirmed {self.sent}, acknowledgements confirmed {self.acks}, {ends}"


async def run_life(folder: Path, kills: int, seed: str, *, is_alone: bool) -> PopOutcome:
    """Kills of one cluster, then everything is consumed, and watched for a while."""
    rng = Random(seed)
    async with running_cluster(cluster_in(folder, is_alone=is_alone)) as cluster:
        assert isinstance(cluster, AloneCluster | PairCluster)
        load = PopLoad(cluster, rng)
        async with load.running():
            for _ in range(kills):
                wanted = load.acks + 10
                await until(lambda: load.acks >= wanted, "acknowledgements go on", _DRAINED_S)  # noqa: B023
                await asyncio.sleep(rng.uniform(0.0, 0.5))
                await cluster.kill_and_go_on()
            load.is_sending = False
            await _drain(load)
            await asyncio.sleep(_WATCH_S)
        lost = [f"{group} lost {sorted(left)[:5]}" for group, left in load.missing().items()]
        return PopOutcome(kills, len(load.sent), load.acks, lost, load.book.seen_again, cluster.tracebacks())


async def _drain(load: PopLoad) -> None:
    """Until everything is consumed, or acknowledgements have stopped: a group that is only slow has lost nothing."""
    while load.missing():
        before = load.acks
        try:
            await until(lambda: not load.missing() or load.acks > before, "acknowledgements go on", _DRAINED_S)  # noqa: B023
        except AssertionError:  # what is missing is told
            return


async def run_pop_rounds(
    folder: Path, kills: int, seed: int, *, is_alone: bool, tell: Callable[[str], None] = lambda line: None
) -> PopOutcome:
    total = PopOutcome()
    for begin in range(0, kills, LIFE):
        text = f"{seed} {'alone' if is_alone else 'a pair'} {begin}"
        found = await run_life(folder / text.replace(" ", "-"), min(LIFE, kills - begin), text, is_alone=is_alone)
        total.add(found)
        tell(f"{text}: {found}")
    return total


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=100, help="of each kind")
    parser.add_argument("--alone", action="store_true", help="brokers without replicas, and nothing else")
    parser.add_argument("--pair", action="store_true", help="masters with a replica, and nothing else")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    problems: list[str] = []
    for is_alone in [True] * (not given.pair) + [False] * (not given.alone):
        with tempfile.TemporaryDirectory(prefix="pyromq-pops-") as scratch:
            found = await run_pop_rounds(Path(scratch), given.kills, given.seed, is_alone=is_alone, tell=_tell)
        print(f"{'alone' if is_alone else 'with a replica'}, seed {given.seed}: {found}", flush=True)
        problems += found.problems
    for problem in problems:
        print(f"PROBLEM {problem}")
    return bool(problems)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
