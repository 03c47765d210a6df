"""What a critical read of the store found: retention, deletion, seals beside flushes, records without checksum."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyromq.broker.base.stats import Counters
from pyromq.broker.commit.touched import Touched
from pyromq.broker.commit.write_path import open_write_path
from pyromq.errors import MQError, StoreError, StoreReadOnlyError, UntrustedDiskError
from pyromq.store.log import log_walk
from pyromq.store.maintenance import Maintenance
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import StoreSettings
from pyromq.testing import CrashMode, FaultyDisk, ManualClock
from pyromq.testing.faulty_disk import FaultyFile
from pyromq.wire.batch import Batch
from pyromq.wire.frame import SerializeType
from pyromq.wire.record import Draft, encode_record, split_records
from tests.crash.script import ROOT, SMALL, draft, log_records, note, open_store, retain
from tests.unit.broker.builders import environment
from tests.unit.broker.workers import HeldThread

pytestmark = pytest.mark.usefixtures("quiet")

HOST = b"\x7f\x00\x00\x01" + (10911).to_bytes(4, "big")


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


def message(body: bytes, *, topic: str = "orders", queue_id: int = 0, **fields: Any) -> Draft:
    return Draft(topic=topic, queue_id=queue_id, body=body, **fields)


def put(store: MessageStore, *bodies: bytes, topic: str = "orders", queue_id: int = 0) -> list[int]:
    """Append and flush; their offsets."""
    placed = store.append([message(body, topic=topic, queue_id=queue_id) for body in bodies])
    store.flush()
    return [each.offset for each in placed]


def body_at(store: MessageStore, offset: int, *, topic: str = "orders", queue_id: int = 0) -> bytes | None:
    found = split_records(store.reader.read(topic, queue_id, offset, count_max=1).to_bytes())
    return found[0].body if found else None


# --- offsets given twice ---


def test_retention_of_files_behind_the_seal_and_a_crash_give_no_offset_twice(
    disk: FaultyDisk, clock: ManualClock
) -> None:
    store = open_store(disk, clock)
    put(store, b"a" * 1400, b"b" * 1400)
    put(store, b"c" * 1400, b"d" * 1400, topic="other")  # goes on in the second segment
    assert len(store.log.segments) == 2
    retain(store, 1)
    assert store.queues["orders", 0].next_offset == 2
    with open_store(disk.after_crash(CrashMode.KEEP), clock) as store:
        assert put(store, b"new") == [2], "a consumer that waits at offset 2 must get the next message"


@pytest.mark.parametrize("what", ["bit flip", "lost file", "smaller queue files"])
def test_a_queue_whose_messages_expired_keeps_its_offsets_when_its_file_is_lost(
    disk: FaultyDisk, clock: ManualClock, what: str
) -> None:
    settings = SMALL
    with open_store(disk, clock) as store:
        put(store, b"a" * 1400, b"b" * 1400)
        put(store, b"c" * 1400, b"d" * 1400, topic="other")
        retain(store, 1)
    path = next(path for path in disk.files() if "consumequeue/orders/0" in str(path))
    if what == "bit flip":
        disk.flip_bit(path, 13)
    elif what == "lost file":
        disk.remove(path)
    else:
        settings = dataclasses.replace(SMALL, queue_file_entries=4)
    with open_store(disk, clock, settings) as store:
        assert put(store, b"new") == [2], "the seal knows how far the queue had come"


# --- acknowledged after a failed flush ---


def test_a_second_flush_after_a_failed_one_does_not_pretend_to_have_worked(
    disk: FaultyDisk, clock: ManualClock
) -> None:
    store = open_store(disk, clock)
    store.append([message(b"a")])
    disk.fail_at(disk.operations + 1, errno.EIO)
    with pytest.raises(UntrustedDiskError):
        store.flush()
    with pytest.raises(UntrustedDiskError):
        store.flush()


def test_what_was_staged_when_the_flush_failed_is_refused_at_commit(disk: FaultyDisk, clock: ManualClock) -> None:
    store = open_store(disk, clock)
    store.append([message(b"a")])
    store.stage(message(b"b"))
    disk.fail_at(disk.operations + 1, errno.EIO)
    with pytest.raises(UntrustedDiskError):
        store.flush()
    with pytest.raises(StoreReadOnlyError):
        store.commit()


class Sender:
    """Stages as the broker does and keeps the responses."""

    def __init__(self, store: MessageStore, clock: ManualClock) -> None:
        self.store, self.flusher, self.seen = store, HeldThread(), set[tuple[str, int]]()
        path = open_write_path(environment(clock=clock), store, self.flusher, Counters(), lambda *_: None)
        path.readers.join(self)
        self.group_commit = path.group_commit
        self.responses: list[bytes] = []

    def wake(self, queues: Touched) -> None:
        self.seen.update(queues.names())

    def send(self, body: bytes, *, wait: bool = True) -> None:
        self.store.stage(message(body))
        request = SimpleNamespace(
            code=310, header=None, is_oneway=False, correlation_id=1, serialize_type=SerializeType.JSON
        )
        sent = self.responses.append
        connection = SimpleNamespace(send=sent, send_now=lambda response, count: sent(response))
        self.group_commit.staged((connection, request, b"ok " + body), ("orders", 0), wait=wait)  # type: ignore[arg-type]

    async def settle(self) -> None:
        for _ in range(6):
            await asyncio.sleep(0)


async def flush_under_way(disk: FaultyDisk, clock: ManualClock) -> Sender:
    """Of a store with one message, ``a``; the worker runs it when told to."""
    sender = Sender(open_store(disk, clock), clock)
    sender.send(b"a")
    await sender.settle()
    return sender


def test_a_seal_during_a_flush_does_not_leave_senders_and_readers_waiting(disk: FaultyDisk, clock: ManualClock) -> None:
    async def scenario() -> None:
        sender = await flush_under_way(disk, clock)
        sender.send(b"b")  # committed while the flush for "a" runs
        await sender.settle()
        assert not sender.store.seal(), "while a flush is under way no other component syncs the log"
        sender.flusher.work_unheard()
        await sender.settle()
        assert sender.responses == [b"ok a"]
        sender.flusher.work_unheard()
        await sender.settle()
        assert sender.responses == [b"ok a", b"ok b"]
        await asyncio.wait_for(sender.group_commit.drain(), 60)

    asyncio.run(scenario())


def test_a_send_staged_when_a_flush_fails_is_refused_and_does_not_keep_the_broker_from_stopping(
    disk: FaultyDisk, clock: ManualClock
) -> None:
    async def scenario() -> None:
        sender = await flush_under_way(disk, clock)
        disk.fail_at(disk.operations + 1, errno.EIO)
        sender.flusher.work_unheard()  # its callback is queued …
        sender.send(b"b")  # … when these arrive
        sender.send(b"c", wait=False)
        await sender.settle()
        assert len(sender.responses) == 3
        assert not any(response.startswith(b"ok") for response in sender.responses)
        await asyncio.wait_for(sender.group_commit.drain(), 60)

    asyncio.run(scenario())


def test_a_flush_that_succeeds_after_the_store_became_untrusted_acknowledges_nothing(
    disk: FaultyDisk, clock: ManualClock
) -> None:
    async def scenario() -> None:
        sender = await flush_under_way(disk, clock)
        sender.store.health.untrust("queue files could not be synced")
        sender.flusher.work_unheard()
        await sender.settle()
        assert sender.responses and not any(response.startswith(b"ok") for response in sender.responses)

    asyncio.run(scenario())


def test_a_seal_shows_readers_nothing_that_a_flush_beside_it_failed_to_write(
    disk: FaultyDisk, clock: ManualClock
) -> None:
    """The other way round: the worker got the error, its callback has not run yet, and the seal's fsync succeeds."""
    store = open_store(disk, clock)
    store.append([message(b"a")])
    job = store.flushes.start()
    assert job is not None
    disk.fail_at(disk.operations + 1, errno.EIO)
    with pytest.raises(OSError, match="simulated"):
        job.run()
    store.seal()
    assert body_at(store, 0) is None
    assert store.seals.position == 0


