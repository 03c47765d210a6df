"""What a broker does by itself: every duty of a tick, each by itself, and what it saves at the end."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyromq.broker.base.environment import Environment
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.base.workers import Workers
from pyromq.broker.delays import delay_runner
from pyromq.broker.duties import _IDLE_LOOK_S, _IDLE_TICK_MS, Duties
from pyromq.broker.popping.waiting import HeldPop
from pyromq.broker.pulling.pull_waiters import Waiters
from pyromq.broker.roles import RoleChanges
from pyromq.broker.tenure import Tenure
from pyromq.broker.wiring import Parts
from pyromq.errors import StoreError
from pyromq.net import Connection
from pyromq.net.stalls import StallWatch
from pyromq.testing import FaultyDisk, ManualClock

EVERY_TICK = {
    "handlers.pulls.respond_due",
    "handlers.pulls.recheck_some",
    "handlers.watches.respond_due",
    "handlers.clients.notices.tick",
    "popping.tick",
    "popping.pops.tick",
    "write_path.disk.answer_overdue",
    "services.sealer.advance",
    "services.table_keeper.tick",
    "services.maintenance.tick",
    "services.transaction_checks.tick",
    "services.delay_runner.tick",
}
EVERY_SECOND = {
    "replication.tick",
    "stats.snapshot",
    "tables.members.drop_silent",
    "tables.filters.tick",
    "handlers.clients.notices.tell",
    "handlers.auditing.log.tick",
}
ON_A_WORKER = {"handlers.auditing.log.flush"}
OFFSETS = {"services.offset_keeper.tick"}


class Notes:
    """Stands for the parts: whatever is called on it is noted under its path."""

    def __init__(self, returns: dict[str, Any] | None = None, failing: dict[str, Exception] | None = None) -> None:
        self.called: list[str] = []
        self._returns, self._failing = returns or {}, failing or {}

    def __getattr__(self, name: str) -> Any:
        return self._part(name)

    def _part(self, path: str) -> Any:
        def call(*_: Any) -> Any:
            self.called.append(path)
            if path in self._failing:
                raise self._failing[path]
            return self._returns.get(path)

        return _Part(self, path, call)

    @property
    def as_parts(self) -> Parts:
        return cast(Parts, self)


class _Part:
    def __init__(self, notes: Notes, path: str, call: Callable[..., Any]) -> None:
        self._notes, self._path, self._call = notes, path, call
        self.__qualname__ = path

    def __getattr__(self, name: str) -> Any:
        return self._notes._part(f"{self._path}.{name}")

    def __call__(self, *arguments: Any) -> Any:
        return self._call(*arguments)


class Silent:
    """A connection whose client has not been heard from."""

    reason = ""

    def close(self, reason: str) -> None:
        self.reason = reason


class Rig:
    def __init__(self, **options: Any) -> None:
        self.clock = ManualClock()
        self.silent = Silent()
        self.notes = Notes({"tables.members.drop_silent": ([self.silent], {"readers"})}, **options)
        settings = BrokerSettings(port=0, offsets_save_ms=5_000)
        around = Environment(settings=settings, clock=self.clock, disk=FaultyDisk(), rng=Random(0))
        self.workers = cast(Workers, Notes())
        roles = RoleChanges(cast(Any, SimpleNamespace(parts=self.notes.as_parts)), around)
        self.duties = Duties(around, self.notes.as_parts, roles, self.workers, StallWatch())

    def tenure(self) -> Tenure:
        """What a broker has in one role, with parts that only take notes."""
        tenure = object.__new__(Tenure)
        tenure.parts, tenure.workers = self.notes.as_parts, self.workers
        return tenure

    def tick(self, after_ms: int) -> set[str]:
        self.clock.advance_ms(after_ms)
        self.notes.called.clear()
        self.duties.tick()
        return set(self.notes.called) - ON_A_WORKER


async def test_every_duty_is_done_when_its_time_has_come() -> None:
    rig = Rig()
    assert rig.tick(10_000) == EVERY_TICK | EVERY_SECOND | OFFSETS
    assert rig.silent.reason == "no heartbeat for too long"
    assert rig.tick(100) == EVERY_TICK
    assert rig.tick(900) == EVERY_TICK | EVERY_SECOND
    assert rig.tick(4_000) == EVERY_TICK | EVERY_SECOND | OFFSETS


@pytest.mark.parametrize("error", [StoreError("full"), OSError("broken"), ZeroDivisionError("a defect")])
async def test_a_duty_that_fails_keeps_no_other_from_being_done(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig(failing={"handlers.pulls.respond_due": error, "services.sealer.advance": error})
    assert rig.tick(100) >= EVERY_TICK
    assert caplog.text.count("periodic work failed") == 2


async def test_a_connection_that_is_lost_leaves_nothing_behind() -> None:
    rig = Rig()
    rig.tenure().disconnected(cast(Connection, rig.silent))
    assert set(rig.notes.called) == {
        "waiters.drop_connection",
        "handlers.watches.watches.drop_connection",
        "popping.pops.waiting.drop_owner",
        "handlers.clients.disconnected",
        "quotas.disconnected",
    }


async def test_offsets_and_tables_are_saved_before_the_store_is_closed() -> None:
    rig = Rig()
    rig.tenure().close()
    *saves, last = rig.notes.called
    assert set(saves) == {
        "services.offset_keeper.save_now",
        "services.table_keeper.save_now",
        "popping.keeper.save_now",
        "handlers.auditing.log.close",
    }
    assert last == "write_path.store.close"


class Idle:
    """Parts of a broker that has nothing to do, but for what a test says."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        notes = rig.notes
        self.store = SimpleNamespace(end_position=100)
        self.pressure = SimpleNamespace(waiting_for_disk=0, waiting_for_replicas=0)
        self.waiters = Waiters[Any](rig.clock)
        self.popping = SimpleNamespace(
            is_due=lambda now_ms, wall_ms: False, tick=notes.popping.tick, pops=notes.popping.pops
        )
        pulls, services = notes.handlers.pulls, notes.services
        self.pulls = SimpleNamespace(
            is_rechecking=False, respond_due=pulls.respond_due, recheck_some=pulls.recheck_some
        )
        self.watches = SimpleNamespace(
            watches=SimpleNamespace(waiting={}), respond_due=notes.handlers.watches.respond_due
        )
        self.notices = SimpleNamespace(is_under_way=False, tick=notes.handlers.clients.notices.tick)
        self.sealer = SimpleNamespace(busy=False, advance=services.sealer.advance)
        self.maintenance = SimpleNamespace(has_work=False, tick=services.maintenance.tick)
        self.checks = SimpleNamespace(is_under_way=False, tick=services.transaction_checks.tick)
        rig.duties._parts = cast(
            Parts,
            SimpleNamespace(
                write_path=SimpleNamespace(store=self.store, pressure=self.pressure),
                waiters=self.waiters,
                popping=self.popping,
                replication=notes.replication,
                handlers=SimpleNamespace(
                    pulls=self.pulls, watches=self.watches, clients=SimpleNamespace(notices=self.notices)
                ),
                services=SimpleNamespace(
                    sealer=self.sealer, maintenance=self.maintenance, transaction_checks=self.checks
                ),
            ),
        )
        self.may_write = True
        rig.duties._roles = cast(RoleChanges, self)  # which are asked for ``may_write`` alone
        rig.duties.tick = self.tick  # type: ignore[method-assign]
        self.looks(500)

    def tick(self) -> None:
        self.rig.notes.called.append("everything")
        duties, now_ms = self.rig.duties, self.rig.clock.monotonic_ms()
        duties._ticked_ms = duties._measured_ms = now_ms
        duties._might_write = self.may_write

    def looks(self, *after_ms: int) -> list[tuple[set[str], float]]:
        """Which duties each of these looks did, and how long the next one is waited for."""
        found = []
        for each in after_ms:
            self.rig.clock.advance_ms(each)
            self.rig.notes.called.clear()
            pause_s = self.rig.duties.look()
            found.append((set(self.rig.notes.called), pause_s))
        return found


