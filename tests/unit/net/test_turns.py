"""Thousands of requests at once: answered in their order, while others get their turns."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from pyromq.net import Connection, Handler
from pyromq.net.stalls import StallWatch
from pyromq.net.turns import TURN_S, Turns
from pyromq.wire.codes import RequestCode
from pyromq.wire.command import decode_command, encode_request, encode_response
from pyromq.wire.frame import FrameDecoder
from pyromq.wire.received import Received
from tests.unit.net.fakes import Rig, turn


class Server(Handler):
    """Two requests fill a turn."""

    def __init__(self, response_bytes: int = 0) -> None:
        self.now_s = 0.0
        self.answered: list[int] = []
        self.turns = Turns(self._serve, lambda: self.now_s, {int(RequestCode.HEART_BEAT)})
        self._body = bytes(response_bytes)

    def _serve(self, connection: Connection, coming: Iterator[Received[Any]]) -> bool:
        until_s = self.now_s + TURN_S
        for request in coming:
            self.now_s += TURN_S * 0.6
            self.answered.append(request.correlation_id)
            connection.send(encode_response(0, request.correlation_id, body=self._body))
            if self.now_s >= until_s:
                return True
        return False

    def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
        self.turns.take(connection, requests)

    def on_drained(self, connection: Connection) -> None:
        self.turns.go_on(connection)

    def on_disconnected(self, connection: Connection, reason: str) -> None:
        self.turns.drop(connection)


def asks(*numbers: int) -> bytes:
    return b"".join(encode_request(RequestCode.GET_NAMESRV_CONFIG, number) for number in numbers)


def quick(*numbers: int) -> bytes:
    return b"".join(encode_request(RequestCode.HEART_BEAT, number) for number in numbers)


def ids(rig: Rig) -> list[int]:
    return [decode_command(frame).correlation_id for frame in FrameDecoder().feed(b"".join(rig.transport.writes))]


def test_a_long_row_of_requests_is_answered_turn_by_turn() -> None:
    async def main() -> None:
        server = Server()
        greedy, honest = Rig(handler=server), Rig(handler=server)
        greedy.arrive(asks(1, 2, 3, 4, 5))
        assert server.answered == [1, 2] and greedy.transport.is_reading_paused
        honest.arrive(quick(100))
        assert ids(honest) == [100], "it does not wait for the others"
        greedy.arrive(asks(6))  # was on its way
        await turn()
        await turn()
        assert ids(greedy) == [1, 2, 3, 4, 5, 6]
        assert not greedy.transport.is_reading_paused

    asyncio.run(main())


class Sharing(Server):
    """All connections share a loop iteration."""

    def _serve(self, connection: Connection, coming: Iterator[Received[Any]]) -> bool:
        for request in coming:
            until_s = self.turns.until_s()
            self.now_s += TURN_S * 0.6
            self.answered.append(request.correlation_id)
            connection.send(encode_response(0, request.correlation_id))
            if self.now_s >= until_s:
                return True
        return False


def test_connections_that_come_in_the_same_turn_share_it_and_quick_requests_pass() -> None:
    async def main() -> None:
        server = Sharing()
        many = [Rig(handler=server) for _ in range(5)]
        for number, rig in enumerate(many):
            rig.arrive(asks(number))
        assert server.answered == [0, 1], "the allowance of this turn is used up"
        assert [rig.transport.is_reading_paused for rig in many] == [False, False, True, True, True]
        honest = Rig(handler=server)
        honest.arrive(quick(100))
        assert server.answered == [0, 1, 100]
        many[4].connection.close("gone")
        await turn()
        for _ in range(4):
            await turn()
        assert server.answered == [0, 1, 100, 2, 3]
        assert not any(rig.transport.is_reading_paused for rig in (many[2], many[3]))

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
        await turn()
        assert server.answered == [1, 2, 3, 4] and rig.transport.is_reading_paused
        rig.transport.peer_reads_all()
        await turn()
        rig.transport.peer_reads_all()
        await turn()
        assert server.answered == [1, 2, 3, 4, 5, 6] and not rig.transport.is_reading_paused

    asyncio.run(main())


def test_connections_that_wait_take_turns_and_a_new_one_is_not_behind_them() -> None:
    async def main() -> None:
        server = Server()
        one, other, honest = (Rig(handler=server) for _ in range(3))
        one.arrive(asks(*range(10, 16)))
        other.arrive(asks(*range(20, 26)))
        honest.arrive(quick(100))
        assert server.answered == [10, 11, 100] and len(server.turns) == 10
        await asyncio.sleep(0)
        assert server.answered[3:] == [12, 13], "one connection at a time"
        for _ in range(5):
            await asyncio.sleep(0)
        assert server.answered[3:] == [12, 13, 20, 21, 14, 15, 22, 23, 24, 25]
        assert len(server.turns) == 0 and not one.transport.is_reading_paused

    asyncio.run(main())


def test_a_slow_turn_is_counted_as_a_stall() -> None:
    async def main() -> None:
        server = Server()
        watch = server.turns.stalls = StallWatch(lambda: server.now_s * 40, lambda: server.now_s * 40)
        rig = Rig(handler=server)
        rig.arrive(asks(1, 2, 3, 4))
        assert watch.count == 0, "the first turn is measured by the connection"
        await turn()
        assert (watch.count, watch.worst_cause) == (1, str(int(RequestCode.GET_NAMESRV_CONFIG)))

    asyncio.run(main())


def test_a_connection_that_ends_leaves_nothing() -> None:
    async def main() -> None:
        server = Server()
        rig = Rig(handler=server)
        rig.arrive(asks(1, 2, 3, 4, 5, 6))
        rig.connection.abort("gone")
        await turn()
        assert len(server.turns) == 0 and server.answered == [1, 2, 3, 4], "its turn came before its end"

    asyncio.run(main())
