"""Group commits on a disk that fails on command and a worker thread that works when told to."""

from __future__ import annotations

import asyncio
import errno
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pyromq.broker.base.lease import Lease
from pyromq.broker.base.queue_key import QueueKey
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.base.stats import Counters
from pyromq.broker.commit.commit import SendsOfOneRead
from pyromq.broker.commit.internal_writes import InternalWrites
from pyromq.broker.commit.replica_stage import Copies
from pyromq.broker.commit.touched import Touched
from pyromq.broker.commit.write_path import open_write_path
from pyromq.errors import DiskFullError, MQError, UntrustedDiskError
from pyromq.net import Connection
from pyromq.replication.replicas import Replicas
from pyromq.replication.settings import ReplicationSettings, Role
from pyromq.store.derived.queue_tail import QueueTail
from pyromq.store.maintenance import Maintenance
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import Flush, StoreSettings
from pyromq.testing import FaultyDisk, ManualClock
from pyromq.wire.codes import ResponseCode
from pyromq.wire.command import encode_response
from pyromq.wire.headers.producer import SendResponseHeader
from pyromq.wire.received import Received
from pyromq.wire.record import Draft
from tests.unit.broker.builders import ROOT, Wire, environment, request
from tests.unit.broker.workers import HeldThread
from tests.unit.net.fakes import turn

ORDERS = ("orders", 0)


class Rig:
    """Everything around a group commit; make it inside a running loop."""

    def __init__(
        self,
        flush: Flush = Flush.SYNC,
        lease: Lease | None = None,
        on_requests: Any = None,
        copies: Copies | None = None,
        **settings_of_broker: Any,
    ) -> None:
        self.disk, self.clock, self.worker = FaultyDisk(), ManualClock(), HeldThread()
        settings = StoreSettings(flush=flush, segment_bytes=1 << 16, index_slots=10, index_entries=50)
        self.store = MessageStore.open(ROOT, settings, disk=self.disk, clock=self.clock)
        self.woken: list[set[QueueKey]] = []
        around = replace(environment(BrokerSettings(**settings_of_broker), self.clock, self.disk), lease=lease)
        self.counters = Counters()
        path = open_write_path(around, self.store, self.worker, self.counters, on_requests, copies)
        self.group_commit, self.stage, self.gate, self.pressure = path.group_commit, path.disk, path.gate, path.pressure
        self.readers, self.replica_stage = path.readers, path.replicas
        self.readers.join(self)
        self.failing = ""
        self.disk.before_each(self._fail)
        self._number = 0

    def wake(self, queues: Touched) -> None:
        if names := queues.names():
            self.woken.append(set(names))

    def _fail(self, kind: str) -> None:
        if kind == self.failing:
            raise OSError(errno.ENOSPC if kind == "write" else errno.EIO, "simulated")

    def send(self, wire: Wire, *, wait: bool = True, oneway: bool = False) -> None:
        """What the send handler does with one message."""
        self._number += 1
        placed = self.store.stage(Draft(topic="orders", queue_id=0, body=b"%d" % self._number))
        header = SendResponseHeader(msg_id=f"{placed.position:032X}", queue_id=0, queue_offset=placed.offset)
        response = b"" if oneway else encode_response(ResponseCode.SUCCESS, self._number, header)
        asked = request(self._number, oneway=oneway)
        self.group_commit.staged((wire.as_connection, asked, response), ORDERS, wait=wait)

    def visible(self) -> int:
        known = self.store.reader.range_of(*ORDERS)
        return known.end if known else 0


async def test_what_arrives_together_is_flushed_once_and_answered_after_that() -> None:
    rig, one, two = Rig(), Wire(), Wire()
    for wire in (one, two, one):
        rig.send(wire)
    await turn()
    assert (one.codes, two.codes, rig.pressure.waiting_for_disk, len(rig.worker.waiting)) == ([], [], 3, 1)
    await rig.worker.work()
    assert (one.codes, two.codes, rig.pressure.waiting_for_disk) == ([0, 0], [0], 0)
    assert [response.correlation_id for response in one.responses] == [1, 3]
    assert rig.worker.waiting == []


