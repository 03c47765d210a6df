"""A link whose connections are made by the test: no sockets."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from pyromq.errors import ClientClosedError, ConnectFailedError
from pyromq.net import Backoff, Connection, Link
from pyromq.net import link as link_module
from pyromq.net.link_state import Phase
from pyromq.testing import ManualClock
from pyromq.wire.codes import RequestCode
from pyromq.wire.command import encode_response
from tests.unit.net.fakes import PEER, Rig, turn
from tests.unit.net.test_connection import on_a_loop

CODE = RequestCode.GET_BROKER_CLUSTER_INFO


class World:
    """What happens to the n-th attempt: a future that the test resolves."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.attempts: list[asyncio.Future[Connection]] = []
        self.second_attempt = asyncio.Event()
        self.link = Link(
            PEER, connect=self._connect, clock=self.clock, rng=Random(7), backoff=Backoff(first_ms=20, ceiling_ms=40)
        )

    async def _connect(self) -> Connection:
        self.attempts.append(asyncio.get_running_loop().create_future())
        if len(self.attempts) == 2:
            self.second_attempt.set()
        return await self.attempts[-1]

    def accept(self) -> Rig:
        rig = Rig(is_server=False)
        self.attempts[-1].set_result(rig.connection)
        return rig

    async def lives(self) -> Rig:
        """A connection was wanted and made, and has brought a response."""
        wanting = self.want()
        await turn()
        rig = self.accept()
        await wanting
        rig.arrive(encode_response(0, 99))
        return rig

    async def is_replaced(self) -> bool:
        """Whether the next who wants a connection gets a new one at once."""
        again = self.want()
        await turn()
        rig = self.accept()
        return await again is rig.connection

    def refuse(self) -> None:
        self.attempts[-1].set_exception(ConnectFailedError("refused", peer=str(PEER)))

    def want(self, *, timeout_ms: int = 60_000, wait: bool = False) -> asyncio.Task[Connection]:
        return asyncio.ensure_future(self.link.connection(timeout_ms=timeout_ms, wait=wait))


@on_a_loop
async def test_nothing_is_opened_before_it_is_wanted() -> None:
    world = World()
    await turn()
    assert (world.attempts, world.link.phase, world.link.ready) == ([], Phase.IDLE, None)


@on_a_loop
async def test_all_who_want_a_connection_share_one_attempt() -> None:
    world = World()
    wanting = [world.want() for _ in range(10)]
    await turn()
    assert len(world.attempts) == 1
    rig = world.accept()
    assert await asyncio.gather(*wanting) == [rig.connection] * 10
    assert await world.link.connection(timeout_ms=1) is rig.connection
    assert world.link.ready is rig.connection


@on_a_loop
async def test_one_caller_that_gives_up_does_not_spoil_it_for_the_others() -> None:
    world = World()
    first, second, hasty = world.want(), world.want(), world.want(timeout_ms=1)
    await turn()
    first.cancel()
    with pytest.raises(ConnectFailedError, match="within 1 ms"):
        await hasty
    rig = world.accept()
    assert await second is rig.connection


@on_a_loop
async def test_a_refused_attempt_fails_all_and_those_who_come_while_backing_off() -> None:
    world = World()
    wanting = [world.want() for _ in range(3)]
    await turn()
    world.refuse()
    for result in await asyncio.gather(*wanting, return_exceptions=True):
        assert isinstance(result, ConnectFailedError)
    assert world.link.phase is Phase.BACKING_OFF
    with pytest.raises(ConnectFailedError, match="refused; next attempt in") as caught:
        await world.link.connection(timeout_ms=1_000)
    assert caught.value.peer == str(PEER)
    assert len(world.attempts) == 1
    world.clock.advance_ms(40)
    again = world.want()
    await turn()
    assert len(world.attempts) == 2
    rig = world.accept()
    assert await again is rig.connection


@on_a_loop
async def test_a_patient_caller_gets_the_connection_of_a_later_attempt() -> None:
    world = World()
    patient = world.want(wait=True)
    await turn()
    world.refuse()
    await turn()
    world.clock.advance_ms(40)
    await asyncio.wait_for(world.second_attempt.wait(), 60)
    rig = world.accept()
    assert await patient is rig.connection


@on_a_loop
async def test_a_lost_connection_that_worked_is_replaced_without_delay() -> None:
    world = World()
    first = await world.lives()
    first.connection.connection_lost(ConnectionResetError("reset"))
    assert (world.link.phase, world.link.ready) == (Phase.IDLE, None)
    assert await world.is_replaced()


@on_a_loop
async def test_a_connection_that_is_just_ending_is_waited_out() -> None:
    world = World()
    first = await world.lives()
    first.connection.abort("half open: nothing heard")  # the loop has not reported it yet
    assert await world.is_replaced()


@on_a_loop
async def test_closing_while_connecting_ends_the_attempt_and_every_wait() -> None:
    world = World()
    wanting = [world.want() for _ in range(3)]
    await turn()
    await world.link.close()
    for result in await asyncio.gather(*wanting, return_exceptions=True):
        assert isinstance(result, ClientClosedError)
    assert world.attempts[0].cancelled()
    with pytest.raises(ClientClosedError):
        await world.link.connection(timeout_ms=1_000)


@on_a_loop
async def test_who_waits_for_a_peer_that_is_gone_may_ask_another_one() -> None:
    """The client lives on: one that is closed would end a forwarder of kept messages for good (seed 735039)."""
    world = World()
    wanting = [world.want(), world.want(wait=True)]
    await turn()
    await world.link.close(gone="is in no route any more")
    wanting += [world.want(), world.want(wait=True)]
    for result in await asyncio.gather(*wanting, return_exceptions=True):
        assert isinstance(result, ConnectFailedError) and f"{PEER} is in no route any more" in str(result)


@on_a_loop
async def test_closing_a_ready_link_closes_its_connection() -> None:
    world = World()
    async with world.link as link:
        wanting = world.want()
        await turn()
        rig = world.accept()
        await wanting
    assert link.phase is Phase.CLOSED
    assert not rig.connection.is_open


@on_a_loop
async def test_a_request_connects_first() -> None:
    world = World()
    asking = asyncio.ensure_future(world.link.request(CODE, timeout_ms=60_000))
    await turn()
    rig = world.accept()
    await turn()
    rig.arrive(encode_response(0, 1, remark="hello"))
    assert (await asking).remark == "hello"


@on_a_loop
async def test_a_mistake_in_the_connect_function_is_a_failed_attempt(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    wanting = world.want()
    await turn()
    world.attempts[-1].set_exception(ZeroDivisionError("oops"))
    with pytest.raises(ConnectFailedError, match="oops"):
        await wanting
    assert world.link.phase is Phase.BACKING_OFF
    assert "connect function" in caplog.text


@on_a_loop
async def test_closing_does_not_wait_for_a_peer_that_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "CLOSE_MS", 1)
    world = World()
    rig = await world.lives()
    monkeypatch.setattr(rig.transport, "close", lambda: None)  # what is unsent stays unsent, so the end never comes
    async with asyncio.timeout(60):
        await world.link.close()
    assert rig.transport.is_aborted
