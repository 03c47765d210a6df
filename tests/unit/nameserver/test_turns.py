"""Thousands of requests at once: answered in their order, while others get their turns."""

from __future__ import annotations

import asyncio
from typing import Any

from pyromq.nameserver.turns import TURN_S, Turns
from pyromq.net import Connection, Handler
from pyromq.wire.codes import RequestCode
from pyromq.wire.command import decode_command, encode_request, encode_response
from pyromq.wire.frame import FrameDecoder
from pyromq.wire.received import Received
from tests.unit.net.fakes import Rig, turn


class Server(Handler):
    """Every request takes half of a turn."""

    def __init__(self, response_bytes: int = 0) -> None:
        self.now_s = 0.0
        self.answered: list[int] = []
        self.turns = Turns(self._answer, lambda: self.now_s)
        self._body = bytes(response_bytes)

    def _answer(self, request: Received[Any], _: Connection) -> bytes | None:
        self.now_s += TURN_S / 2
        self.answered.append(request.correlation_id)
        return encode_response(0, request.correlation_id, body=self._body)

    def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
        self.turns.take(connection, requests)

    def on_drained(self, connection: Connection) -> None:
        self.turns.go_on(connection)

    def on_disconnected(self, connection: Connection, reason: str) -> None:
        self.turns.drop(connection)


def asks(*numbers: int) -> bytes:
    return b"".join(encode_request(RequestCode.GET_NAMESRV_CONFIG, number) for number in numbers)


def ids(rig: Rig) -> list[int]:
    return [decode_command(frame).correlation_id for frame in FrameDecoder().feed(b"".join(rig.transport.writes))]


def test_a_long_row_of_requests_is_answered_turn_by_turn() -> None:
    async def main() -> None:
        server = Server()
        greedy, honest = Rig(handler=server), Rig(handler=server)
        greedy.arrive(asks(1, 2, 3, 4, 5))
        assert server.answered == [1, 2] and greedy.transport.is_reading_paused
        honest.arrive(asks(100))
        assert ids(honest) == [100], "it does not wait for the others"
        greedy.arrive(asks(6))  # was on its way
        await turn()
        assert ids(greedy) == [1, 2, 3, 4, 5, 6]
        assert not greedy.transport.is_reading_paused

    asyncio.run(main())


def test_nothing_is_answered_while_the_peer_does_not_read() -> None:
    async def main() -> None:
        server = Server(response_bytes=700_000)
        rig = Rig(handler=server, reads=False)
        rig.arrive(asks(*range(1, 7)))
        await turn()
        answered = list(server.answered)
        assert answered == [1, 2] and rig.connection.is_congested
        rig.transport.peer_reads_all()
        assert server.answered == [1, 2, 3, 4] and rig.transport.is_reading_paused
        rig.transport.peer_reads_all()
        rig.transport.peer_reads_all()
        await turn()
        assert server.answered == [1, 2, 3, 4, 5, 6] and not rig.transport.is_reading_paused

    asyncio.run(main())


def test_a_connection_that_ends_leaves_nothing() -> None:
    async def main() -> None:
        server = Server()
        rig = Rig(handler=server)
        rig.arrive(asks(1, 2, 3))
        rig.connection.abort("gone")
        await turn()
        assert not server.turns._waiting

    asyncio.run(main())
