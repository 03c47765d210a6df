from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from pyromq.errors import (
    DiskFullError,
    InvalidNameError,
    LocalProtocolError,
    MessageTooLargeError,
    PositionOutOfRangeError,
    PropertiesTooLargeError,
    StoreClosedError,
    StoreInUseError,
    UntrustedDiskError,
)
from pyromq.store import queue_scan
from pyromq.store.message_store import MessageStore
from pyromq.store.read_result import Boundary, ReadStatus
from pyromq.store.sealing.seal import load_seal, save_seal
from pyromq.store.settings import Flush, StoreSettings
from pyromq.testing import CrashMode, FaultyDisk, ManualClock
from pyromq.wire.batch import Batch
from pyromq.wire.flags import SysFlag
from pyromq.wire.java_hash import tag_hash
from pyromq.wire.properties import encode_properties
from pyromq.wire.record import Draft, split_records

ROOT = Path("/data")
SETTINGS = StoreSettings(
    segment_bytes=4096, queue_file_entries=8, index_slots=16, index_entries=64, body_bytes_max=3000
)


def message(
    number: int = 0, *, topic: str = "orders", queue_id: int = 0, sys_flag: int = 0, **properties: str
) -> Draft:
    body = b"body %d" % number
    return Draft(topic=topic, queue_id=queue_id, body=body, properties=encode_properties(properties), sys_flag=sys_flag)


class Bench:
    """A store on a disk in memory with a clock in hand."""

    def __init__(self, settings: StoreSettings = SETTINGS) -> None:
        self.clock, self.disk, self.settings = ManualClock(), FaultyDisk(), settings
        self.store = self.open()

    def open(self) -> MessageStore:
        return MessageStore.open(ROOT, self.settings, disk=self.disk, clock=self.clock)

    def reopen(self) -> MessageStore:
        self.store.close()
        self.store = self.open()
        return self.store

    def send(self, *drafts: Draft) -> list[int]:
        placed = self.store.append(drafts)
        self.store.flush()
        return [each.offset for each in placed]

    def bodies(self, offset: int = 0, *, topic: str = "orders", queue_id: int = 0) -> list[bytes]:
        result = self.store.reader.read(topic, queue_id, offset)
        return [record.body for record in split_records(result.to_bytes())]


@pytest.fixture
def bench() -> Bench:
    return Bench()


# --- appending ---


def test_messages_of_a_queue_get_consecutive_offsets(bench: Bench) -> None:
    assert bench.send(message(0), message(1), message(2, queue_id=1)) == [0, 1, 0]
    assert bench.send(message(3)) == [2]
    assert bench.bodies() == [b"body 0", b"body 1", b"body 3"]
    assert bench.bodies(queue_id=1) == [b"body 2"]


def test_what_is_staged_and_not_committed_does_not_exist(bench: Bench) -> None:
    bench.store.stage(message(0))
    assert bench.store.reader.read("orders", 0, 0).status is ReadStatus.NO_MESSAGE_IN_QUEUE
    bench.store.commit()
    bench.store.flush()
    assert bench.bodies() == [b"body 0"]


def test_a_reader_sees_nothing_that_is_not_durable_yet(bench: Bench) -> None:
    bench.store.append([message(0)])
    assert bench.store.reader.range_of("orders", 0) == (0, 0)
    with pytest.raises(PositionOutOfRangeError):
        bench.store.reader.record_at(0)
    bench.store.flush()
    assert bench.store.reader.range_of("orders", 0) == (0, 1)
    assert bench.bodies() == [b"body 0"]


def test_with_async_flush_a_reader_sees_what_is_written(bench: Bench) -> None:
    bench = Bench(StoreSettings(flush=Flush.ASYNC, segment_bytes=4096))
    bench.store.append([message(0)])
    assert bench.bodies() == [b"body 0"]


def test_an_illegal_message_in_a_group_leaves_no_trace_of_the_others(bench: Bench) -> None:
    with pytest.raises(MessageTooLargeError):
        bench.store.append([message(0), Draft(topic="orders", queue_id=0, body=b"x" * 3001)])
    assert bench.send(message(1)) == [0]
    assert bench.bodies() == [b"body 1"]


