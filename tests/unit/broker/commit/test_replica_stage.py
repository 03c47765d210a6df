"""Whole commits wait for replicas: what each of the three answers says, and that none of them is given twice."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from pyromq.broker.base.authority import Authority, Unmanaged
from pyromq.broker.base.request_times import RequestTimes
from pyromq.broker.commit.acknowledger import Acknowledger
from pyromq.broker.commit.commit import Commit, OnStored, PendingSend, SendsOfOneRead
from pyromq.broker.commit.pressure import Pressure
from pyromq.broker.commit.readers import Readers
from pyromq.broker.commit.replica_stage import Copies, ReplicaStage
from pyromq.broker.commit.touched import NO_QUEUES
from pyromq.errors import MQError
from pyromq.replication.replicas import ReplicaConnection, Replicas
from pyromq.replication.settings import ReplicationSettings, Role
from pyromq.store.message_store import MessageStore
from pyromq.testing import ManualClock
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import decode_command, encode_response
from pyromq.wire.frame import FrameDecoder
from tests.unit.broker.commit.test_high_watermark import FakeStore

TIMEOUT_MS, STALL_MS, END = 5_000, 2_000, 1_000


class Rig:
    """A stage over replicas that say what a test lets them say."""

    def __init__(self, stall_ms_max: int = 2 * TIMEOUT_MS, authority: Authority | None = None) -> None:
        self.clock = ManualClock()
        self.replicas = Replicas(ReplicationSettings(role=Role.SYNC_MASTER, stall_ms_max=stall_ms_max))
        self.store = FakeStore(end_position=0, flushed_position=END)  # of which nothing is shown
        self.times, self.required, authority = RequestTimes(), list[int | None]([None]), authority or Unmanaged()
        self.gate = ReplicaStage(
            cast(MessageStore, self.store),
            Copies(replicas=self.replicas, required=lambda: self.required[0]),
            authority,
            Acknowledger(authority, self.times, self.clock),
            Readers(),
            cast(Pressure, SimpleNamespace(waiting_for_replicas=0)),
            self.clock,
            timeout_ms=TIMEOUT_MS,
        )
        self.answered: list[tuple[int, int]] = []  # correlation id and code
        self._next = 0

    def replica(self, position: int) -> ReplicaConnection:
        connection = self.replicas.connected("10.0.0.1", "10.0.0.1:1")
        self.replicas.begins(connection, position)
        self.replicas.reported(connection, position)
        connection.sent = END
        return connection

    def says(self, connection: ReplicaConnection, position: int) -> None:
        self.replicas.reported(connection, position)
        self.gate.release_confirmed()

    def counted(self) -> dict[int, tuple[int, float]]:
        """By response: how many sends, and how long they took together."""
        return {
            response: (histogram.count, histogram.now().total)
            for (_, response, _), histogram in self.times.latency.items()
        }

    def send(self, end: int, *, oneway: bool = False) -> int:
        return self._hold(end, SendsOfOneRead(1, 0 if oneway else 1), oneway=oneway)

    def ask(self, end: int, code: RequestCode) -> int:
        """Something else that is stored."""
        return self._hold(end, SimpleNamespace(code=code, correlation_id=self._next + 1, serialize_type=0))

    def _hold(self, end: int, request: object, *, oneway: bool = False) -> int:
        self._next += 1
        response = b"" if oneway else encode_response(ResponseCode.SUCCESS, self._next)
        connection = SimpleNamespace(send=self._sent, send_now=self._sent_now, flush=lambda: None)
        pending = cast(PendingSend, (connection, request, response))
        self.gate.take(Commit(end, [pending], 1, [], NO_QUEUES, self.clock.monotonic_ms()))
        return self._next

    def write_internally(self, end: int, told: list[OnStored]) -> None:
        self.gate.take(Commit(end, [], 0, told, NO_QUEUES, self.clock.monotonic_ms()))

    def _sent_now(self, response: bytes, count: int) -> None:
        self._sent(response)

    def _sent(self, response: bytes) -> None:
        (frame,) = FrameDecoder().feed(response)
        command = decode_command(frame)
        self.answered.append((command.correlation_id, command.code))


async def test_a_commit_is_answered_when_a_replica_has_all_of_it() -> None:
    rig = Rig()
    replica = rig.replica(0)
    first, second = rig.send(500), rig.send(1_000)
    assert rig.answered == [] and rig.gate.waiting == 2
    rig.says(replica, 499)
    assert rig.answered == []
    rig.says(replica, 500)
    assert rig.answered == [(first, 0)]
    rig.says(replica, 1_000)
    assert rig.answered == [(first, 0), (second, 0)] and rig.gate.is_empty and not rig.gate.waiting
    await rig.gate.drain()


async def test_without_enough_replicas_nothing_waits() -> None:
    rig = Rig()
    number = rig.send(500)
    assert rig.answered == [(number, ResponseCode.SLAVE_NOT_AVAILABLE)] and rig.gate.alone == 1


async def test_a_replica_that_goes_ends_the_wait_of_all() -> None:
    rig = Rig()
    replica = rig.replica(0)
    numbers = [rig.send(500), rig.send(600)]
    told: list[MQError | None] = []
    rig.write_internally(600, [told.append])
    rig.replicas.disconnected(replica)
    rig.gate.release_confirmed()
    assert rig.answered == [(number, ResponseCode.SLAVE_NOT_AVAILABLE) for number in numbers]
    assert told == [None], "it is stored here"


async def test_a_replica_that_is_late_is_not_waited_for_any_longer() -> None:
    rig = Rig()
    replica = rig.replica(0)
    first = rig.send(500)
    told: list[MQError | None] = []
    rig.write_internally(500, [told.append])
    rig.clock.advance_ms(TIMEOUT_MS - 1)
    second = rig.send(600)
    assert rig.answered == []
    rig.clock.advance_ms(1)
    rig.gate.release_confirmed()
    assert rig.answered == [(first, ResponseCode.FLUSH_SLAVE_TIMEOUT)] and told == [None]
    rig.says(replica, 600)
    assert rig.answered[1:] == [(second, 0)], "the one that came later was in time"
    assert (rig.gate.late, rig.gate.waiting) == (1, 0)


@pytest.mark.parametrize("is_late", [True, False])
async def test_a_send_back_that_the_next_master_may_lack_is_not_done(is_late: bool) -> None:
    rig = Rig()
    replica = rig.replica(0)
    sent_back, ended = rig.ask(500, RequestCode.CONSUMER_SEND_MSG_BACK), rig.ask(500, RequestCode.END_TRANSACTION)
    if is_late:
        rig.clock.advance_ms(TIMEOUT_MS)
    else:
        rig.replicas.disconnected(replica)
    rig.gate.release_confirmed()
    code = ResponseCode.SYSTEM_ERROR if is_late else ResponseCode.SUCCESS
    assert rig.answered == [(sent_back, code), (ended, ResponseCode.SUCCESS)]


async def test_a_silent_replica_ends_the_wait_of_all_and_nobody_waits_for_it_again() -> None:
    rig = Rig(STALL_MS)
    replica = rig.replica(0)
    numbers = [rig.send(500)]
    rig.clock.advance_ms(STALL_MS - 1)
    numbers.append(rig.send(600))
    assert rig.answered == []
    rig.clock.advance_ms(1)
    rig.gate.release_confirmed()
    assert rig.answered == [(number, ResponseCode.SLAVE_NOT_AVAILABLE) for number in numbers]
    later = rig.send(700)
    assert rig.answered[2:] == [(later, ResponseCode.SLAVE_NOT_AVAILABLE)], "at once"
    rig.says(replica, 700)
    last = rig.send(800)
    rig.says(replica, 800)
    assert rig.answered[3:] == [(last, 0)], "it has come back"
    assert (rig.gate.alone, rig.gate.late, rig.gate.waiting) == (3, 0, 0)


async def test_a_silent_member_is_waited_for_until_the_lease_names_it_no_more() -> None:
    rig = Rig(STALL_MS)
    rig.replica(0)
    rig.required[0] = 0
    number = rig.send(500)
    rig.clock.advance_ms(STALL_MS)
    rig.gate.release_confirmed()
    assert rig.answered == [], "it could still take over"
    rig.required[0] = None
    rig.gate.release_confirmed()
    assert rig.answered == [(number, ResponseCode.SLAVE_NOT_AVAILABLE)]


async def test_oneway_sends_are_not_answered() -> None:
    rig = Rig()
    replica = rig.replica(0)
    rig.send(500, oneway=True)
    rig.says(replica, 1_000)
    rig.replicas.disconnected(replica)
    rig.send(600, oneway=True)
    assert rig.answered == [] and rig.gate.is_empty


async def test_what_an_internal_write_does_wrong_is_its_own_affair() -> None:
    rig = Rig()
    replica = rig.replica(0)
    told: list[MQError | None] = []

    def fails(error: MQError | None) -> None:
        raise RuntimeError("a defect")

    rig.write_internally(500, [fails, told.append])
    number = rig.send(500)
    rig.says(replica, 500)
    assert told == [None] and rig.answered == [(number, 0)]


async def test_times_are_taken_when_replicas_have_answered_and_each_status_is_counted() -> None:
    rig = Rig()
    replica = rig.replica(0)
    rig.send(500)
    rig.clock.advance_ms(70)
    assert rig.counted() == {}, "it waits"
    rig.says(replica, 500)
    assert rig.counted() == {0: (1, 70)}
    rig.send(600)
    rig.clock.advance_ms(TIMEOUT_MS)
    rig.gate.release_confirmed()
    rig.replicas.disconnected(replica)
    rig.send(700)
    assert rig.counted() == {
        0: (1, 70),
        ResponseCode.FLUSH_SLAVE_TIMEOUT: (1, TIMEOUT_MS),
        ResponseCode.SLAVE_NOT_AVAILABLE: (1, 0),
    }


async def test_what_one_report_confirms_leaves_in_one_write_for_each_connection() -> None:
    rig = Rig()
    replica = rig.replica(0)
    written: dict[str, list[str]] = {"a": [], "b": []}
    queued: dict[str, str] = {"a": "", "b": ""}

    def peer(name: str) -> SimpleNamespace:
        def queue(response: bytes, count: int) -> bool:
            queued[name] += response.decode()
            return True

        def send_now(response: bytes, count: int) -> None:
            written[name].append(queued[name] + response.decode())

        return SimpleNamespace(queue=queue, send_now=send_now)

    peers = {name: peer(name) for name in written}
    for number in range(3):
        sends = [cast(PendingSend, (peers[name], SendsOfOneRead(1, 1), f"{number}".encode())) for name in "ab"]
        rig.gate.take(Commit(100 * number + 100, sends, 2, [], NO_QUEUES, rig.clock.monotonic_ms()))
    rig.says(replica, 300)
    assert written == {"a": ["012"], "b": ["012"]}


async def test_the_disk_of_the_master_is_part_of_the_time_but_not_of_the_patience_with_replicas() -> None:
    rig = Rig()
    replica = rig.replica(0)
    connection = SimpleNamespace(send=None, send_now=lambda response, count: None)
    pending = cast(PendingSend, (connection, SendsOfOneRead(1, 1), b"x"))
    committed_ms = rig.clock.monotonic_ms()
    rig.clock.advance_ms(TIMEOUT_MS - 1)
    rig.gate.take(Commit(500, [pending], 1, [], NO_QUEUES, committed_ms))
    rig.clock.advance_ms(TIMEOUT_MS - 1)
    rig.says(replica, 500)
    assert rig.counted() == {0: (1, 2 * TIMEOUT_MS - 2)}


async def test_with_too_few_replicas_what_those_have_that_the_lease_names_is_answered_alone() -> None:
    """Three copies are wanted, one replica is gone, the other may take over: it is waited for, and no longer."""
    rig = Rig()
    rig.required[0] = 0
    number = rig.send(500)
    assert rig.answered == []
    rig.required[0] = 500
    rig.gate.release_confirmed()
    assert rig.answered == [(number, ResponseCode.SLAVE_NOT_AVAILABLE)] and rig.gate.alone == 1