# --- retention ---


def test_a_log_file_that_could_not_be_deleted_makes_no_gap(disk: FaultyDisk, clock: ManualClock) -> None:
    with open_store(disk, clock) as store:
        for number in range(12):
            put(store, b"%d" % number + b"x" * 1400)
        assert len(store.log.segments) > 4
        store.seal()
        assert store.delete_oldest(1) == 1
        disk.fail_at(disk.operations + 1, errno.EIO)
        with pytest.raises(OSError, match="simulated"):
            store.removal.run()
        retain(store, 1)
    with open_store(disk, clock) as store:
        assert body_at(store, 11)


def test_retention_during_a_flush_leaves_the_store_trusted(tmp_path: Path, clock: ManualClock) -> None:
    with MessageStore.open(tmp_path / "store", SMALL, clock=clock) as store:
        store.append([message(b"%d" % number * 1400) for number in range(4)])
        job = store.flushes.start()
        assert job is not None and len(job.files) == 2
        retain(store, 1)  # the disk is nearly full
        job.run()  # on a worker, at the same time: not on a closed descriptor, or one that is another file by now


def test_no_more_is_deleted_by_force_than_the_disk_needs(clock: ManualClock) -> None:
    disk = FaultyDisk(capacity_bytes=1 << 30, clock_ms=clock.now_ms)
    settings = dataclasses.replace(SMALL, delete_files_max=2)
    store = open_store(disk, clock, settings)
    for number in range(40):
        put(store, b"x" * 1400 + b"%d" % number)
    store.seal()
    before = len(store.log.segments)
    used = disk.usage(ROOT).used_bytes
    disk.capacity_bytes = int(used / 0.87)  # over 85 %: one pair of files is enough to get below
    maintenance = Maintenance(store, disk, clock)
    for _ in range(9):
        maintenance.tick()
        clock.advance_ms(100)
    assert before - len(store.log.segments) <= 2, "the disk is looked at once a second, but files go at every tick"