@pytest.mark.parametrize(
    ("draft", "error", "text"),
    [
        (Draft(topic="orders", queue_id=0, body=b"x" * 3001), MessageTooLargeError, "body has 3001 bytes"),
        (
            Draft(topic="orders", queue_id=0, body=b"", properties=b"a\x01" + b"b" * 32_745 + b"\x02"),
            PropertiesTooLargeError,
            "properties with their checksum",
        ),
        (Draft(topic="../etc", queue_id=0, body=b""), InvalidNameError, "only the characters"),
        (Draft(topic="a\0b", queue_id=0, body=b""), InvalidNameError, "only the characters"),
        (Draft(topic="", queue_id=0, body=b""), InvalidNameError, "blank"),
        (Draft(topic="x" * 128, queue_id=0, body=b""), InvalidNameError, "at most 127"),
        (Draft(topic="%RETRY%" + "x" * 249, queue_id=0, body=b""), InvalidNameError, "at most 255"),
        (Draft(topic="orders", queue_id=-1, body=b""), LocalProtocolError, "queue id -1"),
        (Draft(topic="orders", queue_id=1 << 31, body=b""), LocalProtocolError, "queue id"),
        (Draft(topic="orders", queue_id=0, body=b"", flag=1 << 40), LocalProtocolError, "does not fit"),
    ],
)
def test_a_message_beyond_a_limit_is_refused_and_nothing_else_is_disturbed(
    bench: Bench, draft: Draft, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        bench.store.append([draft])
    assert bench.send(message(1)) == [0]
    assert all(path.is_relative_to(ROOT) for path in bench.disk.files())


def test_a_long_retry_topic_is_stored_as_version_two(bench: Bench) -> None:
    topic = "%RETRY%" + "g" * 200
    bench.send(message(7, topic=topic))
    bench.reopen()
    assert bench.bodies(topic=topic) == [b"body 7"]


def test_a_record_that_no_segment_can_hold_is_refused() -> None:
    bench = Bench(StoreSettings(segment_bytes=4096, body_bytes_max=1 << 20))
    with pytest.raises(MessageTooLargeError, match=r"record has .* at most 4088"):
        bench.send(Draft(topic="orders", queue_id=0, body=b"x" * 4000))


def batch_of(*bodies: bytes) -> Batch:
    return Batch(list(bodies), [b""] * len(bodies), [0] * len(bodies))


def test_a_batch_lies_in_one_segment_or_moves_on_as_a_whole(bench: Bench) -> None:
    bench.send(Draft(topic="orders", queue_id=0, body=b"x" * 2500))
    placed = bench.store.stage_batch(message(0), batch_of(*[b"y" * 500] * 4))
    bench.store.commit()
    bench.store.flush()
    assert placed.offset == 1
    assert placed.positions[0] == 4096
    assert placed.positions[1:] == [at + size for at, size in zip(placed.positions, placed.sizes, strict=True)][:-1]
    assert len(bench.bodies()) == 5
    bench.reopen()
    assert len(bench.bodies()) == 5


def test_a_batch_with_an_illegal_message_is_refused_whole(bench: Bench) -> None:
    with pytest.raises(MessageTooLargeError):
        bench.store.stage_batch(message(0), batch_of(b"x", b"x" * 3001))
    with pytest.raises(MessageTooLargeError, match="batch has"):
        bench.store.stage_batch(message(0), batch_of(b"x" * 2900, b"x" * 2900))
    with pytest.raises(PropertiesTooLargeError):
        bench.store.stage_batch(message(0), Batch([b"x", b"x"], [b"", b"a\x01" + b"b" * 32_760 + b"\x02"], [0, 0]))
    for shared, batch in ((message(0), batch_of()), (message(0, sys_flag=4), batch_of(b"x"))):
        with pytest.raises(LocalProtocolError, match="a batch needs at least one message"):
            bench.store.stage_batch(shared, batch)
    with pytest.raises(LocalProtocolError, match="does not fit in a record"):
        bench.store.stage_batch(msgspec.structs.replace(message(0), born_ms=1 << 64), batch_of(b"x"))
    bench.store.commit()
    assert bench.send(message(1)) == [0]


def test_prepared_and_rolled_back_messages_take_no_place_in_their_queue(bench: Bench) -> None:
    bench.send(message(0, sys_flag=SysFlag.PREPARED, UNIQ_KEY="prepared"), message(1, sys_flag=SysFlag.COMMIT))
    bench.send(message(2, sys_flag=SysFlag.ROLLBACK, UNIQ_KEY="back"), message(3))
    assert bench.bodies() == [b"body 1", b"body 3"]
    assert len(bench.store.find("orders", "prepared")) == 1
    assert bench.store.find("orders", "back") == []


def test_the_queue_of_delay_levels_holds_times_of_delivery(bench: Bench) -> None:
    now = bench.clock.now_ms()
    bench.send(
        message(0, topic="SCHEDULE_TOPIC_XXXX", DELAY="3", TAGS="TagA"),
        message(1, topic="SCHEDULE_TOPIC_XXXX", DELAY="99"),
        message(2, topic="SCHEDULE_TOPIC_XXXX", DELAY="0"),
    )
    entries = bench.store.reader.entries("SCHEDULE_TOPIC_XXXX", 0, 0, 3)
    assert [due_ms - now for _, _, due_ms in entries] == [10_000, 7_200_000, 1_000]


# --- reading ---


def test_reads_outside_the_queue_say_where_it_is(bench: Bench) -> None:
    bench.send(*[message(n) for n in range(5)])
    read = bench.store.reader.read
    assert read("unknown", 0, 3).status is ReadStatus.NO_MATCHED_LOGIC_QUEUE
    assert (read("orders", 0, 5).status, read("orders", 0, 5).next_offset) == (ReadStatus.OFFSET_OVERFLOW_ONE, 5)
    assert (read("orders", 0, 9).status, read("orders", 0, 9).next_offset) == (ReadStatus.OFFSET_OVERFLOW_BADLY, 5)
    assert (read("orders", 0, -1).status, read("orders", 0, -1).next_offset) == (ReadStatus.OFFSET_TOO_SMALL, 0)


def test_a_read_ends_at_the_count_the_bytes_or_the_file_and_gives_at_least_one(bench: Bench) -> None:
    bench.send(*[Draft(topic="orders", queue_id=0, body=b"x" * 400) for _ in range(12)])
    read = bench.store.reader.read
    assert read("orders", 0, 0, count_max=3).count == 3
    assert read("orders", 0, 0, bytes_max=1200).count == 2
    assert read("orders", 0, 0, bytes_max=1).count == 1
    assert read("orders", 0, 0, count_max=32).count == 8, "one queue file"
    assert read("orders", 0, 8, count_max=32).count == 4


def test_who_says_how_many_bytes_it_takes_is_not_limited_in_number() -> None:
    bench = Bench(StoreSettings(segment_bytes=65536, read_count_max=2, cold_read_count_max=1, read_bytes_max=2600))
    bench.send(*[Draft(topic="orders", queue_id=0, body=b"x" * 400) for _ in range(8)])
    read = bench.store.reader.read
    assert read("orders", 0, 0, count_max=8).count == 2
    assert read("orders", 0, 0, count_max=3, bytes_max=1 << 20).count == 3
    assert read("orders", 0, 0, count_max=1 << 30, bytes_max=1 << 20).count == 5, "the store's limit of bytes holds"


def test_cold_records_are_read_in_smaller_portions() -> None:
    bench = Bench(StoreSettings(segment_bytes=65536, hot_bytes=0, cold_read_count_max=2))
    bench.send(*[message(n) for n in range(9)])
    assert bench.store.reader.read("orders", 0, 0).count == 2


def test_neighbours_in_the_log_are_one_run(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_scan, "core", None)  # which copies short runs together
    bench.send(message(0), message(1), message(2, queue_id=1), message(3))
    assert [len(split_records(bytes(run))) for run in bench.store.reader.read("orders", 0, 0).runs] == [2, 1]


def test_a_tag_filter_passes_over_entries_without_touching_the_log(bench: Bench) -> None:
    bench.send(*[message(n, TAGS="TagA" if n % 3 else "TagB") for n in range(7)])
    wanted = {tag_hash(b"TagB")}
    result = bench.store.reader.read("orders", 0, 0, accept_tag=wanted.__contains__)
    assert [record.body for record in split_records(result.to_bytes())] == [b"body 0", b"body 3", b"body 6"]
    assert result.next_offset == 7
    nothing = bench.store.reader.read("orders", 0, 0, accept_tag=lambda tag: False)
    assert (nothing.status, nothing.next_offset) == (ReadStatus.NO_MATCHED_MESSAGE, 7)


def test_a_record_filter_sees_the_stored_bytes(bench: Bench) -> None:
    bench.send(*[message(n) for n in range(4)])
    result = bench.store.reader.read("orders", 0, 0, accept_record=lambda record: b"body 2" in bytes(record))
    assert [record.body for record in split_records(result.to_bytes())] == [b"body 2"]


def test_any_position_may_be_asked_for_and_only_records_are_given(bench: Bench) -> None:
    (first, second) = bench.store.append([message(0), message(1)])
    bench.store.flush()
    assert bench.store.reader.record_at(second.position).body == b"body 1"
    for position in (-1, 1, first.size - 1, second.position + second.size, 1 << 62):
        with pytest.raises((PositionOutOfRangeError, Exception), match=r"outside|damaged"):
            bench.store.reader.record_at(position)


def test_offsets_are_found_by_time(bench: Bench) -> None:
    start = bench.clock.now_ms()
    for number in range(20):
        bench.send(message(number))
        bench.clock.advance_ms(10 if number % 2 else 0)  # two messages each at start, start + 10, …
    by_time = bench.store.reader.offset_by_time
    assert by_time("orders", 0, start - 5) == 0
    assert by_time("orders", 0, start + 10) == 2
    assert by_time("orders", 0, start + 11) == 4
    assert by_time("orders", 0, start + 10, Boundary.UPPER) == 3
    assert by_time("orders", 0, start + 11, Boundary.UPPER) == 3
    assert by_time("orders", 0, start - 5, Boundary.UPPER) == 0
    assert by_time("orders", 0, start + 10_000) == 20
    assert by_time("orders", 0, start + 10_000, Boundary.UPPER) == 19
    assert by_time("unknown", 0, start) == 0
    assert bench.store.reader.earliest_ms("orders", 0) == start
    assert bench.store.reader.stored_ms("orders", 0, 2) == start + 10


# --- finding by key ---


def test_messages_are_found_by_key_and_unique_key_newest_first(bench: Bench) -> None:
    bench.send(*[message(n, KEYS=f"order-{n % 3} all", UNIQ_KEY=f"U{n}") for n in range(9)])
    found = [bench.store.reader.record_at(position).body for position in bench.store.find("orders", "order-1")]
    assert found == [b"body 7", b"body 4", b"body 1"]
    assert len(bench.store.find("orders", "all", count_max=4)) == 4
    assert [bench.store.reader.record_at(p).body for p in bench.store.find("orders", "U5")] == [b"body 5"]
    assert bench.store.find("orders", "order-7") == bench.store.find("other", "order-1") == []


def test_keys_are_found_within_a_time_range_and_over_many_index_files(bench: Bench) -> None:
    start = bench.clock.now_ms()
    for number in range(200):
        bench.send(message(number, KEYS="same"))
        bench.clock.advance_ms(1000)
    bench.store.indexer.index_all()
    assert len(bench.store.index.files) >= 3
    found = bench.store.find("orders", "same", count_max=1000, begin_ms=start + 50_000, end_ms=start + 53_000)
    assert [bench.store.reader.record_at(p).body for p in found] == [b"body %d" % n for n in (53, 52, 51, 50)]
    assert len(bench.store.find("orders", "same", count_max=1000)) == 200
    names = [file.path.name for file in bench.store.index.files]
    assert names == sorted(set(names))


def test_equal_hashes_of_other_keys_are_not_found(bench: Bench) -> None:
    bench.send(message(0, KEYS="Aa"), message(1, KEYS="BB"))  # the same hash in Java
    assert [bench.store.reader.record_at(p).body for p in bench.store.find("orders", "BB")] == [b"body 1"]


# --- closing, locking, deleting ---


def test_a_clean_stop_needs_no_scan(bench: Bench) -> None:
    bench.send(*[message(n) for n in range(20)])
    report = bench.reopen().recovered
    assert report.clean and report.sealed and report.intact and report.records == 0
    assert bench.send(message(20)) == [20]


def test_a_store_that_was_not_closed_is_logged_when_it_is_opened_again(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "pyromq.store")
    bench.send(*[message(n) for n in range(3)])
    bench.reopen()
    assert not [line for line in caplog.messages if "was not closed" in line]
    bench.send(message(3))
    bench.disk = bench.disk.after_crash()
    bench.store = bench.open()
    [line] = [line for line in caplog.messages if "was not closed" in line]
    assert line.startswith("the store was not closed, recovered: scanned_from=") and "records=" in line


def test_a_store_is_open_only_once(bench: Bench) -> None:
    with pytest.raises(StoreInUseError):
        bench.open()
    bench.store.close()
    bench.store.close()
    with bench.open() as store, pytest.raises(StoreInUseError):
        bench.open()
    with pytest.raises(StoreClosedError):
        store.append([message(0)])


@pytest.mark.parametrize("flush", list(Flush))
def test_a_closed_store_is_believed_nothing_any_more(flush: Flush) -> None:
    store = Bench(replace(SETTINGS, flush=flush)).store
    store.append([message(0)])
    job = store.flushes.start()
    assert job is not None
    store.close()
    assert not store.health.trusted and not store.flushes.finish(job), "what comes to its end now is too late"
    with pytest.raises(StoreClosedError):
        store.flush()


def test_a_deleted_topic_starts_again_at_zero_also_after_a_crash(bench: Bench) -> None:
    bench.send(*[message(n) for n in range(10)], message(10, topic="kept"))
    bench.store.delete_topic("orders")
    assert bench.store.reader.range_of("orders", 0) is None
    assert bench.send(message(11), message(12)) == [0, 1]
    bench.disk = bench.disk.after_crash(CrashMode.FORGET)
    bench.store = bench.open()
    assert bench.bodies() == [b"body 11", b"body 12"]
    assert bench.bodies(topic="kept") == [b"body 10"]


def test_a_deleted_and_recreated_topic_survives_the_loss_of_all_derived_files(bench: Bench) -> None:
    bench.send(*[message(n) for n in range(10)])
    bench.store.delete_topic("orders")
    bench.send(message(11), message(12))
    bench.store.close()
    for path in bench.disk.files():
        if "commitlog" not in path.parts:
            bench.disk.remove(path)
    bench.store = bench.open()
    assert bench.bodies() == [b"body 11", b"body 12"]


# --- a disk that fails ---


def test_a_full_disk_makes_the_store_read_only_until_space_returns() -> None:
    bench = Bench()
    bench.send(message(0))
    bench.disk.capacity_bytes = bench.disk.usage(ROOT).used_bytes + 9_000
    number = 1
    with pytest.raises(DiskFullError, match="becomes writable again"):
        while True:
            bench.send(Draft(topic="orders", queue_id=0, body=b"body %d" % number + b"." * 300))
            number += 1
    assert number > 5
    with pytest.raises(DiskFullError):
        bench.send(message(number))
    assert len(bench.bodies()) > 0, "reading goes on"
    end = bench.store.end_position
    bench.disk.capacity_bytes = 1 << 41
    assert bench.store.write_entries()
    bench.store.health.space_returned()
    assert bench.send(message(number)) == [number]
    assert bench.store.reader.record_at(end).body == b"body %d" % number
    bench.reopen()
    assert [body.split(b".")[0] for body in bench.bodies(8)] == [b"body %d" % n for n in range(8, min(16, number + 1))]


def test_entries_that_a_full_disk_refused_are_written_later_and_nothing_is_lost(bench: Bench) -> None:
    bench.send(message(0))
    assert bench.bodies() == [b"body 0"]
    bench.send(message(1))
    bench.disk.fail_at(bench.disk.operations + 1, errno.ENOSPC)
    assert not bench.store.write_entries() and not bench.store.health.writable
    bench.disk.fail_at(bench.disk.operations + 1, errno.ENOSPC)
    assert bench.bodies() == [b"body 0"], "readers see what could be written"
    with pytest.raises(DiskFullError):
        bench.store.append([message(2)])
    assert bench.store.write_entries()
    bench.store.health.space_returned()
    assert bench.bodies() == [b"body 0", b"body 1"]
    assert bench.send(message(2)) == [2]


def test_what_recovery_has_verified_is_served_without_a_second_look(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.send(message(0))
    assert bench.store.seal()
    bench.send(message(1), message(2))
    bench.disk = bench.disk.after_crash(CrashMode.KEEP)
    bench.store, verified = bench.open(), []
    verify = bench.store.records.verify
    monkeypatch.setattr(bench.store.records, "verify", lambda position: verified.append(position) or verify(position))
    assert bench.bodies() == [b"body 0", b"body 1", b"body 2"]
    assert verified == [0], "what lies before the seal was not looked at"


def test_a_read_that_cannot_write_owed_entries_says_so_at_once(bench: Bench) -> None:
    bench.send(message(0))
    bench.disk.fail_at(bench.disk.operations + 1, errno.ENOSPC)
    assert bench.bodies() == [] and bench.store.health.full
    bench.store.health.space_returned()
    assert bench.bodies() == [b"body 0"]


def test_on_a_disk_that_is_not_trusted_reads_do_not_repeat_the_bad_news(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.send(message(0))
    for _ in range(3):
        bench.disk.fail_at(bench.disk.operations + 1, errno.EIO)
        assert bench.bodies() == [] and not bench.store.health.trusted
    assert caplog.text.count("disk untrusted") == 1
    assert bench.bodies() == [b"body 0"], "what is flushed can be read when its entry could be written"


def test_knowing_how_far_a_queue_goes_writes_nothing(bench: Bench) -> None:
    bench.send(message(0), message(1))
    queue, operations = bench.store.queues["orders", 0], bench.disk.operations
    assert (queue.end, queue.committed_end, queue.next_offset) == (0, 2, 2)
    assert list(queue.raw_entries(0, 2)) == [] and queue.first_at_or_after(0) == 0
    assert bench.disk.operations == operations
    bench.bodies()
    assert (queue.end, queue.committed_end) == (2, 2)


def test_entries_wait_in_memory_until_they_are_read_or_there_are_many(tmp_path: Path) -> None:
    disk = FaultyDisk()
    small = StoreSettings(
        entry_backlog_max=4, segment_bytes=4096, queue_file_entries=10, index_slots=10, index_entries=50
    )
    store = MessageStore.open(tmp_path, small, disk=disk, clock=ManualClock())

    def in_files(queue_id: int) -> int:
        folder = tmp_path / "consumequeue" / "t" / str(queue_id)
        return sum(any(disk.read(folder / name)) for name in disk.names(folder))

    def append(*queue_ids: int) -> None:
        store.append([Draft(topic="t", queue_id=queue_id, body=b"x") for queue_id in queue_ids])
        store.flush()

    append(0, 1, 2)
    assert [in_files(queue_id) for queue_id in range(3)] == [0, 0, 0]
    assert store.reader.read("t", 1, 0).count == 1
    assert [in_files(queue_id) for queue_id in range(3)] == [0, 1, 0]
    append(0)
    assert [in_files(queue_id) for queue_id in range(3)] == [1, 1, 1]
    store.stage(Draft(topic="t", queue_id=2, body=b"not committed"))
    assert store.reader.read("t", 2, 0).end == 1, "what is only staged is not there"
    store.close()


def test_a_failed_flush_is_never_taken_back(bench: Bench) -> None:
    bench.send(message(0))
    bench.store.append([message(1)])
    bench.disk.fail_at(bench.disk.operations + 1, errno.EIO)
    with pytest.raises(UntrustedDiskError, match="check the disk, then reopen"):
        bench.store.flush()
    assert bench.store.flushes.start() is None
    with pytest.raises(UntrustedDiskError):
        bench.store.append([message(2)])
    assert bench.bodies() == [b"body 0"], "what may not be on disk is not shown"
    bench.store.close()
    assert bench.disk.exists(ROOT / "abort"), "not a clean stop"
    bench.disk = bench.disk.after_crash(CrashMode.FORGET)
    bench.store = bench.open()
    assert bench.bodies() == [b"body 0"]
    assert bench.send(message(3)) == [1]


def test_a_failed_write_leaves_nothing_that_a_later_crash_could_revive(bench: Bench) -> None:
    drafts = [Draft(topic="orders", queue_id=0, body=b"%d" % n * 100) for n in range(5)]
    bench.disk.fail_at(bench.disk.operations + 3, errno.ENOSPC)  # create, sync_folder, then the write that is half done
    with pytest.raises(DiskFullError):
        bench.store.append(drafts)
    bench.store.health.space_returned()
    assert bench.send(drafts[4]) == [0]
    bench.disk = bench.disk.after_crash(CrashMode.KEEP)
    bench.store = bench.open()
    assert bench.bodies() == [drafts[4].body]


def test_group_commit_serves_all_waiting_senders_with_one_flush(bench: Bench) -> None:
    for number in range(5):
        bench.store.append([message(number)])
    before = bench.disk.log.count("sync")
    job = bench.store.flushes.start()
    assert job is not None
    bench.store.append([message(5)])  # arrives while the flush runs
    job.run()
    bench.store.flushes.finish(job)
    assert bench.disk.log.count("sync") == before + 1
    assert len(bench.bodies()) == 5
    bench.store.flush()
    assert len(bench.bodies()) == 6
    assert bench.store.flushes.start() is None


# --- stores without a seal, as Apache RocketMQ leaves them ---


def without_seal(bench: Bench) -> None:
    bench.store.close()
    for path in [path for path in bench.disk.files() if path.name.startswith("pyromq-seal")]:
        bench.disk.remove(path)


def test_a_queue_with_a_lost_file_is_derived_again_without_a_seal(bench: Bench) -> None:
    bench.send(*[message(n) for n in range(60)])
    without_seal(bench)
    bench.disk.remove(ROOT / "consumequeue" / "orders" / "0" / f"{160:020d}")
    bench.store = bench.open()
    assert bench.store.reader.range_of("orders", 0) == (0, 60)


def test_queue_files_of_another_size_are_derived_again(bench: Bench) -> None:
    bench.send(*[message(n) for n in range(60)])
    without_seal(bench)
    bench.settings = StoreSettings(segment_bytes=4096, queue_file_entries=16, index_slots=16, index_entries=64)
    bench.store = bench.open()
    assert bench.store.reader.range_of("orders", 0) == (0, 60)


def test_a_filler_at_the_end_of_a_queue_does_not_move_the_end_of_the_log(bench: Bench) -> None:
    bench.send(*[message(n) for n in range(5)])
    queue = bench.store.queues["orders", 0]
    queue.stage_filler(1, bench.store.end_position)
    queue.write_staged()
    end = bench.store.end_position
    without_seal(bench)
    bench.store = bench.open()
    assert bench.store.end_position == end and bench.store.recovered.intact


def test_an_index_file_that_is_still_empty_does_not_make_keys_appear_twice(bench: Bench) -> None:
    bench.send(*[message(n, KEYS="same") for n in range(63)])
    bench.store.indexer.index_all()
    bench.store.index._roll()
    without_seal(bench)
    bench.store = bench.open()
    assert len(bench.store.find("orders", "same", count_max=1000)) == 63
    assert sum(file.next_entry - 1 for file in bench.store.index.files) == 63


def test_a_queue_that_starts_in_the_middle_of_a_file_starts_there_after_reopening_too(bench: Bench) -> None:
    bench.send(*[message(n) for n in range(3)])
    bench.store.queues["orders", 0].restart_at(13)
    assert bench.send(message(3)) == [13]
    assert bench.store.reader.range_of("orders", 0) == (13, 14)
    bench.reopen()
    assert bench.store.reader.range_of("orders", 0) == (13, 14)


def test_a_queue_entry_that_makes_no_sense_is_derived_again_without_a_seal(bench: Bench) -> None:
    bench.send(*[message(n) for n in range(60)])
    without_seal(bench)
    bench.disk.open(ROOT / "consumequeue" / "orders" / "0" / f"{0:020d}").write_at(20 * 3 + 8, bytes(4))
    bench.store = bench.open()
    assert bench.store.reader.range_of("orders", 0) == (0, 60)
    assert len(bench.bodies(3)) > 0


def test_an_absurd_offset_in_a_record_without_checksum_takes_no_memory() -> None:
    bench = Bench(StoreSettings(segment_bytes=4096, checksums=False, queue_file_entries=8))
    bench.send(*[message(n) for n in range(5)])
    without_seal(bench)
    (log,) = [path for path in bench.disk.files() if path.parent.name == "commitlog"]
    size = int.from_bytes(bench.disk.read(log)[:4], "big")
    bench.disk.open(log).write_at(3 * size + 20, (1 << 40).to_bytes(8, "big"))
    for path in [path for path in bench.disk.files() if "consumequeue" in path.parts]:
        bench.disk.remove(path)
    bench.store = bench.open()
    assert bench.bodies() == [b"body 0", b"body 1", b"body 2", b"body 4"]
    assert "claims offset" in bench.store.recovered.damaged[0].reason


def test_a_deleted_topic_stays_deleted_when_another_queue_is_derived_again(bench: Bench) -> None:
    bench.send(*[message(n) for n in range(10)], *[message(n, topic="kept") for n in range(10)])
    bench.store.delete_topic("orders")
    bench.store.close()
    bench.disk.flip_bit(ROOT / "consumequeue" / "kept" / "0" / f"{0:020d}", 99)
    bench.store = bench.open()
    assert bench.store.recovered.rebuilt
    assert len(bench.bodies(topic="kept")) == 8
    assert ("orders", 0) not in bench.store.queues


def test_a_seal_inside_a_record_is_not_believed(bench: Bench) -> None:
    bench.send(*[message(n) for n in range(10)])
    bench.store.close()
    seal = load_seal(bench.disk, ROOT)
    assert seal is not None
    save_seal(bench.disk, ROOT, msgspec.structs.replace(seal, position=seal.position - 50))
    bench.store = bench.open()
    assert not bench.store.recovered.sealed and not bench.store.recovered.cuts
    assert len(bench.bodies()) == 8 and bench.store.reader.range_of("orders", 0) == (0, 10)


def test_a_copy_that_is_not_sparse_is_read_once_and_takes_no_more_space_than_its_messages(tmp_path: Path) -> None:
    """As cp, tar and rsync make one: to find out that nothing lies behind the end took seconds at every opening."""
    settings = StoreSettings(segment_bytes=8 << 20, queue_file_entries=200_000)
    with MessageStore.open(tmp_path, settings) as store:
        store.append([Draft(topic="orders", queue_id=0, body=b"1")])
    files = [path for path in tmp_path.rglob("0*") if path.is_file()]
    for path in files:
        path.write_bytes(path.read_bytes())
    assert all(path.stat().st_blocks * 512 >= 3 << 20 for path in files), "zeros take space"
    for _ in range(2):
        with MessageStore.open(tmp_path, settings) as store:
            assert store.reader.read("orders", 0, 0).count == 1
        assert all(path.stat().st_blocks * 512 <= 16 << 10 for path in files)
        assert {path.stat().st_size for path in files} == {8 << 20, 4_000_000}