async def test_groups_committed_during_a_flush_share_the_next_one() -> None:
    rig, first, later = Rig(), Wire(), Wire()
    rig.send(first)
    await turn()
    for _ in range(3):
        rig.send(later)
        await turn()
    await rig.worker.work()
    assert (first.codes, later.codes) == ([0], [])
    await rig.worker.work()
    assert (later.codes, rig.worker.done, rig.worker.waiting) == ([0, 0, 0], 2, [])


async def test_readers_are_woken_after_the_flush_and_not_before() -> None:
    rig, wire = Rig(), Wire()
    rig.send(wire)
    await turn()
    assert (rig.woken, rig.visible()) == ([], 0)
    rig.send(wire)
    await turn()
    await rig.worker.work()
    assert (rig.woken, rig.visible()) == ([{ORDERS}], 1), "of the second one nothing is flushed yet"
    await rig.worker.work()
    assert (rig.woken, rig.visible()) == ([{ORDERS}] * 2, 2)


async def test_readers_of_what_the_send_lane_staged_are_woken_after_the_flush_whoever_waited_before() -> None:
    rig, wire = Rig(), Wire()
    response = encode_response(ResponseCode.SUCCESS, 1)
    for queue_id in (0, 7):
        rig.store.stage(Draft(topic="orders", queue_id=queue_id, body=b"x"))
    queues: list[QueueTail] = [rig.store.queues["orders", 0], rig.store.queues["orders", 7]]
    rig.group_commit.staged_together(wire.as_connection, SendsOfOneRead(1, 1), response, queues)
    await turn()
    assert rig.woken == [], "a pull that comes now sees nothing, and waits"
    await rig.worker.work()
    assert rig.woken == [{ORDERS, ("orders", 7)}] and wire.codes == [0]


async def test_queues_behind_a_slow_flush_are_named_once_they_are_many() -> None:
    one, all_of = QueueTail(*ORDERS), Touched()
    for _ in range(1_000):
        read = Touched()
        read.add_together([one])
        all_of.add_all(read)
    assert list(all_of.keys) == list(all_of.names()) == [ORDERS]
    assert len(all_of._unnamed) == 0
    assert list(Touched([ORDERS]).names()) == [ORDERS] and not Touched().names()


async def test_queues_are_named_in_the_order_of_writing() -> None:
    """Not in that of hashes of text, which is another one in each process."""
    written = [(f"topic-{number}", number) for number in range(20)]
    touched, later = Touched(written[:5]), Touched(written[2:10])
    touched.add_all(later)
    touched.add_together([QueueTail(*each) for each in written])
    assert list(touched.names()) == written


async def test_an_asynchronous_store_answers_and_wakes_at_once() -> None:
    rig, wire = Rig(Flush.ASYNC), Wire()
    rig.send(wire)
    await turn()
    assert (wire.codes, rig.woken, rig.visible(), rig.worker.waiting) == ([0], [{ORDERS}], 1, [])


async def test_a_send_that_does_not_wait_is_answered_at_once_and_seen_later() -> None:
    rig, hasty, patient = Rig(), Wire(), Wire()
    rig.send(hasty, wait=False)
    rig.send(patient)
    await turn()
    assert (hasty.codes, patient.codes, rig.visible()) == ([0], [], 0)
    await rig.worker.work()
    assert (hasty.codes, patient.codes, rig.woken) == ([0], [0], [{ORDERS}])


async def test_a_failed_commit_refuses_all_sends_of_its_group_and_no_others() -> None:
    rig, before, during, after = Rig(), Wire(), Wire(), Wire()
    rig.send(before)
    await turn()
    rig.failing = "write"
    rig.send(during)
    rig.send(during, wait=False)
    rig.send(during, oneway=True)
    await turn()
    assert during.codes == [ResponseCode.SERVICE_NOT_AVAILABLE] * 2
    assert "no space" in (during.responses[0].remark or "")
    await rig.worker.work()
    assert before.codes == [0]
    rig.failing = ""
    rig.store.health.space_returned()
    rig.send(after)
    await turn()
    await rig.worker.work()
    assert (after.codes, rig.visible(), rig.woken) == ([0], 2, [{ORDERS}] * 2)