# --- appending ---


def test_a_refused_message_does_not_lend_its_time_to_the_next(disk: FaultyDisk, clock: ManualClock) -> None:
    store = open_store(disk, clock)
    with pytest.raises(MQError):
        store.stage(message(b"x" * 5000))
    clock.advance_ms(3_600_000)
    store.stage(message(b"an hour later"))
    store.commit()
    assert log_records(store)[0].stored_ms == clock.now_ms()


def test_a_batch_with_one_bad_message_is_refused_as_a_whole(disk: FaultyDisk, clock: ManualClock) -> None:
    store = open_store(disk, clock)
    with pytest.raises(MQError):
        store.stage_batch(message(b""), Batch([b"good", b"bad"], [b"", b""], [0, 1 << 40]))
    store.commit()
    assert log_records(store) == []


def test_a_refused_append_leaves_what_others_have_staged(disk: FaultyDisk, clock: ManualClock) -> None:
    store = open_store(disk, clock)
    placed = store.stage(message(b"of another request, which will be answered after the commit"))
    with pytest.raises(MQError):
        store.append([message(b"x" * 5000)])
    store.commit()
    store.flush()
    assert body_at(store, placed.offset) is not None


def test_too_many_open_files_for_a_moment_do_not_stop_writing_for_good(disk: FaultyDisk, clock: ManualClock) -> None:
    store = open_store(disk, clock)
    put(store, b"a" * 1400, b"b" * 1400)
    disk.fail_at(disk.operations + 1, errno.EMFILE)  # sockets and files share the limit
    with pytest.raises(StoreReadOnlyError):
        store.append([message(b"c" * 1400)])
    maintenance = Maintenance(store, disk, clock)
    clock.advance_ms(2_000)
    maintenance.tick()
    assert store.health.trusted
    put(store, b"c" * 1400)


