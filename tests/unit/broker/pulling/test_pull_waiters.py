from __future__ import annotations

from pyromq.broker.pulling.pull_waiters import HeldPull, PullWaiters
from pyromq.broker.state.subscriptions import PullFilter
from pyromq.testing import ManualClock
from tests.unit.broker.builders import Wire, request

ORDERS, PAYMENTS = ("orders", 0), ("payments", 0)


class Rig:
    def __init__(self, held_max: int = 100) -> None:
        self.clock = ManualClock()
        self.waiters = PullWaiters(self.clock, held_max)
        self.wire = Wire()

    def hold(self, queue: tuple[str, int] = ORDERS, *, wait_ms: int = 1_000, wire: Wire | None = None) -> HeldPull:
        connection = (wire or self.wire).as_connection
        held = HeldPull(connection, request(), queue, 0, self.clock.monotonic_ms() + wait_ms, PullFilter())
        self.waiters.hold(held)
        return held


def test_pulls_are_due_in_the_order_of_their_deadlines() -> None:
    rig = Rig()
    late, soon, middle = rig.hold(wait_ms=300), rig.hold(wait_ms=100), rig.hold(wait_ms=200)
    assert rig.waiters.next_deadline_ms() == 100
    rig.clock.advance_ms(99)
    assert rig.waiters.due() == []
    rig.clock.advance_ms(101)
    assert rig.waiters.due() == [soon, middle]
    assert len(rig.waiters) == 1 and rig.waiters.of_queue(ORDERS) == [late]


def test_an_answered_pull_is_never_due() -> None:
    rig = Rig()
    answered, other = rig.hold(), rig.hold(wait_ms=2_000)
    rig.waiters.release(answered)
    rig.waiters.release(answered)
    assert len(rig.waiters) == 1 and rig.waiters.next_deadline_ms() == 2_000
    rig.clock.advance_ms(5_000)
    assert rig.waiters.due() == [other]
    assert len(rig.waiters) == 0 and rig.waiters.next_deadline_ms() is None


def test_only_pulls_of_a_queue_are_concerned_by_its_messages() -> None:
    rig = Rig()
    first, second, _ = rig.hold(), rig.hold(), rig.hold(PAYMENTS)
    assert rig.waiters.of_queue(ORDERS) == [first, second]
    assert rig.waiters.of_queue(("orders", 1)) == []


def test_a_lost_connection_takes_its_pulls_along_and_no_others() -> None:
    rig, gone = Rig(), Wire()
    rig.hold(wire=gone)
    rig.hold(PAYMENTS, wire=gone)
    kept = rig.hold()
    rig.waiters.drop_connection(gone.as_connection)
    rig.waiters.drop_connection(gone.as_connection)
    assert len(rig.waiters) == 1 and rig.waiters.of_queue(PAYMENTS) == []
    rig.clock.advance_ms(1_000)
    assert rig.waiters.due() == [kept]


def test_there_is_a_limit_to_how_many_are_held() -> None:
    rig = Rig(held_max=2)
    rig.hold()
    assert not rig.waiters.full
    held = rig.hold()
    assert rig.waiters.full
    rig.waiters.release(held)
    assert not rig.waiters.full


def test_answered_pulls_are_forgotten_long_before_their_time() -> None:
    rig = Rig(held_max=100_000)
    waiting = rig.hold(wait_ms=30_000)
    for _ in range(10_000):
        rig.waiters.release(rig.hold(wait_ms=20_000))
    assert len(rig.waiters._deadlines) < 2_000
    rig.clock.advance_ms(30_000)
    assert rig.waiters.due() == [waiting]
