"""Delayed messages on a disk that stops at every few operations: what was accepted is delivered or cancelled."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest

from pyromq.errors import MQError
from pyromq.testing import FaultyDisk, ManualClock
from pyromq.testing.faulty_disk import Crashed, CrashMode
from tests.unit.broker.delays.delay_rig import DelayRig

STRIDE = int(os.environ.get("PYROMQ_DELAY_STRIDE", "7"))
FAR_MS = 260_000  # rolls twice on its way
LEVEL_1, LEVEL_2 = [f"one{number}" for number in range(12)], [f"two{number}" for number in range(6)]


@dataclass
class Ledger:
    """What clients were told."""

    accepted: list[str] = field(default_factory=list)
    cancelling: set[str] = field(default_factory=set)  # asked for; may have happened
    cancelled: set[str] = field(default_factory=set)  # confirmed


def live(rig: DelayRig, ledger: Ledger) -> None:
    """Messages come, wait, are cancelled, roll and are delivered; progress is saved in between."""

    def sent(name: str, send: Callable[[], object]) -> None:
        send()
        ledger.accepted.append(name)

    def cancelled(name: str, due_ms: int) -> None:
        ledger.cancelling.add(name)
        rig.cancel(name, due_ms)
        ledger.cancelled.add(name)

    start_ms = rig.clock.now_ms()
    for name in LEVEL_1:
        sent(name, lambda name=name: rig.send_at_level(name, 1))  # type: ignore[misc]
    for name in LEVEL_2:
        sent(name, lambda name=name: rig.send_at_level(name, 2))  # type: ignore[misc]
    for number in range(12):
        due = 1_200 + 400 * number
        sent(f"t{number}", lambda n=f"t{number}", due=due: rig.send_in(n, due))  # type: ignore[misc]
    sent("far", lambda: rig.send_in("far", FAR_MS))
    sent("far-gone", lambda: rig.send_in("far-gone", FAR_MS))
    rig.run()
    rig.save()
    cancelled("t7", start_ms + 4_001)
    cancelled("far-gone", start_ms + FAR_MS + 1)
    for _ in range(4):
        rig.pass_time(1_500, step_ms=500)
        rig.save()
    for _ in range(5):
        rig.pass_time(FAR_MS // 5, step_ms=2_000)
        rig.save()
    rig.pass_time(5_000)
    rig.save()


def rest_of_life(rig: DelayRig) -> None:
    rig.run()
    rig.pass_time(3_000)
    rig.pass_time(FAR_MS + 20_000, step_ms=10_000)


def count_operations() -> int:
    disk = FaultyDisk()
    rig, ledger = DelayRig(disk, ManualClock()), Ledger()
    live(rig, ledger)
    assert sorted(rig.delivered()) == sorted(set(ledger.accepted) - ledger.cancelled)
    assert rig.timers.pending == 0 and rig.schedule.pending == 0
    return disk.operations


@pytest.mark.parametrize("mode", CrashMode)
def test_a_crash_at_any_operation_loses_no_delayed_message(
    mode: CrashMode, record_property: Callable[[str, object], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    operations, tried, checked = count_operations(), 0, 0
    for at in range(1 + list(CrashMode).index(mode) * 2, operations, STRIDE):
        clock, ledger, rng = ManualClock(), Ledger(), Random(at)
        disk = FaultyDisk(clock_ms=clock.now_ms)
        disk.crash_at(at, torn=at % 2 == 0)
        try:
            live(DelayRig(disk, clock), ledger)
        except Crashed:
            pass
        rig = DelayRig(disk.after_crash(mode, rng), clock)
        rest_of_life(rig)
        found = rig.delivered()
        context = f"mode {mode.value}, operation {at}"
        lost = set(ledger.accepted) - set(found) - ledger.cancelling
        record_property("acknowledged records lost", len(lost))
        assert not lost, f"{context}: lost {sorted(lost)}"
        assert not ledger.cancelled & set(found), f"{context}: {ledger.cancelled & set(found)} were cancelled"
        assert rig.timers.pending == 0 and rig.schedule.pending == 0, context
        for level in (LEVEL_1, LEVEL_2):
            first_seen = [name for name in dict.fromkeys(found) if name in level]
            assert first_seen == sorted(first_seen, key=level.index), f"{context}: order within a level"
        tried, checked = tried + 1, checked + len(ledger.accepted)
    assert tried > 20
    record_property("crash points tried", tried)
    record_property("acknowledged records checked", checked)


def test_saved_progress_is_not_delivered_again_after_a_crash() -> None:
    clock = ManualClock()
    disk = FaultyDisk(clock_ms=clock.now_ms)
    rig, ledger = DelayRig(disk, clock), Ledger()
    live(rig, ledger)
    rig = DelayRig(disk.after_crash(CrashMode.FORGET), clock)
    rest_of_life(rig)
    assert sorted(rig.delivered()) == sorted(set(ledger.accepted) - ledger.cancelled)


@pytest.mark.parametrize("at", range(1, 400, 23))
def test_a_failing_disk_loses_nothing_either(at: int, caplog: pytest.LogCaptureFixture) -> None:
    """One operation fails with EIO; the store may refuse everything from then on, until it is reopened."""
    caplog.set_level(logging.CRITICAL)
    clock, ledger = ManualClock(), Ledger()
    disk = FaultyDisk(clock_ms=clock.now_ms)
    disk.fail_at(at)
    try:
        live(DelayRig(disk, clock), ledger)
    except (MQError, OSError):
        pass
    rig = DelayRig(disk.after_crash(CrashMode.KEEP), clock)
    rest_of_life(rig)
    assert not set(ledger.accepted) - set(rig.delivered()) - ledger.cancelling
    assert not ledger.cancelled & set(rig.delivered())
