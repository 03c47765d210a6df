from __future__ import annotations

from pathlib import Path

from pyromq.store.timers.wheel import TimerWheel, WheelSlot
from pyromq.testing import FaultyDisk

SLOTS = 50_000


def test_seconds_far_apart_are_found_between_blank_ones() -> None:
    wheel = TimerWheel(FaultyDisk(), Path("/store/timerwheel"), SLOTS)
    begin = 3 * SLOTS - 5
    written, changed = [begin + 3, begin + 16_390, begin + 40_000], [begin + 20_000, begin + 49_999]
    for second in written:
        wheel.put(WheelSlot(second, 7, 7, 1))
    wheel.write()
    for second in changed:  # not in the file yet
        wheel.put(WheelSlot(second, 9, 9, 1))
    found = [slot.second for slot in wheel.occupied(begin, begin + SLOTS)]
    assert found == sorted(written + changed)
    assert [slot.second for slot in wheel.occupied(begin + 4, begin + 20_000)] == [begin + 16_390]
    wheel.close()
