"""Probes: live, ready and startup tell different things."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Generator

from pyromq.endpoint.verdicts import BEAT_S, LoopBeat, Probes
from pyromq.metrics.health import Finding, HealthReport, Severity, Startup
from pyromq.metrics.samples import ServerSamples
from pyromq.testing import ManualClock


class Server:
    """A source that is as the test says."""

    def __init__(self) -> None:
        self.started = Startup(True, "answers")
        self.report = HealthReport()

    def startup(self) -> Startup:
        return self.started

    def health(self) -> HealthReport:
        return self.report

    def collect(self) -> Generator[None, None, list[ServerSamples]]:
        yield
        return []


class Rig:
    def __init__(self) -> None:
        self.clock, self.server, self.is_stuck = ManualClock(), Server(), False
        self.beat = LoopBeat(self.clock)
        self.probes = Probes([self.server], self.beat, self.ask, silence_s_max=15, ask_s=0.01)

    async def ask(self, function: Callable[[], list[HealthReport]]) -> list[HealthReport]:
        if self.is_stuck:
            await asyncio.Event().wait()
        return function()


async def test_a_server_that_is_well() -> None:
    probes = Rig().probes
    assert [(await check()).ok for check in (probes.live, probes.ready, probes.startup)] == [True, True, True]


async def test_a_server_that_recovers_is_live_and_not_ready() -> None:
    rig = Rig()
    rig.server.started = Startup(False, "the broker is starting: the store is being recovered: 43 %")
    rig.clock.advance_ms(3_600_000)  # its loop is busy with that
    assert (await rig.probes.live()).ok
    for check in (rig.probes.ready, rig.probes.startup):
        verdict = await check()
        assert not verdict.ok and "43 %" in verdict.reasons[0]


async def test_a_loop_that_does_not_turn_is_not_live() -> None:
    rig = Rig()
    rig.clock.advance_ms(15_000 + int(BEAT_S * 1000))
    assert (await rig.probes.live()).ok
    rig.clock.advance_ms(1_000)
    verdict = await rig.probes.live()
    assert not verdict.ok and verdict.reasons == ("the event loop has not turned for 16 s",)
    assert (await rig.probes.startup()).ok


async def test_a_loop_that_does_not_answer_is_not_ready() -> None:
    rig = Rig()
    rig.is_stuck = True
    verdict = await rig.probes.ready()
    assert not verdict.ok and "did not answer" in verdict.reasons[0]


async def test_reasons_make_it_unready_findings_do_not() -> None:
    rig = Rig()
    rig.server.report = HealthReport((), (Finding(Severity.WARNING, "odd"), Finding(Severity.BAD, "worse")))
    verdict = await rig.probes.ready()
    assert verdict.ok and verdict.warnings == ("odd", "bad: worse")
    rig.server.report = HealthReport(("the disk is full",))
    verdict = await rig.probes.ready()
    assert not verdict.ok and json.loads(verdict.body) == {
        "status": "failed",
        "check": "ready",
        "reasons": ["the disk is full"],
        "warnings": [],
    }


async def test_nothing_there_yet_is_starting() -> None:
    rig = Rig()
    probes = Probes([], rig.beat, rig.ask)
    assert (await probes.live()).ok and not (await probes.startup()).ok and not (await probes.ready()).ok


async def test_the_beat_of_a_loop() -> None:
    clock = ManualClock()
    beat = LoopBeat(clock)
    beat.start()
    clock.advance_ms(2_000)
    assert beat.silence_s == 2 - BEAT_S
    beat.start()
    assert beat.silence_s == 0
    beat.stop()
