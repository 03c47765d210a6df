"""A process that is killed leaves records in the page cache; the next opening of the store makes them durable first."""

from __future__ import annotations

import errno
import logging

import pytest

from pyromq.testing import CrashMode, FaultyDisk, ManualClock
from pyromq.wire.record import Draft
from tests.crash.script import open_store


def no_sync(kind: str) -> None:
    if kind == "sync":
        raise OSError(errno.EIO, "simulated")


def test_what_recovery_found_survives_a_power_cut_right_behind_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    disk, clock = FaultyDisk(), ManualClock()
    store = open_store(disk, clock)
    store.append([Draft(topic="orders", queue_id=0, body=b"written, never flushed")])
    disk.before_each(no_sync)
    store.close()  # as a killed process leaves it: nothing sealed, nothing synced
    disk.before_each(lambda kind: None)
    again = open_store(disk, clock)
    found = again.reader.range_of("orders", 0)
    assert found is not None and found.end == 1, "readers see it from now on"
    after = open_store(disk.after_crash(CrashMode.FORGET), clock)
    assert after.reader.range_of("orders", 0) == found
