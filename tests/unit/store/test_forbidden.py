"""A disk that was remounted read-only, or whose rights were taken: sends are refused with the reason, reads go on."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pyromq.errors import StoreReadOnlyError, UntrustedDiskError
from pyromq.model.topic import TopicConfig
from pyromq.store.maintenance import Maintenance
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import Flush, StoreSettings
from pyromq.store.tables.topics import TopicTable
from pyromq.testing import CrashMode, FaultyDisk, ManualClock
from pyromq.wire.record import Draft

ROOT = Path("/data")
REASONS = {errno.EROFS: "Read-only file system", errno.EACCES: "Permission denied", errno.EPERM: "not permitted"}


class Forbidden:
    """Every operation that changes something is refused from now on; at first syncs of what is open may pass."""

    def __init__(self, disk: FaultyDisk, code: int) -> None:
        self._code = code
        disk.before_each(self._refuse)

    def _refuse(self, kind: str) -> None:
        raise OSError(self._code, REASONS[self._code])


@pytest.fixture(params=list(Flush))
def settings(request: pytest.FixtureRequest) -> StoreSettings:
    return StoreSettings(
        flush=request.param, segment_bytes=4_096, queue_file_entries=8, index_slots=8, index_entries=40
    )


def draft(number: int) -> Draft:
    return Draft(topic="orders", queue_id=0, body=b"%700d" % number)


@pytest.mark.parametrize("code", REASONS)
def test_a_disk_that_may_not_be_written_any_more_keeps_what_was_acknowledged(
    code: int, settings: StoreSettings, caplog: pytest.LogCaptureFixture
) -> None:
    disk, clock = FaultyDisk(), ManualClock()
    store = MessageStore.open(ROOT, settings, disk=disk, clock=clock)
    maintenance = Maintenance(store, disk, clock)
    for number in range(7):
        store.append([draft(number)])
        store.flush()
    assert store.write_entries()
    Forbidden(disk, code)
    with pytest.raises(StoreReadOnlyError, match=REASONS[code]):
        store.append([draft(7)])
    with pytest.raises(UntrustedDiskError):
        store.append([draft(8)])
    for _ in range(3):
        clock.advance_ms(1_000)
        maintenance.tick()
    assert store.reader.read("orders", 0, 0).count == 7
    assert "store is read-only" in caplog.text
    store.close()
    assert "not closed cleanly" in caplog.text
    again = MessageStore.open(ROOT, settings, disk=disk.after_crash(CrashMode.KEEP), clock=clock)
    known = again.reader.range_of("orders", 0)
    assert known is not None and known.end == 7
    again.close()


@pytest.mark.parametrize("code", REASONS)
def test_a_store_that_may_not_be_written_does_not_open_and_says_what_to_check(
    code: int, settings: StoreSettings
) -> None:
    disk, clock = FaultyDisk(), ManualClock()
    MessageStore.open(ROOT, settings, disk=disk, clock=clock).close()
    Forbidden(disk, code)
    with pytest.raises(StoreReadOnlyError, match="check its owner and permissions"):
        MessageStore.open(ROOT, settings, disk=disk, clock=clock)
    assert not disk.is_locked(ROOT / "lock")


@pytest.mark.parametrize("code", REASONS)
def test_a_table_that_may_not_be_saved_is_refused_and_unchanged_on_disk(code: int) -> None:
    disk = FaultyDisk()
    topics = TopicTable.load(disk, ROOT)
    topics.put(TopicConfig(topic_name="orders"), 1)
    topics.save()
    Forbidden(disk, code)
    topics.put(TopicConfig(topic_name="more"), 2)
    with pytest.raises(StoreReadOnlyError, match=REASONS[code]):
        topics.save_or_undo(lambda: topics.remove("more", 3))
    assert topics.get("more") is None
    assert TopicTable.load(disk, ROOT).get("orders") is not None
