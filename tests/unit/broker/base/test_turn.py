"""How requests of several connections share the loop."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from pyromq.broker.base.turn import SHARE_MS, Turns
from pyromq.net import Connection
from pyromq.testing import ManualClock
from pyromq.wire.codes import RequestCode
from pyromq.wire.received import Received


class Peer:
    """A connection that is read from or not."""

    def __init__(self) -> None:
        self.held = 0
        self.resumed = 0

    def hold_reading(self) -> None:
        self.held += 1

    def go_on_reading(self) -> None:
        self.resumed += 1

    def flush(self) -> None:
        pass


class Rig:
    def __init__(self, cost_ms: int) -> None:
        self.clock = ManualClock()
        self.handled: list[tuple[Connection, int]] = []
        self.ends = 0
        self._cost_ms = cost_ms
        self.turns = Turns(self.clock, self._handle, self._end)

    def _handle(self, connection: Connection, request: Received[Any]) -> None:
        self.clock.advance_ms(self._cost_ms)
        self.handled.append((connection, request.correlation_id))

    def _end(self) -> None:
        self.ends += 1


def requests(count: int, code: RequestCode = RequestCode.GET_BROKER_CONFIG, first: int = 0) -> list[Received[Any]]:
    return [Received(code=code, header=None, correlation_id=first + number) for number in range(count)]


async def test_of_slow_requests_only_as_many_as_fit_are_done_and_the_others_later_in_order() -> None:
    rig, peer = Rig(cost_ms=SHARE_MS // 2), Peer()
    connection = cast(Connection, peer)
    rig.turns.take(connection, requests(10))
    assert len(rig.handled) == 3 and (peer.held, peer.resumed) == (1, 0)
    rig.turns.take(connection, requests(2, first=10))
    assert len(rig.handled) == 3, "what comes later waits behind what came first"
    for _ in range(12):
        await asyncio.sleep(0)
    assert len(rig.turns) == 0
    assert [number for _, number in rig.handled] == list(range(12)) and peer.resumed >= 1 and rig.ends >= 4


async def test_connections_that_wait_take_turns_and_a_new_one_is_not_behind_them() -> None:
    rig, one, other, honest = Rig(cost_ms=SHARE_MS), *(cast(Connection, Peer()) for _ in range(3))
    rig.turns.take(one, requests(6))
    rig.turns.take(other, requests(6))
    rig.turns.take(honest, requests(1))
    assert rig.handled[-1] == (honest, 0)
    before = len(rig.handled)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert {connection for connection, _ in rig.handled[before:]} == {one, other}


async def test_sends_share_their_commit_however_many_come_in_one_read() -> None:
    rig, connection = Rig(cost_ms=SHARE_MS), cast(Connection, Peer())
    rig.turns.take(connection, requests(50, RequestCode.SEND_MESSAGE_V2))
    assert len(rig.handled) == 50 and rig.ends == 1


async def test_requests_of_a_connection_that_is_gone_are_forgotten() -> None:
    rig, connection = Rig(cost_ms=SHARE_MS), cast(Connection, Peer())
    rig.turns.take(connection, requests(6))
    done = len(rig.handled)
    rig.turns.drop(connection)
    await asyncio.sleep(0)
    assert len(rig.turns) == 0 and len(rig.handled) == done