def test_a_failed_append_that_could_not_be_wiped_is_not_served_later(disk: FaultyDisk, clock: ManualClock) -> None:
    store = open_store(disk, clock)
    put(store, b"first")
    refused = [message(b"refused-%d" % number) for number in range(8)]
    disk.fail_at(disk.operations + 1, errno.ENOSPC)
    disk.fail_at(disk.operations + 2, errno.ENOSPC)  # the wipe: a copy-on-write file system needs space for it
    with pytest.raises(StoreReadOnlyError):
        store.append(refused)
    Maintenance(store, disk, clock).tick()
    if store.health.writable:
        put(store, b"written-0")
    with open_store(disk.after_crash(CrashMode.KEEP), clock) as store:
        assert not [record.body for record in log_records(store) if record.body.startswith(b"refused")]


# --- deleting a topic ---


def test_a_topic_whose_only_message_was_refused_can_be_deleted(disk: FaultyDisk, clock: ManualClock) -> None:
    store = open_store(disk, clock)
    with pytest.raises(MQError):
        store.append([message(b"x" * 5000, topic="new")])
    store.delete_topic("new")


def test_a_topic_folder_with_a_strange_file_can_be_deleted(disk: FaultyDisk, clock: ManualClock) -> None:
    store = open_store(disk, clock)
    put(store, b"a")
    disk.write(ROOT / "consumequeue" / "orders" / "notes.txt", b"mine")
    store.delete_topic("orders")


def test_a_deletion_that_cannot_be_recorded_is_not_reported_as_done(disk: FaultyDisk, clock: ManualClock) -> None:
    store = open_store(disk, clock)
    put(store, b"a")
    store.seal()
    probe = FaultyDisk()
    other = open_store(probe, clock)
    put(other, b"a")
    other.seal()
    start = probe.operations
    other.delete_topic("orders")
    seal_write = start + probe.log[start:].index("create") + 1
    disk.fail_at(seal_write, errno.ENOSPC)
    try:
        store.delete_topic("orders")
    except MQError:
        return
    with open_store(disk.after_crash(CrashMode.FORGET), clock) as store:
        assert ("orders", 0) not in store.queues, "it was reported as deleted, and is there again after a crash"


def test_a_deleted_topic_does_not_come_back_when_another_queue_has_to_be_rebuilt(
    disk: FaultyDisk, clock: ManualClock
) -> None:
    store = open_store(disk, clock)
    put(store, b"deleted")
    put(store, b"kept", topic="other")
    store.seal()
    store.delete_topic("orders")
    disk = disk.after_crash(CrashMode.FORGET)  # the removal of the folder was never synced
    disk.flip_bit(next(path for path in disk.files() if "consumequeue/other/0" in str(path)), 13)
    with open_store(disk, clock) as store:
        assert body_at(store, 0, topic="other") == b"kept"
        assert body_at(store, 0) is None


def test_a_folder_whose_name_could_not_be_made_durable_is_made_again(clock: ManualClock) -> None:
    """Else everything in it is lost with its name, however well it is synced itself."""
    for number in range(1, 60):
        disk = FaultyDisk()
        store = open_store(disk, clock)
        disk.fail_at(disk.operations + number, errno.ENOSPC)
        with contextlib.suppress(StoreError):
            store.append([message(b"refused, perhaps")])
        if not store.health.trusted:
            continue
        if not store.health.writable and store.write_entries():
            store.health.space_returned()
        with contextlib.suppress(StoreError):  # it may be this one that fails
            (offset,) = put(store, b"acknowledged")
            assert body_at(open_store(disk.after_crash(CrashMode.FORGET), clock), offset) == b"acknowledged"


