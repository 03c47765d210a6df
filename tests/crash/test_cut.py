"""A cut of the log that stops at every operation: the store opens, and the next attempt brings it to its end."""

from __future__ import annotations

import os
from random import Random

import pytest

from pyromq.testing import FaultyDisk, ManualClock
from pyromq.testing.faulty_disk import Crashed, CrashMode
from tests.crash.script import open_store
from tests.unit.store.test_copied_log import bytes_of, copy_of, feed, same
from tests.unit.store.test_cutting import cut, ends_of

EVERY = 1 if "PYROMQ_CRASH_ROUNDS" in os.environ else 3


def cut_and_open(disk: FaultyDisk, position: int) -> None:
    cut(disk, position)
    open_store(disk, ManualClock()).close()


@pytest.mark.parametrize("mode", list(CrashMode))
@pytest.mark.parametrize("torn", [False, True])
def test_a_crash_at_any_operation_of_a_cut_leaves_a_prefix_that_can_be_cut_again(mode: CrashMode, torn: bool) -> None:
    def cut_one() -> tuple[FaultyDisk, int, bytes]:
        disk = FaultyDisk()
        with open_store(disk, ManualClock()) as store:
            ends = ends_of(store, 8)
            return disk, ends[4], bytes_of(store)

    disk, position, whole = cut_one()
    before = disk.operations
    cut_and_open(disk, position)
    for operation in range(before + 1 + torn, disk.operations + 1, EVERY):
        disk, position, whole = cut_one()
        disk.crash_at(operation, torn=torn)
        try:
            cut_and_open(disk, position)
        except Crashed:
            pass
        disk = disk.after_crash(mode, Random(operation))
        with open_store(disk, ManualClock()) as store:
            found = bytes_of(store)
            assert len(found) >= position and whole.startswith(found), f"operation {operation}"
        cut_and_open(disk, position)
        with open_store(disk, ManualClock()) as store, copy_of(disk) as never:
            feed(never, whole[:position], 4096)
            same(store, never)
