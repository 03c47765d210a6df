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
from pyromq.broker.duties import Duties
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


async def test_a_broker_whose_log_does_not_grow_ticks_less_often_unless_a_send_waits_or_a_group_pops() -> None:
    rig = Rig()
    store, pressure = SimpleNamespace(end_position=100), SimpleNamespace(waiting_for_disk=0, waiting_for_replicas=0)
    path, table = SimpleNamespace(store=store, pressure=pressure), SimpleNamespace(queues={})
    popping = SimpleNamespace(pops=SimpleNamespace(table=table))
    rig.duties._parts = cast(Parts, SimpleNamespace(write_path=path, popping=popping))
    pauses = []
    for grows_by, waiting in ((0, 0), (0, 0), (0, 0), (1, 0), (0, 1), (0, 1), (0, 0), (0, 0)):
        store.end_position += grows_by
        pressure.waiting_for_replicas = waiting
        pauses.append(rig.duties.pause_s())
        rig.clock.advance_ms(500)
    assert pauses == [0.1, 0.1, 0.25, 0.1, 0.1, 0.1, 0.1, 0.25]
    table.queues["a group"] = object()
    assert rig.duties.pause_s() == 0.1