# --- recovery ---


def test_a_message_behind_a_filler_survives_the_loss_of_its_queue_file(disk: FaultyDisk, clock: ManualClock) -> None:
    def queue_files() -> list[Path]:
        return [path for path in disk.files() if "consumequeue/orders/0" in str(path)]

    with open_store(disk, clock) as store:
        for number in range(10):
            put(store, b"message-%d" % number)
        lost = next(store.reader.entries("orders", 0, 7, 1))[0]
    disk.flip_bit(ROOT / "commitlog" / f"{0:020d}", (lost + 90) * 8)
    for path in queue_files():
        disk.remove(path)
    with open_store(disk, clock) as store:  # entry 7, the last of the first file, becomes a filler
        assert [body_at(store, offset) for offset in (6, 8, 9)] == [b"message-6", b"message-8", b"message-9"]
    disk.remove(queue_files()[1])
    with open_store(disk, clock) as store:
        assert [body_at(store, offset) for offset in (6, 8, 9)] == [b"message-6", b"message-8", b"message-9"]


def foreign_store(
    disk: FaultyDisk, drafts: list[tuple[Draft, int]], base: int = 0, settings: StoreSettings = SMALL
) -> None:
    """One segment as RocketMQ writes it: no checksums, no seal; each draft with its queue offset."""
    data = b""
    for each, offset in drafts:
        position = base + len(data)
        data += encode_record(
            each, offset=offset, position=position, stored_ms=1_700_000_000_000, store_host=HOST, checksum=False
        )
    disk.create(ROOT / "commitlog" / f"{base:020d}", settings.segment_bytes).write_at(0, data)
    disk.write(ROOT / "abort", b"1")


def test_a_wrong_offset_in_an_unchecked_record_does_not_make_recovery_write_without_bound(
    disk: FaultyDisk, clock: ManualClock
) -> None:
    base = 4096 << 20  # 4 GiB into the log: a gap of up to 47 million entries is believed
    foreign_store(disk, [(message(b"a"), 0), (message(b"b"), 1 << 22)], base)
    bound = disk.operations + 5_000

    def stop_when_too_much(_: str) -> None:
        assert disk.operations < bound, "one flipped bit makes recovery write 80 MB of fillers, all held in memory"

    disk.before_each(stop_when_too_much)
    open_store(disk, clock)


def test_a_wrong_offset_in_an_unchecked_record_does_not_hide_the_messages_before_it(
    disk: FaultyDisk, clock: ManualClock
) -> None:
    foreign_store(disk, [(message(b"%d" % n), n if n != 6 else 2) for n in range(8)])  # 6 = 110, 2 = 010
    with open_store(disk, clock) as store:
        assert [body_at(store, offset) for offset in range(6)] == [b"%d" % n for n in range(6)]


def test_a_property_of_rocketmq_that_ends_in_a_zero_does_not_end_its_log(disk: FaultyDisk, clock: ManualClock) -> None:
    foreign_store(disk, [(message(b"0", properties=b"k\x01v!"), 0), (message(b"1"), 1)])
    log = ROOT / "commitlog" / f"{0:020d}"
    disk.open(log).write_at(disk.read(log).index(b"k\x01v!") + 3, b"\0")  # RocketMQ stores any string; no 0x02 ends it
    with open_store(disk, clock) as store:
        assert [body_at(store, offset) for offset in range(2)] == [b"0", b"1"]


