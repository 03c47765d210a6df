"""Tables saved by the way, with a worker thread that works when told to."""

from __future__ import annotations

import errno

from pyromq.broker.base.table_keeper import TableKeeper
from pyromq.model.topic import GroupConfig
from pyromq.store.tables.groups import GroupTable
from pyromq.testing import FaultyDisk, ManualClock
from tests.unit.broker.builders import ROOT
from tests.unit.broker.workers import HeldExecutor
from tests.unit.net.fakes import turn


class Rig:
    def __init__(self) -> None:
        self.disk, self.clock, self.worker = FaultyDisk(), ManualClock(), HeldExecutor()
        self.table = GroupTable.load(self.disk, ROOT)
        self.keeper = TableKeeper([self.table], self.worker, self.clock)

    def add(self, *names: str) -> None:
        for name in names:
            self.table.put(GroupConfig(group_name=name), 1)

    def saved(self) -> set[str]:
        return {name for name, _ in GroupTable.load(self.disk.after_crash(), ROOT).items()}


async def test_many_changes_cost_one_save_and_the_next_one_waits() -> None:
    rig = Rig()
    rig.keeper.tick()
    assert not rig.worker.waiting
    rig.add("a", "b", "c")
    rig.keeper.tick()
    rig.add("d")
    rig.keeper.tick()
    assert len(rig.worker.waiting) == 1
    await rig.worker.work()
    assert rig.saved() == {"a", "b", "c"}
    rig.keeper.tick()
    assert not rig.worker.waiting, "too soon"
    rig.clock.advance_ms(500)
    rig.keeper.tick()
    await rig.worker.work()
    assert rig.saved() == {"a", "b", "c", "d"} and not rig.table.unsaved


async def test_a_save_that_the_disk_refuses_is_tried_again() -> None:
    rig = Rig()
    rig.add("a")
    rig.keeper.tick()
    rig.disk.fail_at(rig.disk.operations + 1, errno.ENOSPC)
    await rig.worker.work()
    assert rig.table.unsaved
    rig.clock.advance_ms(500)
    rig.keeper.tick()
    await rig.worker.work()
    assert rig.saved() == {"a"}


async def test_a_slow_save_does_not_undo_a_later_one() -> None:
    rig = Rig()
    rig.add("a")
    rig.keeper.tick()
    rig.add("b")
    rig.table.save()
    await rig.worker.work()
    assert rig.saved() == {"a", "b"}


async def test_the_last_save_is_done_at_once() -> None:
    rig = Rig()
    rig.add("a")
    rig.keeper.save_now()
    await turn()
    assert rig.saved() == {"a"}
