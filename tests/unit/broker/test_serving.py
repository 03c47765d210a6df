"""Where a broker listens, and a turn of one connection: sends all at once, of other requests what fits."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from math import ceil
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyromq.broker.base.access import OPEN
from pyromq.broker.base.identity import listened_on
from pyromq.broker.base.long_responses import LongResponses, Steps, nothing
from pyromq.broker.base.request_times import RequestTimes
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.dispatching.dispatcher import RequestDispatcher, Service
from pyromq.broker.dispatching.plan import ANSWERED_AFTER_REPLICATION, Lanes, plan_requests
from pyromq.net import Address, Connection
from pyromq.net.turns import FEW, TURN_S
from pyromq.testing import ManualClock
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import decode_command
from pyromq.wire.frame import FrameDecoder
from pyromq.wire.header_errors import HeaderFieldError
from pyromq.wire.received import Received
from tests.unit.net.fakes import turn


class Peer:
    """A connection that keeps what it is sent."""

    remote_text = "peer"
    is_congested = False

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.send = self.sent.append
        self.held = self.reads_on = 0

    def hold_reading(self) -> None:
        self.held += 1

    def go_on_reading(self) -> None:
        self.reads_on += 1

    def flush(self) -> None:
        return

    def codes(self) -> list[tuple[int, int]]:
        commands = map(decode_command, FrameDecoder().feed(b"".join(self.sent)))
        return [(command.correlation_id, command.code) for command in commands]


def service(**facts: Any) -> Service:
    """What a dispatcher needs of a role, as far as a test says."""
    usual = {
        "access": OPEN,
        "times": RequestTimes(),
        "commit_early": lambda: None,
        "connected": lambda connection: None,
        "disconnected": lambda connection: None,
        "renew_lanes": lambda lanes, waiting: None,
        "announced": lambda: None,
        "replicated": lambda: None,
    }
    return cast(Service, SimpleNamespace(**usual | facts))


class Rig:
    """A dispatcher with two requests: a send and one that takes half of a turn."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.dispatcher = RequestDispatcher(self.clock)
        self.handled: list[int] = []
        self.commits = 0
        immediate, deferred = {RequestCode.GET_BROKER_CONFIG: self._slow}, {RequestCode.SEND_MESSAGE_V2: self._send}
        plan = plan_requests(cast(Any, immediate), cast(Any, deferred), [], Lanes())
        self.dispatcher.serve(service(commit_early=self._commit), plan)

    def _send(self, connection: Connection, request: Received[Any]) -> None:
        self.clock.advance_ms(ceil(TURN_S * 500))
        self.handled.append(request.correlation_id)
        if request.header == "defect":
            raise ZeroDivisionError("a defect")

    def _slow(self, connection: Connection, request: Received[Any]) -> None:
        self._send(connection, request)

    def _commit(self) -> None:
        self.commits += 1

    def take(self, peer: Peer, requests: list[Received[Any]]) -> None:
        self.dispatcher.on_requests(cast(Connection, peer), requests)


def requests(count: int, code: int = RequestCode.SEND_MESSAGE_V2) -> list[Received[Any]]:
    return [Received(code=code, header=None, correlation_id=number) for number in range(count)]


async def test_a_few_sends_share_their_commit_and_nobody_looks_at_the_clock() -> None:
    rig, peer = Rig(), Peer()
    rig.take(peer, requests(FEW))
    assert len(rig.handled) == FEW and (rig.commits, peer.held) == (1, 0)


async def test_of_many_sends_only_as_many_as_fit_are_done_and_those_of_others_come_between() -> None:
    rig, greedy, other, honest = Rig(), Peer(), Peer(), Peer()
    rig.take(greedy, requests(3 * FEW))
    assert len(rig.handled) == FEW and (rig.commits, greedy.held) == (1, 1)
    rig.take(other, requests(2 * FEW))
    assert len(rig.handled) == FEW and other.held == 1, "all connections share one allowance"
    rig.take(honest, requests(1))
    assert len(rig.handled) == FEW + 1 and honest.held == 0, "a few pass"
    rig.dispatcher.turns.serve_now(cast(Connection, greedy), requests(1))
    assert len(rig.handled) == FEW + 2, "what waited at the gate is older than what waits for a turn"
    for done in (2, 3, 4, 5):
        await asyncio.sleep(0)
        assert len(rig.handled) == done * FEW + 2, "one after the other"
    assert (greedy.reads_on, other.reads_on) == (1, 1)


async def test_sends_that_are_refused_count_too() -> None:
    rig, peer = Rig(), Peer()
    defects = [Received(code=RequestCode.SEND_MESSAGE_V2, header="defect", correlation_id=n) for n in range(2 * FEW)]
    rig.take(peer, defects)
    assert len(peer.codes()) == FEW and peer.held == 1


