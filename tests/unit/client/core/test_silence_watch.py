"""Who is taken for silent: a broker that did not answer a probe, whoever dropped its connection first."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from pyromq.client.core.silence_watch import SilenceWatch
from pyromq.client.core.tasks import TaskOwner
from pyromq.errors import ConnectionLostError, TooManyRequestsError
from pyromq.testing import ManualClock

ADDRESS = "127.0.0.1:10911"


class Scene:
    """A connection with a request that has timed out; ``probed`` is what happens while the broker is asked."""

    def __init__(self, probed: Any) -> None:
        self.connection = Mock(is_open=True, bytes_in=7, in_flight=1)
        self.found: list[str] = []

        async def probe(connection: Any, timeout_ms: int) -> None:
            probed(connection)

        self.tasks = TaskOwner("test")
        self.watch = SilenceWatch(
            Mock(), probe, lambda: self.found.append("silent"), ManualClock(), self.tasks, probe_ms=2_000
        )

    async def time_out(self) -> None:
        self.watch.timed_out(Mock(ready=self.connection, address=ADDRESS))
        await self.tasks.drained()


async def test_a_broker_whose_connection_was_dropped_as_half_open_while_it_was_asked_is_silent() -> None:
    def drop(connection: Any) -> None:
        connection.is_open = False
        raise ConnectionLostError("half open: nothing heard for 5000 ms", peer=ADDRESS)

    scene = Scene(drop)
    await scene.time_out()
    assert scene.watch.is_silent(ADDRESS) and scene.found == ["silent"]
    scene.connection.abort.assert_not_called()


async def test_a_broker_that_said_something_meanwhile_is_not_silent() -> None:
    def answer_others(connection: Any) -> None:
        connection.bytes_in += 100
        raise ConnectionLostError("closed by the peer", peer=ADDRESS)

    scene = Scene(answer_others)
    await scene.time_out()
    assert not scene.watch.is_silent(ADDRESS) and scene.found == []


async def test_a_broker_that_could_not_be_asked_because_too_much_is_under_way_is_not_silent() -> None:
    def refuse(connection: Any) -> None:
        raise TooManyRequestsError(peer=ADDRESS, in_flight_max=65_536)

    scene = Scene(refuse)
    await scene.time_out()
    assert not scene.watch.is_silent(ADDRESS) and scene.found == []
    scene.connection.abort.assert_not_called()
