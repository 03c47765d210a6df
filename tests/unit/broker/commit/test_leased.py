"""Without its lease a broker says of nothing that it is stored: not at the commit, not after the flush, not later."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pyromq.broker.base.authority import Leased, not_master
from pyromq.broker.base.lease import Lease
from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.commit.commit import SendsOfOneRead
from pyromq.broker.commit.internal_writes import InternalWrites
from pyromq.broker.commit.send_gate import HOLD_MS_MAX
from pyromq.broker.dispatching.plan import Lanes, plan_requests
from pyromq.broker.replicating.replica_refusals import leased_layer, shut_layer
from pyromq.errors import MQError
from pyromq.store.settings import Flush
from pyromq.testing import FaultyDisk, ManualClock
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import encode_response
from pyromq.wire.record import Draft
from tests.unit.broker.base.test_lease import Watch, lease_of
from tests.unit.broker.builders import Wire
from tests.unit.broker.commit.test_group_commit import ORDERS, Rig
from tests.unit.broker.commit.test_replica_stage import Rig as StageRig
from tests.unit.broker.commit.test_send_gate import Door
from tests.unit.net.fakes import turn

IN_DOUBT, MOVED = int(ResponseCode.SYSTEM_ERROR), int(ResponseCode.SERVICE_NOT_AVAILABLE)


def granted(watch: Watch) -> Lease:
    lease = lease_of(FaultyDisk(), watch)
    lease.promoted(1, 0)
    assert lease.grant(1, watch.now_s + 5, ())
    return lease


@pytest.mark.parametrize("flush", list(Flush))
async def test_a_grant_that_ends_while_a_message_is_under_way_makes_its_answer_a_doubt(flush: Flush) -> None:
    wire, watch = Wire(), Watch()
    lease = granted(watch)
    rig = Rig(flush, lease)
    rig.send(wire)
    await turn()
    while rig.worker.waiting:
        await rig.worker.work()
    assert wire.codes == [0] and lease.acknowledged == rig.store.end_position
    rig.send(wire)
    watch.now_s += 5  # stopped here, for as long as the grant was
    await turn()
    while rig.worker.waiting:
        await rig.worker.work()
    assert wire.codes == [0, IN_DOUBT] and lease.acknowledged < rig.store.end_position


async def test_what_the_send_lane_staged_is_looked_at_when_its_answers_leave() -> None:
    wire, watch = Wire(), Watch()
    rig = Rig(Flush.ASYNC, granted(watch))
    responses = b"".join(encode_response(ResponseCode.SUCCESS, number) for number in (7, 8))
    rig.store.stage(Draft(topic="orders", queue_id=0, body=b"x"))
    rig.group_commit.staged_together(wire.as_connection, SendsOfOneRead(2, 2), responses, [rig.store.queues[ORDERS]])
    watch.now_s += 5
    rig.group_commit.commit_now()
    assert wire.codes == [IN_DOUBT, IN_DOUBT]


async def test_a_disk_that_is_too_slow_does_not_say_stored_after_the_end_of_the_lease() -> None:
    wire, watch = Wire(), Watch()
    rig = Rig(Flush.SYNC, granted(watch), sync_flush_timeout_ms=1_000)
    rig.send(wire)
    await turn()
    rig.clock.advance_ms(1_001)
    watch.now_s += 5
    rig.stage.answer_overdue()
    assert wire.codes == [IN_DOUBT], "FLUSH_DISK_TIMEOUT would mean that it is stored"


@pytest.mark.parametrize("flush", list(Flush))
async def test_internal_writes_hear_that_the_lease_has_ended(flush: Flush) -> None:
    watch = Watch()
    rig = Rig(flush, granted(watch))
    told: list[MQError | None] = []
    writes = InternalWrites(rig.store, rig.group_commit)
    writes.put(Draft(topic="orders", queue_id=0, body=b"x"), told.append)
    watch.now_s += 5
    await turn()
    while rig.worker.waiting:
        await rig.worker.work()
    assert len(told) == 1 and isinstance(told[0], RefusedError)


# --- replicas ---


def leased_stage(watch: Watch, floor: list[int | None]) -> tuple[StageRig, Lease]:
    lease = Lease(watch)
    rig = StageRig(authority=Leased(lease))
    rig.required = floor
    lease.state = lease.state.__class__(number=1, role="master", members=("b:1",))  # as on disk: nothing is saved here
    assert lease.grant(1, watch.now_s + 5, ())
    return rig, lease


async def test_all_members_that_the_lease_names_must_have_it() -> None:
    floor: list[int | None] = [0]
    rig, lease = leased_stage(Watch(), floor)
    replica = rig.replica(0)
    number = rig.send(500)
    rig.says(replica, 1_000)
    assert rig.answered == [], "another member misses it"
    floor[0] = 499
    rig.gate.release_confirmed()
    assert rig.answered == [] and lease.acknowledged == 0
    floor[0] = 500
    rig.gate.release_confirmed()
    assert rig.answered == [(number, 0)] and lease.acknowledged == 500


async def test_what_waits_for_replicas_when_the_lease_ends_is_refused_although_they_have_it() -> None:
    watch, told = Watch(), cast(list[MQError | None], [])
    rig, lease = leased_stage(watch, [None])
    replica = rig.replica(0)
    number = rig.send(500)
    rig.write_internally(500, [told.append])
    watch.now_s += 5
    rig.says(replica, 500)
    assert [code for _, code in rig.answered] == [1] and rig.answered[0][0] == number
    assert isinstance(told[0], RefusedError) and lease.acknowledged == 0
    await rig.gate.drain()


async def test_too_few_replicas_are_no_reason_to_say_stored_without_a_lease() -> None:
    watch = Watch()
    rig, _ = leased_stage(watch, [None])
    watch.now_s += 5
    rig.send(500)
    assert [code for _, code in rig.answered] == [1]


async def test_a_member_that_is_gone_is_waited_for_until_the_lease_names_it_no_more() -> None:
    floor: list[int | None] = [0]
    rig, lease = leased_stage(Watch(), floor)
    assert lease.grant(1, Watch.now_s + 5, ("b:1",))
    number = rig.send(500)
    assert rig.answered == [], "it could take over, and lacks the message"
    floor[0] = None
    assert lease.grant(1, Watch.now_s + 5, ())
    rig.gate.release_confirmed()
    assert rig.answered == [(number, ResponseCode.SLAVE_NOT_AVAILABLE)]
    assert lease.acknowledged == 500, "who joins has to have it"


# --- the door ---


async def test_without_a_lease_no_send_passes() -> None:
    wire, watch = Wire(), Watch()
    door = Door(lease=granted(watch))
    door.gate.update_pressure()
    assert not door.gate.closed
    watch.now_s += 5
    door.gate.update_pressure()
    assert door.gate.closed
    with pytest.raises(RefusedError) as refused:
        door.send(wire)
    assert refused.value.code == MOVED
    with pytest.raises(RefusedError):
        door.gate.check_stuck()
    with pytest.raises(RefusedError):
        door.gate.check_master()


async def test_sends_that_waited_are_refused_when_the_lease_has_ended_meanwhile() -> None:
    wire, watch = Wire(), Watch()
    door = Door(lease=granted(watch))
    door.gate.hold()
    door.send(wire)
    watch.now_s += 5
    with pytest.raises(RefusedError) as refused:  # for the broker, which answers it
        door.gate.release()
    assert (refused.value.code, door.handled, len(door.gate)) == (MOVED, [], 0), "and nothing of it is stored"


async def test_held_sends_wait_and_pass_in_order_after_the_release() -> None:
    door, wire = Door(), Wire()
    door.gate.hold()
    for _ in range(3):
        door.send(wire)
    door.rig.clock.advance_ms(HOLD_MS_MAX - 1)
    door.gate.scan()
    assert (len(door.gate), door.handled, wire.codes) == (3, [], [])
    with pytest.raises(RefusedError):
        door.gate.check_master()
    door.gate.release()
    door.gate.release()
    while door.rig.worker.waiting or len(door.gate) or not door.handled:
        await turn()
        if door.rig.worker.waiting:
            await door.rig.worker.work()
    assert door.handled == [1, 2, 3]


async def test_held_sends_do_not_wait_for_ever_and_the_hold_does_not_end_by_itself() -> None:
    door, wire = Door(), Wire()
    door.gate.hold()
    door.send(wire)
    door.rig.clock.advance_ms(HOLD_MS_MAX)
    door.gate.scan()
    assert (len(door.gate), wire.codes) == (0, [ResponseCode.SYSTEM_BUSY])
    assert door.gate.is_held and door.gate.closed, "another broker may be master by now"


async def test_held_sends_are_sent_away_when_another_broker_is_master() -> None:
    door, wire = Door(), Wire()
    door.gate.hold()
    door.send(wire)
    door.gate.send_away(not_master())
    assert (len(door.gate), wire.codes, door.handled) == (0, [MOVED], [])


def test_without_its_lease_a_broker_changes_nothing_and_gives_no_locks() -> None:
    def refuse() -> None:
        raise RefusedError(ResponseCode.SERVICE_NOT_AVAILABLE, "its lease has ended")

    def answered(connection: Any, request: Any) -> str:
        return "answered"

    codes = (RequestCode.LOCK_BATCH_MQ, RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.GET_BROKER_RUNTIME_INFO)
    table = dict.fromkeys(map(int, codes), cast(Any, answered))
    handlers = plan_requests(table, {}, [leased_layer(refuse)], Lanes()).immediate
    for code in codes[:2]:  # two members of a group could own one queue, each by another broker
        with pytest.raises(RefusedError, match="its lease has ended"):
            handlers[code](cast(Any, None), cast(Any, None))
    assert cast(Any, handlers[codes[2]])(None, None) == "answered"


def test_pulls_of_a_master_that_is_not_read_yet_are_repeated_soon_at_first() -> None:
    def answered(connection: Any, request: Any) -> str:
        return "answered"

    clock, pull, other = ManualClock(), int(RequestCode.PULL_MESSAGE), int(RequestCode.QUERY_MESSAGE)
    table = dict.fromkeys((pull, other), cast(Any, answered))
    handlers: Any = plan_requests({}, table, [shut_layer(clock)], Lanes()).deferred
    assert handlers[other](None, None) == "answered"
    soon, later = ResponseCode.FLOW_CONTROL, ResponseCode.SERVICE_NOT_AVAILABLE
    for after_ms, code in ((0, soon), (1_999, soon), (1, later)):
        clock.advance_ms(after_ms)
        with pytest.raises(RefusedError) as refused:
            handlers[pull](None, None)
        assert refused.value.code == code
