"""Flow control: each scenario is brought about, and each ends by itself."""

from __future__ import annotations

import asyncio
from math import ceil
from typing import Any, cast

import pytest

from pyromq.broker.base.lease import Lease
from pyromq.broker.base.refusals import RefusedError
from pyromq.net import Connection
from pyromq.net.turns import TURN_S
from pyromq.store.settings import Flush
from pyromq.wire.received import Received
from tests.unit.broker.builders import Wire
from tests.unit.broker.commit.test_group_commit import Rig
from tests.unit.net.fakes import turn


class Door:
    """A gate before a group commit of which two sends may wait for the disk."""

    def __init__(self, flush: Flush = Flush.SYNC, lease: Lease | None = None, **limits: Any) -> None:
        limits = {"parked_sends_max": 3, "parked_bytes_max": 1_000} | limits
        limits |= {"unflushed_sends_max": 2, "stuck_disk_ms": 1_000, "unflushed_bytes_max": 200}  # a record has 100
        self.rig = Rig(flush, lease, self._handle, **limits)
        self.counters, self.gate = self.rig.counters, self.rig.gate
        self.handled: list[int] = []
        self._wires: dict[int, Wire] = {}
        self._number = 0

    def _handle(self, connection: Connection, requests: list[Received[Any]]) -> None:
        for request in requests:
            if not self.gate.closed or self.gate.passes(connection, request):
                self.handled.append(request.correlation_id)
                self.rig.send(self._wires[request.correlation_id])

    def send(self, wire: Wire, body: bytes = b"x") -> None:
        self._number += 1
        self._wires[self._number] = wire
        request: Received[Any] = Received(code=310, header=None, correlation_id=self._number, body=body)
        self._handle(wire.as_connection, [request])

    async def fill(self, wire: Wire) -> None:
        """Two sends, which wait for the disk."""
        self.send(wire)
        self.send(wire)
        await turn()


async def test_while_the_disk_keeps_up_no_send_waits() -> None:
    door, wire = Door(), Wire()
    door.send(wire)
    await turn()
    assert (door.gate.closed, len(door.gate), door.handled) == (False, 0, [1])


async def test_sends_wait_in_order_until_the_disk_has_taken_some() -> None:
    door, wire = Door(), Wire()
    await door.fill(wire)
    assert door.gate.closed
    door.send(wire)
    door.send(wire)
    assert (len(door.gate), door.handled) == (2, [1, 2])
    await door.rig.worker.work()
    assert (len(door.gate), door.handled, wire.codes) == (0, [1, 2, 3, 4], [0, 0])
    while door.rig.worker.waiting:
        await door.rig.worker.work()
    assert (wire.codes, door.gate.closed, door.counters.put_refused) == ([0] * 4, False, 0)


async def test_bytes_may_wait_up_to_the_limit_again_and_again() -> None:
    door, wire = Door(parked_bytes_max=10), Wire()
    for first in (1, 4):
        await door.fill(wire)
        door.send(wire, b"10 bytes, ")
        with pytest.raises(RefusedError, match="OVERLOAD"):
            door.send(wire, b"1")
        assert len(door.gate) == 1
        while door.rig.worker.waiting or len(door.gate):
            await door.rig.worker.work()
        door._number -= 1  # of the one that was refused
        assert door.handled[-3:] == [first, first + 1, first + 2]


async def test_many_sends_that_waited_have_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    door, wire = Door(parked_sends_max=100), Wire()
    await door.fill(wire)
    for _ in range(9):
        door.send(wire)
    handle = door.gate._handle

    def slowly(connection: Connection, requests: list[Received[Any]]) -> None:
        handle(connection, requests)
        door.rig.clock.advance_ms(ceil(TURN_S * 500))

    monkeypatch.setattr(door.gate, "_handle", slowly)
    monkeypatch.setattr(door.rig.pressure, "_waiting_max", 100)
    door.gate.update_pressure()
    assert (door.handled, door.gate.closed) == ([1, 2, 3, 4], True), "as many as fit into a turn"
    door.send(wire)
    assert door.handled == [1, 2, 3, 4], "and the next one is not before those that wait"
    for _ in range(5):
        await asyncio.sleep(0)
    assert (door.handled, door.gate.closed) == (list(range(1, 13)), False)


async def test_a_send_that_waits_too_long_is_told_for_how_long() -> None:
    door, wire, late = Door(), Wire(), Wire()
    await door.fill(wire)
    door.send(late)
    door.rig.clock.advance_ms(150)
    door.send(late)
    door.gate.scan()
    assert late.codes == []
    door.rig.clock.advance_ms(50)
    door.gate.scan()
    remark = (
        "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: 200ms, size of queue: 2"
    )
    assert [response.remark for response in late.responses] == [remark]
    assert (late.codes, len(door.gate), door.counters.refused_from_queue_late) == ([2], 1, 1)
    await door.rig.worker.work()
    assert (door.handled, len(door.gate)) == ([1, 2, 4], 0), "it goes on, without the one that was told to come back"


