"""Who is taken for silent: a broker that did not answer a probe, whoever dropped its connection first."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import Mock

from pyromq.client.core.silence_watch import SilenceWatch
from pyromq.client.core.tasks import TaskOwner
from pyromq.errors import ConnectionLostError, TooManyRequestsError
from pyromq.net.pending_requests import NEVER_MS
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
        self.connection = Mock(is_open=True, bytes_in=7, in_flight=1, heard_ms=0)
        self.request()
        self.link = Mock(ready=self.connection, address=ADDRESS)
        self.asked_s: list[float] = []

        async def probe(connection: Any, timeout_ms: int) -> None:
            self.asked_s.append(now_s())

        clock = Mock(monotonic_ms=lambda: round(now_s() * 1000))
        brokers = Mock(ready_links=lambda: [self.link])
        self.watch = SilenceWatch(brokers, probe, Mock(), clock, TaskOwner("test"), probe_ms=2_000)
        self.looks = 0
        look = self.watch._look
        self.watch._look = lambda: (setattr(self, "looks", self.looks + 1), look())  # type: ignore

    def request(self) -> None:
        self.connection.in_flight, self.connection.unheard_ms = 1, round(now_s() * 1000)

    def hear(self) -> None:
        """It says something, and holds other requests."""
        self.connection.bytes_in += 1
        self.connection.heard_ms, self.connection.unheard_ms = round(now_s() * 1000), NEVER_MS


def test_a_silent_broker_is_asked_soon_after_the_time_that_it_may_be_silent() -> None:
    async def work() -> None:
        scene, begun_s = WatchedLoop(), now_s()
        scene.watch.expect()
        for _ in range(3):
            await asyncio.sleep(0.9)
            scene.hear()  # last after 2.7 s
        await asyncio.sleep(3)
        assert 4.699 <= scene.asked_s[0] - begun_s <= 4.72
        assert scene.looks == 3, "it is looked at when it might be silent for too long, not all the time"
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
        scene.request()
        scene.watch.expect()
        await asyncio.sleep(1.5)
        assert not scene.asked_s
        await asyncio.sleep(1.5)
        assert 62.999 <= scene.asked_s[0] - begun_s <= 63.02
        scene.watch.close()

    simulate(work)


def test_a_second_broker_that_falls_silent_between_two_looks_is_asked_in_time() -> None:
    async def work() -> None:
        scene, begun_s = WatchedLoop(), now_s()
        scene.watch.expect()
        await asyncio.sleep(1.5)
        scene.hear()
        await asyncio.sleep(1)  # the look after 2 s finds that, and the next one is due after 3.5 s
        other = Mock(is_open=True, bytes_in=0, in_flight=1, heard_ms=0, unheard_ms=round(now_s() * 1000))
        link = Mock(ready=other, address="127.0.0.1:10921")
        scene.watch._brokers.ready_links = lambda: [scene.link, link]  # type: ignore
        await asyncio.sleep(2.1)
        assert [round(each - begun_s, 1) for each in scene.asked_s] == [3.5, 4.5]
        scene.watch.close()

    simulate(work)