async def test_after_a_failed_flush_nothing_is_acknowledged_any_more() -> None:
    rig, first, second = Rig(), Wire(), Wire()
    rig.send(first)
    await turn()
    rig.send(second)  # committed while the flush that fails is under way
    await turn()
    rig.failing = "sync"
    await rig.worker.work()
    assert (first.codes, second.codes) == ([ResponseCode.SERVICE_NOT_AVAILABLE],) * 2
    assert (rig.woken, rig.visible(), rig.pressure.waiting_for_disk, rig.worker.waiting) == ([], 0, 0, [])
    rig.failing = ""
    with pytest.raises(UntrustedDiskError):
        rig.send(first)
    await rig.group_commit.drain()
    assert first.codes == [ResponseCode.SERVICE_NOT_AVAILABLE]


async def test_a_message_that_was_staged_when_the_flush_failed_is_refused_too() -> None:
    rig, first, second = Rig(), Wire(), Wire()
    rig.send(first)
    await turn()
    rig.send(second)
    rig.failing = "sync"
    rig.store.flushes.fail(OSError(errno.EIO, "simulated"))
    await turn()
    assert second.codes == [ResponseCode.SERVICE_NOT_AVAILABLE]


async def test_waiting_sends_hear_of_a_flush_that_hangs_with_the_address_of_their_message() -> None:
    rig, wire = Rig(sync_flush_timeout_ms=5_000, stuck_disk_ms=1_000), Wire()
    rig.send(wire)
    await turn()
    rig.clock.advance_ms(5_000)
    rig.stage.answer_overdue()
    assert wire.codes == [] and rig.stage.oldest_wait_ms() == 5_000
    rig.clock.advance_ms(1)
    rig.stage.answer_overdue()
    (response,) = wire.responses
    assert response.code == ResponseCode.FLUSH_DISK_TIMEOUT and "did not confirm" in (response.remark or "")
    assert response.ext["msgId"] == "0" * 32 and response.ext["queueOffset"] == "0", "Java reads them"
    (((_, code, _), histogram),) = rig.counters.requests.latency.items()
    assert (code, histogram.count, histogram.now().total) == (ResponseCode.FLUSH_DISK_TIMEOUT, 1, 5_001), (
        "it is counted"
    )
    await rig.worker.work()
    assert len(wire.codes) == 1, "it has its response"
    assert rig.visible() == 1


async def test_a_disk_that_is_stuck_makes_the_broker_busy_until_it_moves_again() -> None:
    rig, wire = Rig(stuck_disk_ms=1_000), Wire()
    rig.send(wire)
    await turn()
    rig.clock.advance_ms(1_000)
    rig.stage.answer_overdue()
    assert not rig.pressure.is_busy
    rig.clock.advance_ms(1)
    rig.stage.answer_overdue()
    assert rig.pressure.is_busy and rig.pressure.stuck_ms() == 1_001
    await rig.worker.work()
    assert not rig.pressure.is_busy and rig.pressure.stuck_ms() == 0


async def test_too_many_waiting_sends_make_the_broker_busy() -> None:
    rig, wire = Rig(unflushed_sends_max=2), Wire()
    rig.send(wire)
    await turn()
    assert not rig.pressure.is_busy
    rig.send(wire)
    await turn()
    assert rig.pressure.is_busy
    await rig.worker.work()
    assert not rig.pressure.is_busy


@pytest.mark.parametrize("end", ["well", "late", "badly"])
async def test_one_way_sends_are_never_answered(end: str) -> None:
    rig, wire = Rig(), Wire()
    rig.send(wire, oneway=True)
    await turn()
    if end == "late":
        rig.clock.advance_ms(60_000)
        rig.stage.answer_overdue()
    rig.failing = "sync" if end == "badly" else ""
    await rig.worker.work()
    assert wire.frames == []


async def test_the_only_connection_that_sends_waits_for_no_other() -> None:
    rig, wire = Rig(Flush.ASYNC), Wire()
    for _ in range(16):
        rig.send(wire)
        await turn()
    rig.send(wire)
    assert len(wire.codes) == 16
    rig.group_commit.commit_early()
    assert len(wire.codes) == 17
    other = Wire()
    rig.send(other)
    rig.group_commit.commit_early()
    assert other.codes == [], "there are others again"
    await turn()
    assert other.codes == [0]