async def test_headers_that_cannot_be_read_take_time_from_their_connection() -> None:
    rig, peer = Rig(), Peer()
    error = HeaderFieldError(header="SendHeader", field="queueId", reason="is no number")
    rig.dispatcher.on_bad_header(cast(Connection, peer), error)
    assert peer.held == 0
    rig.clock.advance_ms(ceil(TURN_S * 1000))
    rig.dispatcher.on_bad_header(cast(Connection, peer), error)
    rig.dispatcher.on_bad_header(cast(Connection, peer), error)
    assert (peer.held, peer.reads_on) == (1, 0)
    await turn()
    assert (peer.held, peer.reads_on) == (1, 1)


async def test_of_slow_requests_only_as_many_as_fit_are_done() -> None:
    rig, peer = Rig(), Peer()
    rig.take(peer, requests(10, RequestCode.GET_BROKER_CONFIG))
    assert rig.handled == [0, 1] and (rig.commits, peer.held) == (1, 1)
    rig.take(peer, requests(2))
    assert rig.handled == [0, 1], "what comes later waits behind what came first"


async def test_a_request_that_fails_is_answered_and_the_next_one_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig, peer = Rig(), Peer()
    failing = Received(code=RequestCode.SEND_MESSAGE_V2, header="defect", correlation_id=1)
    unknown = Received(code=4711, header=None, correlation_id=2)
    rig.take(peer, [failing, unknown, *requests(1)])
    assert peer.codes() == [(1, ResponseCode.SYSTEM_ERROR), (2, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)]
    assert rig.handled == [1, 0] and "request failed: code=310" in caplog.text


@pytest.mark.parametrize(
    ("port", "vip_port", "ports"),
    [(10911, True, [10911, 10909]), (10911, False, [10911]), (3, True, [3, 1]), (2, True, [2]), (0, True, [0])],
)
def test_a_broker_listens_on_its_vip_port_where_there_is_one(port: int, vip_port: bool, ports: list[int]) -> None:
    settings = BrokerSettings(host="127.0.0.1", port=port, vip_port=vip_port)
    assert listened_on(settings) == [Address("127.0.0.1", each) for each in ports]


class Registrar:
    """Name servers that know of a change when the test says so."""

    def __init__(self) -> None:
        self.knows = asyncio.Event()

    async def told(self) -> None:
        await self.knows.wait()


@pytest.mark.parametrize("code", sorted(ANSWERED_AFTER_REPLICATION))
async def test_who_changes_a_group_or_deletes_a_topic_is_answered_when_replicas_have_it(code: RequestCode) -> None:
    """A group that was resumed stays so when the next moment brings another master."""
    peer, replicas = Peer(), Registrar()
    dispatcher = RequestDispatcher(ManualClock())
    plan = plan_requests({code: lambda connection, request: None}, {}, [], Lanes())
    dispatcher.serve(service(replicated=replicas.told), plan)
    dispatcher.on_requests(cast(Connection, peer), requests(1, code))
    await turn()
    assert peer.sent == []
    replicas.knows.set()
    await turn()
    assert peer.codes() == [(0, ResponseCode.SUCCESS)]


@pytest.mark.parametrize("code", [RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST])
@pytest.mark.parametrize("in_steps", [False, True])
async def test_who_creates_a_topic_is_answered_when_name_servers_know_it(code: RequestCode, in_steps: bool) -> None:
    def create(connection: Connection, request: Received[Any]) -> Any:
        return all_done() if in_steps else None

    def all_done() -> Steps:
        yield None
        return nothing

    peer, registrar = Peer(), Registrar()
    dispatcher = RequestDispatcher(ManualClock())
    worker = ThreadPoolExecutor(1)
    long_responses = LongResponses(worker, dispatcher.respond)
    plan = plan_requests({code: create}, {}, [], Lanes())
    dispatcher.serve(service(announced=registrar.told, long_responses=long_responses), plan)
    dispatcher.on_requests(cast(Connection, peer), requests(1, code))
    await turn()
    assert peer.sent == []
    registrar.knows.set()
    await turn()
    assert peer.codes() == [(0, ResponseCode.SUCCESS)]


@pytest.mark.parametrize("turns", [0, 1], ids=["in the same moment", "while it is waited for"])
async def test_a_change_that_nobody_knows_of_when_the_role_ends_is_not_confirmed(turns: int) -> None:
    """Seed 120005 of the simulator: a user was confirmed because the master that waited for replicas handed over."""
    peer, registrar, code = Peer(), Registrar(), RequestCode.UPDATE_AND_CREATE_TOPIC
    dispatcher = RequestDispatcher(ManualClock())
    dispatcher.serve(
        service(announced=registrar.told), plan_requests({code: lambda connection, request: None}, {}, [], Lanes())
    )
    dispatcher.on_requests(cast(Connection, peer), requests(1, code))
    for _ in range(turns):
        await turn()
    await dispatcher.finish()
    await turn()
    assert peer.codes() == [(0, ResponseCode.SYSTEM_ERROR)]
