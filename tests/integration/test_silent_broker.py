"""A master that hangs: it accepts connections and answers nothing. Clients ask, and go where the route says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pyromq.aio import Message, Producer, PushConsumer, ReceivedMessage
from pyromq.client.core.client import Client
from pyromq.clock import SystemClock
from pyromq.errors import SendFailedError
from pyromq.model.route import BrokerData, QueueData, TopicRoute
from pyromq.net import Connection, Server
from pyromq.settings import ClientSettings
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.received import Received
from tests.integration.quick_consumer import QUEUE, quick_settings
from tests.integration.scripted_broker import LOOPBACK, ScriptedNameServer
from tests.integration.scripted_queues import NAME, ScriptedQueues
from tests.integration.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]

GROUP = "billing"
PROBE_MS = 100


class HangingBroker(ScriptedQueues):
    """While it hangs it is as a process that was stopped: what it is sent is taken, and nothing comes back."""

    hangs = False

    def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
        if not self.hangs:
            super().on_requests(connection, requests)


class Members:
    """An old and a new master of one broker name; ``follow(new)`` is what name servers say after a failover."""

    def __init__(self, names: ScriptedNameServer, old: HangingBroker, new: HangingBroker) -> None:
        self.names, self.old, self.new = names, old, new
        self.addresses: dict[HangingBroker, str] = {}
        self.nameserver = ""

    def follow(self, master: HangingBroker) -> None:
        data = BrokerData(cluster="C", broker_name=NAME, broker_addrs={0: self.addresses[master]})
        queue = QueueData(broker_name=NAME, read_queue_nums=1, write_queue_nums=1, perm=6)
        for topic in ("T", f"%RETRY%{GROUP}"):
            self.names.routes[topic] = TopicRoute(broker_datas=(data,), queue_datas=(queue,))

    def client(self) -> Client:
        """It does not poll routes within any test's time."""
        return Client(ClientSettings(nameservers=self.nameserver, route_poll_ms=3_600_000, probe_ms=PROBE_MS))


@asynccontextmanager
async def two_masters() -> AsyncIterator[Members]:
    clock = SystemClock()
    members = Members(ScriptedNameServer(), HangingBroker(GROUP), HangingBroker(GROUP))
    async with (
        Server(members.old, [LOOPBACK], clock=clock) as old,
        Server(members.new, [LOOPBACK], clock=clock) as new,
        Server(members.names, [LOOPBACK], clock=clock) as names,
    ):
        members.addresses = {members.old: str(old.addresses[0]), members.new: str(new.addresses[0])}
        members.nameserver = str(names.addresses[0])
        members.follow(members.old)
        yield members


@asynccontextmanager
async def consuming(members: Members, seen: list[bytes]) -> AsyncIterator[PushConsumer]:
    async def note(message: ReceivedMessage) -> None:
        seen.append(message.body)

    async with members.client() as client:
        consumer = PushConsumer(client=client, group=GROUP, topics="T", listener=note, settings=quick_settings())
        async with consumer:
            yield consumer


async def test_a_pull_that_a_hanging_master_holds_is_left_for_the_master_that_the_route_names() -> None:
    seen: list[bytes] = []
    async with two_masters() as members:
        for broker in (members.old, members.new):
            broker.put(b"0")
        async with consuming(members, seen):
            await until(lambda: members.old.committed[QUEUE] == 1)
            members.old.hangs = True
            members.new.committed[QUEUE] = 1
            members.new.put(b"1")
            members.follow(members.new)
            await until(lambda: seen == [b"0", b"1"], "the new master is read, long before the pull would time out")


async def test_a_hanging_master_is_asked_until_it_answers_again() -> None:
    seen: list[bytes] = []
    async with two_masters() as members, consuming(members, seen):
        members.old.put(b"0")
        await until(lambda: seen == [b"0"])
        members.old.hangs = True
        asked = len(members.names.asked)
        await until(lambda: len(members.names.asked) >= asked + 3, "routes are asked for again and again")
        members.old.hangs = False
        members.old.put(b"1")
        await until(lambda: seen == [b"0", b"1"], "the same master goes on")


async def test_a_broker_that_holds_pulls_and_answers_is_left_alone() -> None:
    seen: list[bytes] = []
    async with two_masters() as members, consuming(members, seen):
        await until(lambda: members.old.asked[Code.PULL_MESSAGE])
        beats = len(members.old.asked[Code.HEART_BEAT])
        await until(lambda: len(members.old.asked[Code.HEART_BEAT]) >= beats + 5, "it is asked, and answers")
        pulls = [request.header.topic for _, request in members.old.asked[Code.PULL_MESSAGE]]
        assert sorted(pulls) == [f"%RETRY%{GROUP}", "T"]
        assert len({connection for connection, _ in members.old.asked[Code.HEART_BEAT]}) == 1


async def test_a_default_send_survives_a_master_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyromq.client.core.settings.SEND_TIMEOUT_MS", 200)
    async with (
        two_masters() as members,
        members.client() as client,
        Producer(client=client, group="shop") as producer,
    ):
        await producer.send(Message("T", b"0"))
        members.old.hangs = True
        sending = producer.send_nowait(Message("T", b"1"))
        await until(lambda: client.silence.is_silent(members.addresses[members.old]), "the old master is silent")
        members.follow(members.new)
        await sending
        ((_, stored),) = members.new.asked[Code.SEND_MESSAGE_V2]
        assert stored.body == b"1"


async def test_a_send_that_was_given_a_time_keeps_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        two_masters() as members,
        members.client() as client,
        Producer(client=client, group="shop") as producer,
    ):
        await producer.send(Message("T", b"0"))
        members.old.hangs = True
        with pytest.raises(SendFailedError) as caught:
            await producer.send(Message("T", b"1"), timeout_ms=300)
        assert caught.value.maybe_stored