NOTHING: set[str] = set()
EVERYTHING = {"everything"}


async def test_an_idle_broker_measures_replication_every_second_and_does_all_duties_every_two() -> None:
    idle = Idle(Rig())
    assert [done for done, _ in idle.looks(500, 500, 500, 500)] == [NOTHING, {"replication.tick"}, NOTHING, EVERYTHING]
    assert {pause_s for _, pause_s in idle.looks(500, 500, 500, 500)} == {0.5}


async def test_a_broker_whose_log_grows_or_where_a_send_waits_ticks_at_its_pace() -> None:
    idle = Idle(Rig())
    idle.store.end_position += 1
    assert idle.looks(100, 100) == [(EVERYTHING, 0.1), (NOTHING, 0.5)]
    idle.pressure.waiting_for_replicas = 1
    assert idle.looks(100, 100) == [(EVERYTHING, 0.1), (EVERYTHING, 0.1)]
    idle.pressure.waiting_for_replicas, idle.pressure.waiting_for_disk = 0, 1
    assert idle.looks(100) == [(EVERYTHING, 0.1)]


async def test_an_idle_broker_answers_a_pull_when_its_time_is_over() -> None:
    idle = Idle(Rig())
    deadline_ms = idle.rig.clock.monotonic_ms() + 400
    idle.waiters.hold(HeldPop(None, cast(Any, None), deadline_ms, cast(Any, None), print))
    assert [done for done, _ in idle.looks(250, 250)] == [NOTHING, {"handlers.pulls.respond_due"}]