async def test_draining_waits_for_everything_that_was_staged() -> None:
    rig, wire = Rig(), Wire()
    rig.send(wire)
    draining = asyncio.ensure_future(rig.group_commit.drain())
    await turn()
    assert not draining.done()
    await rig.worker.work()
    await draining
    assert wire.codes == [0]


# --- what the broker writes by itself ---


def put(rig: Rig, told: list[MQError | None]) -> None:
    placed = InternalWrites(rig.store, rig.group_commit).put(
        Draft(topic="orders", queue_id=0, body=b"own"), told.append
    )
    assert placed.size > 0


async def test_an_internal_write_counts_once_it_is_on_disk() -> None:
    rig = Rig()
    told: list[MQError | None] = []
    put(rig, told)
    assert rig.store.end_position == 0
    await turn()
    assert (told, rig.visible()) == ([], 0)
    await rig.worker.work()
    assert (told, rig.visible(), rig.woken) == ([None], 1, [{ORDERS}])


async def test_an_internal_write_to_an_asynchronous_store_counts_once_it_is_written() -> None:
    rig = Rig(Flush.ASYNC)
    told: list[MQError | None] = []
    put(rig, told)
    await turn()
    assert (told, rig.visible()) == ([None], 1)


async def test_internal_writes_share_the_flush_of_sends() -> None:
    rig, wire = Rig(), Wire()
    told: list[MQError | None] = []
    rig.send(wire)
    put(rig, told)
    await turn()
    await rig.worker.work()
    assert (wire.codes, told, rig.worker.done) == ([0], [None], 1)


@pytest.mark.parametrize("failing", ["write", "sync"])
async def test_an_internal_write_hears_of_a_disk_that_fails(failing: str) -> None:
    rig = Rig()
    told: list[MQError | None] = []
    put(rig, told)
    rig.failing = failing
    await turn()
    if failing == "sync":
        await rig.worker.work()
    assert [type(error) for error in told] == [DiskFullError if failing == "write" else UntrustedDiskError]
    assert rig.visible() == 0


async def test_internal_writes_may_lead_to_others_and_a_stop_waits_for_all() -> None:
    rig = Rig()
    told: list[MQError | None] = []

    def next_one(error: MQError | None) -> None:
        put(rig, told)

    InternalWrites(rig.store, rig.group_commit).put(Draft(topic="orders", queue_id=0, body=b"first"), next_one)
    drained = asyncio.ensure_future(rig.group_commit.drain())
    while not drained.done():
        await turn()
        if rig.worker.waiting:
            await rig.worker.work()
    assert (told, rig.visible()) == ([None], 2)


async def test_a_callback_that_fails_keeps_no_other_from_being_called() -> None:
    rig = Rig(Flush.ASYNC)
    told: list[MQError | None] = []

    def broken(error: MQError | None) -> None:
        raise ValueError("a defect")

    InternalWrites(rig.store, rig.group_commit).put(Draft(topic="orders", queue_id=0, body=b"first"), broken)
    put(rig, told)
    await turn()
    assert told == [None]


async def test_work_before_a_commit_stages_behind_all_else_and_belongs_to_the_group() -> None:
    rig, wire = Rig(Flush.ASYNC), Wire()
    told: list[object] = []

    def last_words() -> None:
        rig.store.stage(Draft(topic="orders", queue_id=0, body=b"last"))
        rig.group_commit.staged_internally(ORDERS, told.append)

    rig.send(wire)
    rig.group_commit.before_commit(last_words)
    rig.send(wire)
    await turn()
    assert (wire.codes, told, rig.visible()) == ([0, 0], [None], 3)
    assert rig.store.reader.read(*ORDERS, 2).to_bytes().count(b"last") == 1
    rig.send(wire)
    await turn()
    assert (told, rig.visible()) == ([None], 4), "it runs once"