def test_a_log_without_checksums_is_read_about_once_by_recovery(
    disk: FaultyDisk, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = dataclasses.replace(SMALL, segment_bytes=1 << 20, queue_file_entries=2_000)
    foreign_store(disk, [(message(b"x" * 900), n) for n in range(1_000)], settings=settings)
    read_bytes, read_at = [0], FaultyFile.read_at

    def counted(self: FaultyFile, at: int, size: int) -> bytes:
        data = read_at(self, at, size)
        read_bytes[0] += len(data)
        return data

    monkeypatch.setattr(FaultyFile, "read_at", counted)
    with open_store(disk, clock, settings):
        pass
    assert read_bytes[0] < 20 << 20, f"{read_bytes[0] >> 20} MiB were read from a log of 1 MiB"


def test_without_a_seal_the_noted_flushed_position_still_tells_damage_from_a_crash(
    disk: FaultyDisk, clock: ManualClock
) -> None:
    store = open_store(disk, clock)
    for number in range(6):
        put(store, b"message-%d" % number)
    note(store)
    disk = disk.after_crash(CrashMode.KEEP)
    for path in [path for path in disk.files() if path.name.startswith("pyromq-seal")]:
        disk.remove(path)
    disk.flip_bit(ROOT / "commitlog" / f"{0:020d}", 90 * 8)
    with open_store(disk, clock) as store:
        assert body_at(store, 5) == b"message-5"


def test_a_seal_covers_only_index_entries_that_it_synced(disk: FaultyDisk, clock: ManualClock) -> None:
    store = open_store(disk, clock)
    store.append([draft(number) for number in range(1, 5)])
    store.flush()
    store.indexer.index_all()
    store.seal()
    store.append([draft(6)])
    store.flush()
    header_write = disk.operations + 3  # entries, one slot, header
    disk.fail_at(header_write, errno.ENOSPC)
    store.indexer.index_all()
    store.health.space_returned()
    store.indexer.index_all()
    assert store.seal()
    with open_store(disk.after_crash(CrashMode.FORGET), clock) as store:
        assert not store.recovered.rebuilt


def test_a_lost_last_file_that_was_noted_as_flushed_is_reported_and_its_offsets_are_not_used_again(
    disk: FaultyDisk, clock: ManualClock
) -> None:
    store = open_store(disk, clock)
    offsets = [put(store, b"x" * 1400)[0] for _ in range(4)]
    note(store)
    disk = disk.after_crash(CrashMode.KEEP)
    disk.remove(ROOT / "commitlog" / f"{SMALL.segment_bytes:020d}")
    with open_store(disk, clock) as store:
        assert store.recovered.damaged, "acknowledged messages are gone and the report says that all is well"
        assert put(store, b"new")[0] > offsets[-2]


def test_a_queue_that_ends_with_a_file_and_whose_messages_expired_keeps_its_offsets(
    disk: FaultyDisk, clock: ManualClock
) -> None:
    store = open_store(disk, clock)
    for _ in range(SMALL.queue_file_entries):  # exactly one queue file
        put(store, b"a" * 200)
    put(store, b"c" * 1400, b"d" * 1400, topic="other")
    assert retain(store, 1) == 1
    store.append([message(b"not flushed")])  # begins the second queue file
    for _ in range(3):
        disk = disk.after_crash(CrashMode.FORGET)
        store = open_store(disk, clock)
        assert store.queues["orders", 0].next_offset == SMALL.queue_file_entries
    assert put(store, b"new") == [SMALL.queue_file_entries]


def test_after_a_crash_no_message_waits_until_the_whole_index_is_made_anew(
    disk: FaultyDisk, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_walk, "_SCAN_BYTES", 512)
    store = open_store(disk, clock)
    for number in range(20):
        store.append([message(b"x" * 300, properties=b"KEYS\x01K%d\x02" % number)])
    store.flush()
    store = open_store(disk.after_crash(CrashMode.KEEP), clock, dataclasses.replace(SMALL, index_backlog_max=1))
    behind = [store.end_position - store.indexer.position]
    while behind[-1]:
        store.append([message(b"new", properties=b"KEYS\x01later\x02")])
        behind.append(store.end_position - store.indexer.position)
    assert len(behind) > 5
    store.flush()
    assert store.find("orders", "K0") and store.find("orders", "later")