async def test_an_idle_broker_notices_that_its_lease_has_begun_or_ended() -> None:
    """Delayed messages wait for the first tick with a lease, and without one the next tick shuts the gate for sends."""
    idle = Idle(Rig())
    assert idle.looks(200) == [(NOTHING, 0.5)]
    idle.may_write = False
    assert idle.looks(200, 200) == [(EVERYTHING, 0.5), (NOTHING, 0.5)]
    idle.may_write = True
    assert idle.looks(200, 200) == [(EVERYTHING, 0.5), (NOTHING, 0.5)]


@pytest.mark.parametrize(
    ("begin", "done"),
    [
        (
            lambda idle: setattr(idle.popping, "is_due", lambda now_ms, wall_ms: True),
            {"popping.tick", "popping.pops.tick"},
        ),
        (lambda idle: setattr(idle.pulls, "is_rechecking", True), {"handlers.pulls.recheck_some"}),
        (lambda idle: idle.watches.watches.waiting.update(a_watch=None), {"handlers.watches.respond_due"}),
        (lambda idle: setattr(idle.notices, "is_under_way", True), {"handlers.clients.notices.tick"}),
        (lambda idle: setattr(idle.sealer, "busy", True), {"services.sealer.advance"}),
        (lambda idle: setattr(idle.maintenance, "has_work", True), {"services.maintenance.tick"}),
        (lambda idle: setattr(idle.checks, "is_under_way", True), {"services.transaction_checks.tick"}),
    ],
    ids=["pops", "pulls to check again", "watches", "notices", "a seal", "maintenance", "checks of transactions"],
)
async def test_what_is_done_in_parts_goes_on_with_every_look(begin: Callable[[Idle], object], done: set[str]) -> None:
    idle = Idle(Rig())
    begin(idle)
    assert idle.looks(250, 250) == [(done, 0.5), (done, 0.5)]


async def test_without_a_lease_nothing_is_delivered_or_asked_of_producers() -> None:
    idle = Idle(Rig())
    idle.may_write = False
    idle.looks(250)
    idle.checks.is_under_way = True
    idle.popping.is_due = lambda now_ms, wall_ms: True
    assert idle.looks(250) == [({"popping.tick"}, 0.5)]


async def test_a_duty_with_work_that_fails_keeps_no_other_from_being_done() -> None:
    idle = Idle(Rig(failing={"services.sealer.advance": ZeroDivisionError("a defect")}))
    idle.sealer.busy = idle.checks.is_under_way = True
    assert idle.looks(250) == [({"services.sealer.advance", "services.transaction_checks.tick"}, 0.5)]


def test_what_is_due_between_two_ticks_of_an_idle_broker_has_a_timer_of_its_own() -> None:
    """Else delayed messages would be late where nothing else happens."""
    assert delay_runner._TICK_MS > _IDLE_TICK_MS + 1_000 * _IDLE_LOOK_S