async def test_work_that_fails_before_a_commit_keeps_no_send_from_its_response() -> None:
    rig, wire = Rig(Flush.ASYNC), Wire()
    rig.group_commit.before_commit(lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    rig.send(wire)
    await turn()
    rig.send(wire)
    await turn()
    assert wire.codes == [0, 0]


class FailingReader:
    def wake(self, queues: Touched) -> None:
        raise ZeroDivisionError


async def test_a_reader_that_fails_keeps_no_other_from_being_woken() -> None:
    rig, wire, woken = Rig(Flush.ASYNC), Wire(), list[set[QueueKey]]()
    behind = SimpleNamespace(wake=lambda queues: woken.append(set(queues.names())))
    rig.readers.join(FailingReader(), behind)
    rig.send(wire)
    await turn()
    assert (woken, wire.codes) == ([{ORDERS}], [0])


@pytest.mark.parametrize("flush", Flush)
async def test_readers_that_fail_keep_no_writer_from_hearing_how_it_ended(flush: Flush) -> None:
    rig, told = Rig(flush), list[MQError | None]()
    rig.readers.join(FailingReader())
    InternalWrites(rig.store, rig.group_commit).put(Draft(topic="orders", queue_id=0, body=b"x"), told.append)
    await turn()
    if flush is Flush.SYNC:
        await rig.worker.work()
    assert told == [None]
    await asyncio.wait_for(rig.group_commit.drain(), 60)


async def test_after_a_defect_of_the_store_all_sends_hear_of_it_and_the_next_group_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig, wire = Rig(Flush.ASYNC), Wire()
    told: list[MQError | None] = []
    with monkeypatch.context() as patch:
        patch.setattr(rig.store.indexer, "commit", lambda: 1 // 0)
        rig.send(wire)
        InternalWrites(rig.store, rig.group_commit).put(Draft(topic="orders", queue_id=0, body=b"own"), told.append)
        await turn()
    assert wire.codes == [ResponseCode.SYSTEM_ERROR]
    assert len(told) == 1 and "ZeroDivisionError" in str(told[0])
    rig.send(wire)
    await turn()
    assert wire.codes[-1] == ResponseCode.SUCCESS


# --- async flush: flushes come when the settings say so ---


async def send(rig: Rig, wire: Wire) -> None:
    """One read of a connection, in a turn of its own."""
    rig.send(wire)
    rig.group_commit.commit_early()
    await turn()


def paced(rig: Rig) -> Maintenance:
    return Maintenance(rig.store, rig.disk, rig.clock, flush=rig.stage.flush_soon, seal=lambda: None)


async def test_under_load_an_asynchronous_store_flushes_as_often_as_its_settings_say() -> None:
    rig, wire = Rig(Flush.ASYNC, unflushed_bytes_max=1 << 30), Wire()
    rig.store.settings = replace(rig.store.settings, flush_bytes_min=200, flush_interval_ms=500)
    maintenance = paced(rig)
    for _ in range(100):  # ten seconds
        for _ in range(5):
            await send(rig, wire)
        rig.clock.advance_ms(100)
        maintenance.tick()
        while rig.worker.waiting:
            await send(rig, wire)  # there is always something that the running flush does not cover
            await rig.worker.work()
    assert rig.worker.done == 20
    assert len(wire.codes) == 520


async def test_little_waits_for_the_thorough_flush() -> None:
    rig, wire = Rig(Flush.ASYNC), Wire()
    rig.send(wire)
    await turn()
    maintenance, counts = paced(rig), []
    for _ in range(100):
        rig.clock.advance_ms(100)
        maintenance.tick()
        counts.append(len(rig.worker.waiting))
    assert counts == [0] * 99 + [1], "fewer bytes than flush_bytes_min wait for flush_thorough_ms"


async def test_a_flush_asked_for_while_one_runs_follows_it_once() -> None:
    rig, wire = Rig(Flush.ASYNC), Wire()
    rig.send(wire)
    await turn()
    rig.stage.flush_soon()
    rig.send(wire)
    await turn()
    rig.stage.flush_soon()  # a seal that needs the second message on disk
    rig.stage.flush_soon()
    await rig.worker.work()
    assert len(rig.worker.waiting) == 1
    await rig.worker.work()
    assert rig.worker.waiting == [] and rig.store.flushed_position == rig.store.end_position


async def test_drain_ends_with_the_running_flush_of_an_asynchronous_store() -> None:
    rig, wire = Rig(Flush.ASYNC), Wire()
    rig.send(wire)
    await turn()
    rig.stage.flush_soon()
    rig.send(wire)
    draining = asyncio.ensure_future(rig.group_commit.drain())
    await turn()
    assert not draining.done()
    await rig.worker.work()
    await turn()
    assert draining.done() and wire.codes == [0, 0]


async def test_drain_waits_for_a_flush_that_a_send_from_the_gate_started_when_another_ended() -> None:
    wires = dict[int, Wire]()

    def handle(connection: Connection, requests: list[Received[Any]]) -> None:
        assert rig.gate.passes(connection, requests[0])
        rig.send(wires[requests[0].correlation_id])
        rig.group_commit.commit_early()

    rig, wire = Rig(Flush.ASYNC, on_requests=handle, unflushed_bytes_max=200), Wire()  # a record has 100
    for _ in range(20):  # it is the only one that sends, so its groups are committed at once
        rig.send(wire)
        await turn()
        rig.group_commit.commit_early()
        while rig.worker.waiting:
            await rig.worker.work()
    rig.send(wire)
    rig.send(wire)
    rig.group_commit.commit_early()
    wires[77] = wire
    assert not rig.gate.passes(wire.as_connection, request(77)), "too much is not on disk: it waits at the gate"
    await rig.worker.work()
    assert len(rig.gate) == 0 and len(rig.worker.waiting) == 1
    draining = asyncio.ensure_future(rig.group_commit.drain())
    await turn()
    assert not draining.done()
    await rig.worker.work()
    await turn()
    assert draining.done() and wire.codes == [0] * 23


async def test_drain_waits_for_the_disk_again_when_what_replicas_confirmed_led_to_more() -> None:
    role = ReplicationSettings(role=Role.SYNC_MASTER)
    replicas, told = Replicas(role), list[MQError | None]()
    rig = Rig(copies=Copies(replicas=replicas), replication=role)
    replica = replicas.connected("10.0.0.1", "10.0.0.1:1")
    replicas.begins(replica, 0)
    replicas.reported(replica, 0)

    def next_one(error: MQError | None) -> None:
        put(rig, told)

    InternalWrites(rig.store, rig.group_commit).put(Draft(topic="orders", queue_id=0, body=b"first"), next_one)
    await turn()
    await rig.worker.work()
    draining = asyncio.ensure_future(rig.group_commit.drain())
    for _ in range(2):
        await turn()
        while rig.worker.waiting:
            assert not draining.done()
            await rig.worker.work()
        replica.sent = rig.store.flushed_position
        replicas.reported(replica, rig.store.flushed_position)
        rig.replica_stage.release_confirmed()
        await turn()
    await turn()
    assert draining.done() and told == [None]


async def test_a_power_cut_takes_what_the_flush_settings_allow_and_no_more() -> None:
    rig, wire = Rig(Flush.ASYNC), Wire()
    rig.store.settings = replace(rig.store.settings, flush_bytes_min=1, flush_interval_ms=500)
    maintenance, sent_ms = paced(rig), []
    for _ in range(33):
        await send(rig, wire)
        sent_ms.append(rig.clock.monotonic_ms())
        rig.clock.advance_ms(100)
        maintenance.tick()
        while rig.worker.waiting:
            await rig.worker.work()
    cut_ms = rig.clock.monotonic_ms()
    after = MessageStore.open(ROOT, rig.store.settings, disk=rig.disk.after_crash(), clock=rig.clock)
    known = after.reader.range_of(*ORDERS)
    assert known is not None
    lost = sent_ms[known.end :]
    assert len(lost) == 3 and all(cut_ms - at <= 500 for at in lost)


async def test_a_log_file_that_is_removed_refuses_the_sends_that_wait_for_it_and_all_later_ones() -> None:
    rig, waiting, later = Rig(), Wire(), Wire()
    rig.send(waiting)
    await turn()
    rig.disk.remove(rig.store.log.segments.last.path)
    await rig.worker.work()
    assert len(waiting.codes) == 1 and ResponseCode.SUCCESS not in waiting.codes
    with pytest.raises(UntrustedDiskError, match="removed"):
        rig.send(later)
