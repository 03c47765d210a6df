"""The parts of a broker without a broker around them: no sockets, no ticks, a disk in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyromq.broker.base.identity import Identity
from pyromq.broker.base.session import Session
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.base.workers import Workers
from pyromq.broker.wiring import Parts, Wiring
from pyromq.net import Address
from pyromq.net.stalls import StallWatch
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import Flush, StoreSettings
from pyromq.testing import FaultyDisk, ManualClock
from pyromq.wire.codes import ResponseCode
from pyromq.wire.flags import PullFlag
from pyromq.wire.headers.consumer import PullHeader
from pyromq.wire.headers.producer import SendHeader
from pyromq.wire.message_id import Host
from pyromq.wire.record import split_records
from tests.unit.broker.builders import ROOT, Wire, environment, heartbeat, request
from tests.unit.net.fakes import turn

HOST = Host(b"\x0a\x00\x00\x01", 10911)
SMALL = StoreSettings(flush=Flush.ASYNC, segment_bytes=1 << 16, index_slots=10, index_entries=50)


class Client(Wire):
    """A connection with a session, as the broker gives it one."""

    session = Session(HOST.encode())

    def send_parts(self, head: bytes, parts: list[Any]) -> None:
        self.send(b"".join((head, *(bytes(part) for part in parts))))


@contextmanager
def wired() -> Iterator[Parts]:
    disk, clock, settings = FaultyDisk(), ManualClock(), BrokerSettings(store=SMALL)
    with MessageStore.open(ROOT, SMALL, disk=disk, clock=clock) as store:
        wiring = Wiring(
            environment=environment(settings, clock, disk),
            identity=Identity(Address("10.0.0.1", 10911), HOST),
            store=store,
            workers=Workers(),
            nameserver_tls=None,
            on_requests=lambda connection, requests: None,
            on_change=lambda: None,
            stalls=StallWatch(),
        )
        yield wiring.build()


async def send(parts: Parts, client: Client, body: bytes) -> None:
    header = SendHeader(
        producer_group="senders",
        topic="orders",
        default_topic="TBW102",
        default_topic_queue_nums=1,
        queue_id=0,
        sys_flag=0,
        born_timestamp=0,
        flag=0,
    )
    asked = request(1, header=header)
    asked.body = body
    parts.handlers.sends.send(client.as_connection, asked)
    await turn()


def pull(parts: Parts, client: Client, offset: int) -> None:
    header = PullHeader(
        consumer_group="readers",
        topic="orders",
        queue_id=0,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=int(PullFlag.SUBSCRIPTION | PullFlag.SUSPEND),
        commit_offset=0,
        suspend_timeout_millis=1_000,
        subscription="*",
        sub_version=0,
    )
    parts.handlers.pulls.pull(client.as_connection, request(2, header=header))


async def test_a_send_reaches_the_store_and_is_answered_with_the_address_of_the_broker() -> None:
    with wired() as parts:
        sender = Client()
        await send(parts, sender, b"x")
        (response,) = sender.responses
        assert response.code == ResponseCode.SUCCESS
        assert response.ext["msgId"] == HOST.encode().hex().upper() + "0" * 16
        assert parts.stats.counters.put_messages == 1


async def test_what_becomes_visible_wakes_the_pulls_that_wait_for_it() -> None:
    with wired() as parts:
        sender, reader = Client(), Client()
        await send(parts, sender, b"first")
        pull(parts, reader, 1)
        assert len(parts.waiters) == 1 and reader.codes == []
        await send(parts, sender, b"second")
        (response,) = reader.responses
        assert [record.body for record in split_records(response.body)] == [b"second"]


async def test_name_servers_hear_of_a_topic_that_a_send_has_made() -> None:
    with wired() as parts:
        assert not parts.services.registrar._changed.is_set()
        await send(parts, Client(), b"x")
        assert parts.services.registrar._changed.is_set()


class Member(Client):
    """A client that hears of its group."""

    is_open = True

    def __init__(self) -> None:
        super().__init__()
        self.notices = 0

    def request_oneway(self, code: int, header: Any) -> None:
        self.notices += 1


async def test_a_lost_connection_leaves_its_group_and_the_others_hear_of_it() -> None:
    with wired() as parts:
        one, other = Member(), Member()
        members = parts.tables.members
        for number, client in enumerate((one, other)):
            members.heard_from(client.as_connection, heartbeat(f"c{number}", "orders"), "JAVA", 479)
        parts.handlers.clients.disconnected(one.as_connection)
        group = members.consumer_group("readers")
        assert group is not None and group.client_ids == ["c1"]
        assert (one.notices, other.notices) == (0, 1)
