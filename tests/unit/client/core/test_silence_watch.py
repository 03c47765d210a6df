"""Who is taken for silent: a broker that did not answer a probe, whoever dropped its connection first."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import Mock

from pyromq.client.core.silence_watch import SilenceWatch
from pyromq.client.core.tasks import TaskOwner
from pyromq.errors import ConnectionLostError, TooManyRequestsError
from pyromq.testing import ManualClock
from tests.unit.failover.simulation import now_s, simulate

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


# --- when it is asked ---


class WatchedLoop:
    """A broker that owes a response, in simulated time; ``asked_s`` are the moments at which it was asked."""

    def __init__(self) -> None:
        self.connection = Mock(is_open=True, bytes_in=7, in_flight=1)
        self.link = Mock(ready=self.connection, address=ADDRESS)
        self.asked_s: list[float] = []

        async def probe(connection: Any, timeout_ms: int) -> None:
            self.asked_s.append(now_s())

        clock = Mock(monotonic_ms=lambda: round(now_s() * 1000))
        brokers = Mock(ready_links=lambda: [self.link])
        self.watch = SilenceWatch(brokers, probe, Mock(), clock, TaskOwner("test"), probe_ms=2_000)


def test_a_silent_broker_is_asked_soon_after_the_time_that_it_may_be_silent() -> None:
    async def work() -> None:
        scene, begun_s = WatchedLoop(), now_s()
        scene.watch.expect()
        for _ in range(3):
            await asyncio.sleep(0.9)
            scene.connection.bytes_in += 1  # it answers, last after 2.7 s
        await asyncio.sleep(5)
        assert 4.7 <= scene.asked_s[0] - begun_s <= 5.0
        scene.watch.close()

    simulate(work)


def test_a_connection_on_which_nothing_was_asked_is_not_taken_for_silent() -> None:
    async def work() -> None:
        scene, begun_s = WatchedLoop(), now_s()
        scene.watch.expect()
        await asyncio.sleep(1)
        scene.connection.in_flight = 0  # it was answered, and nothing is sent for a minute
        await asyncio.sleep(60)
        assert not scene.watch.is_watching
        scene.connection.in_flight = 1
        scene.watch.expect()
        await asyncio.sleep(1.5)
        assert not scene.asked_s
        await asyncio.sleep(1.5)
        assert 63 <= scene.asked_s[0] - begun_s < 64
        scene.watch.close()

    simulate(work)
