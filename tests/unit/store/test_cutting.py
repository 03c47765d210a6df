"""A log that is cut: what lies behind is kept aside and counted, and the store goes on as if it had never been."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.errors import PositionOutOfRangeError
from pyromq.store.cutting import cut_log, read_cut_reports
from pyromq.store.message_store import MessageStore
from pyromq.testing import FaultyDisk, ManualClock
from tests.crash.script import SMALL, draft, open_store, retain
from tests.unit.store.test_copied_log import bytes_of, copy_of, feed, same

ROOT = Path("/store")


def ends_of(store: MessageStore, groups: int) -> list[int]:
    """Where the log ended after each of some groups of messages."""
    ends = [0]
    for group in range(groups):
        store.append([draft(group * 5 + number) for number in range(5)])
        store.flush()
        if group % 3 == 2:
            store.seal()
        ends.append(store.end_position)
    return ends


def cut(disk: FaultyDisk, position: int) -> int:
    """How many messages were behind it."""
    report = cut_log(disk, ROOT, SMALL, ManualClock(), position, number=4, reason="a test")
    return report.messages if report else 0


@pytest.mark.parametrize("kept", range(9))
def test_a_cut_store_is_the_one_that_never_had_more(kept: int) -> None:
    disk, clock = FaultyDisk(), ManualClock()
    with open_store(disk, clock) as store:
        ends = ends_of(store, 8)
        whole = bytes_of(store)
    clock.advance_ms(1)
    assert cut(disk, ends[kept]) == (8 - kept) * 5
    with open_store(disk, clock) as store, copy_of(disk) as never:
        assert store.end_position == ends[kept] and bytes_of(store) == whole[: ends[kept]]
        feed(never, whole[: ends[kept]], 4096)
        same(store, never)
        feed(store, whole, 4096)  # it goes on as a replica
        feed(never, whole, 4096)
        store.flush()
        same(store, never)


def test_what_was_cut_is_kept_byte_for_byte_and_reported() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    with open_store(disk, clock) as store:
        ends = ends_of(store, 8)
        whole = bytes_of(store)
    cut(disk, ends[3])
    (report,) = read_cut_reports(disk, ROOT)
    assert (report.position, report.messages, report.number) == (ends[3], 25, 4)
    assert sum(report.topics.values()) == 25 and report.topics.keys() == {"orders", "%RETRY%billing"}
    found = b""
    for name in disk.names(Path(report.folder)):
        if name.isdecimal():
            assert whole.startswith(disk.read(Path(report.folder) / name).rstrip(b"\0"), int(name))
            found += disk.read(Path(report.folder) / name)
    assert b"message-39;" in found and b"message-14;" not in found


def test_a_log_that_does_not_go_so_far_is_left_alone() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    with open_store(disk, clock) as store:
        end = ends_of(store, 2)[-1]
    assert cut(disk, end) == cut(disk, end + 10_000) == 0
    assert cut_log(disk, Path("/empty"), SMALL, clock, 0, number=1, reason="") is None
    assert read_cut_reports(disk, ROOT) == []
    with open_store(disk, clock) as store:
        assert store.recovered.clean and store.end_position == end


def test_a_cut_before_the_beginning_of_the_log_is_refused() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    with open_store(disk, clock) as store:
        ends_of(store, 10)
        assert retain(store, 2) == 2
        end = store.end_position
    with pytest.raises(PositionOutOfRangeError):
        cut(disk, 100)
    with open_store(disk, clock) as store:
        assert store.end_position == end


def test_a_damaged_report_hides_no_other() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    with open_store(disk, clock) as store:
        ends = ends_of(store, 8)
    cut(disk, ends[6])
    cut(disk, ends[5])
    first, second = read_cut_reports(disk, ROOT)
    disk.write(Path(first.folder) / "report.json", b"{")
    assert read_cut_reports(disk, ROOT) == [second]