@pytest.mark.parametrize("limits", [{"parked_sends_max": 1}, {"parked_bytes_max": 15}])
async def test_without_room_to_wait_the_broker_is_overloaded(limits: dict[str, int]) -> None:
    door, wire = Door(**limits), Wire()
    await door.fill(wire)
    door.send(wire, b"ten bytes!")
    with pytest.raises(RefusedError, match=r"\[OVERLOAD\]system busy, start flow control for a while"):
        door.send(wire, b"ten bytes!")
    assert door.counters.refused_overload == 1
    await door.rig.worker.work()
    door.send(wire)
    while door.rig.worker.waiting:
        await door.rig.worker.work()
    assert (door.handled, wire.codes) == ([1, 2, 3, 5], [0, 0, 0, 0])


async def test_a_stuck_disk_closes_the_door_and_sends_the_waiting_away() -> None:
    door, wire, waiting, late = Door(), Wire(), Wire(), Wire()
    await door.fill(wire)
    door.send(waiting)
    door.rig.clock.advance_ms(1_001)
    door.gate.scan()
    assert [(response.code, (response.remark or "")[:20]) for response in waiting.responses] == [
        (2, "[PCBUSY_CLEAN_QUEUE]")
    ]
    with pytest.raises(RefusedError, match=r"\[REJECTREQUEST\]system busy, start flow control for a while"):
        door.send(late)
    with pytest.raises(RefusedError, match=r"\[PC_SYNCHRONIZED\]broker busy, start flow control for a while"):
        door.gate.check_stuck()
    counted = door.counters
    assert (counted.refused_from_queue_stuck, counted.refused_at_door, counted.refused_stuck) == (1, 1, 1)
    assert counted.put_refused == 3
    await door.rig.worker.work()
    door.gate.check_stuck()
    door.send(late)
    await turn()
    await door.rig.worker.work()
    assert (late.codes, wire.codes, door.gate.closed) == ([0], [0, 0], False)


async def test_parked_sends_are_refused_without_another_request() -> None:
    door, wire, late = Door(), Wire(), Wire()
    await door.fill(wire)
    door.send(late)
    door.rig.clock.advance_ms(500)
    while not late.codes:
        await turn()
    assert late.codes == [2]


# --- async flush: no send waits for a flush, but so many bytes may be at stake and no more ---


@pytest.fixture(params=[Flush.SYNC, Flush.ASYNC])
def flush(request: pytest.FixtureRequest) -> Flush:
    return cast(Flush, request.param)


async def test_sends_wait_while_too_much_is_not_on_disk_and_go_on_after_the_flush(flush: Flush) -> None:
    door, wire = Door(flush), Wire()
    await door.fill(wire)
    assert door.gate.closed and len(door.rig.worker.waiting) == 1
    door.send(wire)
    assert (len(door.gate), door.handled) == (1, [1, 2])
    await door.rig.worker.work()
    await turn()
    assert (len(door.gate), door.handled) == (0, [1, 2, 3])
    while door.rig.worker.waiting:
        await door.rig.worker.work()
    assert (wire.codes, door.gate.closed, door.counters.put_refused) == ([0] * 3, False, 0)


async def test_both_flush_modes_refuse_in_rocketmqs_four_ways(flush: Flush) -> None:
    door, wire, parked = Door(flush), Wire(), Wire()
    await door.fill(wire)
    for _ in range(3):
        door.send(parked)
    with pytest.raises(RefusedError, match=r"\[OVERLOAD\]"):
        door.send(parked)
    door.rig.clock.advance_ms(200)
    door.gate.scan()
    assert [response.remark.split("]")[0] for response in parked.responses] == ["[TIMEOUT_CLEAN_QUEUE"] * 3
    door.send(parked)
    door.rig.clock.advance_ms(801)
    door.gate.scan()
    assert parked.responses[-1].remark.startswith("[PCBUSY_CLEAN_QUEUE]")
    with pytest.raises(RefusedError, match=r"\[REJECTREQUEST\]"):
        door.send(wire)
    with pytest.raises(RefusedError, match=r"\[PC_SYNCHRONIZED\]"):
        door.gate.check_stuck()
    await door.rig.worker.work()
    door.gate.check_stuck()
    door.send(wire)
    await turn()
    assert not door.rig.pressure.is_stuck


async def test_without_fast_failure_waiting_sends_wait_on(flush: Flush) -> None:
    door, wire, parked = Door(flush, fast_failure=False), Wire(), Wire()
    await door.fill(wire)
    door.send(parked)
    door.rig.clock.advance_ms(10_000)
    door.gate.scan()
    assert (parked.codes, len(door.gate)) == ([], 1)
    while door.rig.worker.waiting:
        await door.rig.worker.work()
    assert parked.codes == [0]


async def test_a_slow_flush_alone_refuses_nothing_with_async_flush() -> None:
    door, wire = Door(Flush.ASYNC), Wire()
    door.send(wire)
    await turn()
    door.rig.stage.flush_soon()
    door.rig.clock.advance_ms(60_000)
    door.gate.scan()
    assert not door.gate.closed
    door.gate.check_stuck()
    door.gate.check_busy()
    assert wire.codes == [0]


async def test_a_disk_that_failed_is_no_reason_to_wait_with_async_flush() -> None:
    door, wire = Door(Flush.ASYNC), Wire()
    await door.fill(wire)
    door.rig.failing = "sync"
    await door.rig.worker.work()
    door.gate.update_pressure()
    assert not door.gate.closed, "the store itself says why it refuses"
