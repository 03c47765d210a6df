"""Progress of delayed messages reaches the disk behind the messages it speaks of, never before them."""

from __future__ import annotations

import asyncio
import errno
from concurrent.futures import Executor, Future
from types import SimpleNamespace
from typing import Any, cast

from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.delays.delay_runner import DelayRunner
from pyromq.model.names import TIMER_TOPIC
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import StoreSettings
from pyromq.store.tables.offsets import DelayOffsets
from pyromq.store.timers.check import TimerCheck
from pyromq.store.timers.files import TimerFlush
from pyromq.store.timers.metrics import TimerMetrics
from pyromq.testing import FaultyDisk, ManualClock
from pyromq.wire.record import Draft
from tests.unit.broker.builders import ROOT
from tests.unit.net.fakes import turn

NEVER_MS = 1 << 62


class AtOnce(Executor):
    """A worker that is always faster than its owner."""

    def submit(self, fn: Any, /, *args: Any, **_: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args))
        except OSError as error:
            future.set_exception(error)
        return future


class Rig:
    """A store, and services that have nothing to let go but have come further."""

    def __init__(self) -> None:
        self.disk, self.clock, self.flushes = FaultyDisk(), ManualClock(), 0
        settings = StoreSettings(segment_bytes=1 << 16, index_slots=10, index_entries=50)
        self.store = MessageStore.open(ROOT, settings, disk=self.disk, clock=self.clock)
        self.offsets = DelayOffsets.load(self.disk, ROOT)
        self.cursor = 0
        self.metrics = TimerMetrics.load(self.disk, ROOT)
        schedule: Any = SimpleNamespace(level_count=1, run=lambda: NEVER_MS, note=self._note, on_ready=None)
        timers: Any = SimpleNamespace(run=lambda: NEVER_MS, changed=False, metrics=self.metrics)
        self.files: Any = SimpleNamespace(forget_before=lambda position: None)
        environment: Any = SimpleNamespace(clock=self.clock, settings=BrokerSettings())
        self.delay_runner = DelayRunner(
            self.store, schedule, timers, self.offsets, self.files, cast(Any, AtOnce()), self._flush_soon, environment
        )

    def _note(self, offsets: DelayOffsets) -> None:
        if (offsets.get(1) or 0) != self.cursor:
            offsets.put(1, self.cursor)
            offsets.bump(0)

    def _flush_soon(self) -> None:
        self.flushes += 1

    async def tick(self) -> None:
        self.delay_runner.tick()
        await turn()
        await asyncio.sleep(0)

    @property
    def saved(self) -> int | None:
        """What a broker that starts now would go on from."""
        return DelayOffsets.load(self.disk, ROOT).get(1)


async def test_the_cursor_of_a_level_is_saved_once_what_it_passed_is_on_disk() -> None:
    rig = Rig()
    rig.store.append([Draft(topic="orders", queue_id=0, body=b"delivered")])
    rig.cursor = 1
    rig.clock.advance_ms(10_000)
    await rig.tick()
    assert (rig.saved, rig.flushes) == (None, 1)
    await rig.tick()
    assert (rig.saved, rig.flushes) == (None, 2)
    rig.store.flush()
    await rig.tick()
    assert rig.saved == 1
    rig.delay_runner.halt()


async def test_nothing_is_let_go_while_the_broker_may_not_write() -> None:
    rig = Rig()
    runner, ran = rig.delay_runner, [0]

    def run() -> int:
        ran[0] += 1
        return rig.clock.now_ms()  # there is always more to do

    runner.schedule.run = run  # type: ignore[method-assign]
    runner.may_write = lambda: ran[0] < 3  # its lease ends, or a planned change holds sends
    runner.soon()
    for _ in range(10):
        await turn()
    assert ran[0] == 3, "nor what was arranged before"
    runner.may_write = lambda: ran[0] < 5
    await rig.tick()
    for _ in range(10):
        await turn()
    assert ran[0] == 5
    runner.halt()


async def test_offsets_that_could_not_be_saved_are_saved_the_next_time() -> None:
    rig = Rig()
    rig.cursor = 1
    rig.clock.advance_ms(10_000)
    rig.disk.fail_at(rig.disk.operations + 1, errno.ENOSPC)
    await rig.tick()
    assert rig.saved is None
    rig.clock.advance_ms(10_000)
    await rig.tick()
    assert rig.saved == 1, "the cursor stands still, but it was never saved"
    rig.delay_runner.halt()


async def test_after_a_failed_sync_of_timer_files_no_later_one_is_believed() -> None:
    rig = Rig()
    rig.store.append([Draft(topic=TIMER_TOPIC, queue_id=0, body=b"waits")])
    rig.store.flush()
    log = rig.disk.create(ROOT / "timerlog" / "file", 100)
    rig.files.flush = lambda now_ms: TimerFlush(rig.disk, ROOT / "check", TimerCheck(), [log])
    rig.clock.advance_ms(60_000)
    rig.disk.fail_at(rig.disk.operations + 1, errno.EIO)
    await rig.tick()
    assert not rig.store.health.trusted
    rig.delay_runner.halt()


async def test_everything_is_needed_while_messages_with_a_time_of_their_own_are_late() -> None:
    """Nobody had delivered them while there was no master, and their files expired: found by seed 403301."""
    rig, behind = Rig(), SimpleNamespace(behind_ms=0)
    runner = rig.delay_runner
    runner.timers = cast(Any, behind)
    runner.schedule.waiting_from = lambda: 77  # type: ignore[method-assign]
    behind.behind_ms = 1 << 40
    assert runner.needed_from() == 77, "there was never such a message"
    rig.store.append([Draft(topic=TIMER_TOPIC, queue_id=0, body=b"waits")])
    assert runner.needed_from() == rig.store.first_position == 0
    behind.behind_ms = 60_000
    assert runner.needed_from() == 77
    attached = [False]
    runner.has_master = lambda: attached[0]
    assert runner.needed_from() == 0, "a replica without a master: nobody delivers"
    attached[0], behind.behind_ms = True, 1 << 40
    assert runner.needed_from() == 77, "its master does, and it does not count itself"
    runner.halt()
