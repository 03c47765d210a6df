"""What kept the event loop from others: CPU time of one read, with the codes of its requests."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from pyromq.net import Connection, Handler
from pyromq.net.stalls import ELSEWHERE, PROBE_S, LoopProbe, StallWatch
from pyromq.wire.codes import RequestCode
from pyromq.wire.command import encode_request
from pyromq.wire.received import Received
from tests.unit.net.fakes import Rig


class Machine:
    """Two clocks: what passes on the wall, and what of it the thread got."""

    def __init__(self) -> None:
        self.wall = self.cpu = 1_000.0

    def work(self, seconds: float) -> None:
        self.wall += seconds
        self.cpu += seconds

    def wait(self, seconds: float) -> None:
        self.wall += seconds

    def watch(self) -> StallWatch:
        return StallWatch(lambda: self.wall, lambda: self.cpu)


def test_work_is_counted_and_waiting_is_not(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    watch = machine.watch()
    began = watch.begin()
    machine.wait(5.0)
    machine.work(0.09)
    watch.ended(began, "a busy machine")
    assert watch.report() == {"loopStalls": 0, "loopStallWorstMs": 0, "loopStallCode": ""}
    for took in (0.2, 0.3, 0.15):
        began = watch.begin()
        machine.work(took)
        watch.ended(began, f"{took} s")
    assert watch.report() == {"loopStalls": 3, "loopStallWorstMs": 300, "loopStallCode": "0.3 s"}
    assert "event loop stalled: cpu_ms=300 cause=0.3 s" in caplog.text


def test_a_stall_is_never_told_too_long() -> None:
    machine = Machine()
    watch = machine.watch()
    watch.begin()
    machine.wait(0.009)  # no new mark
    began = watch.begin()
    machine.work(0.2)
    watch.ended(began, "")
    assert watch.worst_ms == 191


class Slow(Handler):
    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
        self._machine.work(0.06 * len(requests))


@pytest.mark.parametrize(("requests", "stalls"), [(1, 0), (2, 1)])
def test_a_read_is_measured_as_a_whole(requests: int, stalls: int, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        machine = Machine()
        watch = machine.watch()
        rig = Rig(handler=Slow(machine), stalls=watch)
        codes = (RequestCode.GET_BROKER_CLUSTER_INFO, RequestCode.GET_NAMESRV_CONFIG)
        rig.arrive(b"".join(encode_request(code, 1) for code in codes[:requests]))
        assert watch.count == stalls
        assert watch.worst_cause == ("106,319" if stalls else "")

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert ("cause=106,319" in caplog.text) == bool(stalls)


class Loop:
    """Timers that are called by hand; the probe of a machine on it."""

    def __init__(self, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.machine, self.watch = machine, machine.watch()
        self.timers: list[Any] = []
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: self)
        self.probe = LoopProbe(self.watch, lambda: machine.wall, lambda: machine.cpu)
        self.probe.start()

    def call_later(self, delay_s: float, callback: Any) -> Any:
        assert delay_s == PROBE_S
        self.timers.append(callback)
        return asyncio.TimerHandle(0, callback, (), self)  # type: ignore[arg-type]

    def get_debug(self) -> bool:
        return False

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self.timers.clear()

    def due(self) -> None:
        self.timers.pop()()


def test_a_task_that_keeps_the_loop_is_counted_though_nobody_measures_it(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    loop = Loop(machine, monkeypatch)
    machine.wait(PROBE_S)
    machine.work(0.2)
    loop.due()
    assert (loop.watch.count, loop.watch.worst_cause) == (1, ELSEWHERE)
    assert 200 - PROBE_S * 1000 <= loop.watch.worst_ms <= 200, "never too long"
    loop.probe.stop()
    assert not loop.timers


@pytest.mark.parametrize("way", ["a busy machine", "much work in many turns", "counted already"])
def test_the_probe_counts_no_wait_no_load_and_nothing_twice(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    loop = Loop(machine, monkeypatch)
    counted = 0
    if way == "a busy machine":
        machine.work(PROBE_S)
        machine.wait(5.0)
    elif way == "much work in many turns":
        machine.work(PROBE_S + 0.09)
    else:
        began = loop.watch.begin()
        machine.work(0.3)
        loop.watch.ended(began, "310")
        counted = 1
    loop.due()
    assert loop.watch.count == counted and len(loop.timers) == 1
