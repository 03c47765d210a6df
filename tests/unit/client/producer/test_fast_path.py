"""The fast path: the time that a send has begins when it is sent, however long the loop was blocked before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pyromq.client.core.settings import ProducerSettings
from pyromq.client.producer.fast_path import FastPath
from pyromq.errors import RequestTimeoutError
from pyromq.model.message import Message
from pyromq.model.queue import QueueId
from tests.unit.net.fakes import Rig, turn

SETTINGS = ProducerSettings(timeout_ms=3_000)
BLOCK_MS = 60_000


class Frames:
    def encode(self, *_: object) -> bytes:
        return b"frame"


def path_to(*rigs: Rig) -> FastPath:
    """Sends go to the brokers in turns; all of them have the clock of the first."""
    places = iter(range(1_000))
    queues = SimpleNamespace(
        topic="orders",
        is_borrowed=False,
        next_place=lambda: next(places) % len(rigs),
        queues=[QueueId("orders", f"broker-{number}", 0) for number in range(len(rigs))],
        links={f"broker-{number}": SimpleNamespace(ready=rig.connection) for number, rig in enumerate(rigs)},
        frames=[Frames() for _ in rigs],
    )
    client = SimpleNamespace(
        clock=rigs[0].clock,
        message_ids=SimpleNamespace(next=lambda now_ms: "ID"),
        signer=SimpleNamespace(is_needed=False),
        silence=SimpleNamespace(is_watching=True),
    )
    context: Any = SimpleNamespace(
        client=client,
        settings=SETTINGS,
        system="",
        topic_queues_table=SimpleNamespace(known={"orders": queues}),
        retrying_sender=None,
    )
    path = FastPath(context)
    path.is_open = True
    return path


def begin(path: FastPath) -> Any:
    begun = path.begin(Message("orders", b"body"), None)
    assert begun is not None
    return begun


async def test_a_send_after_a_block_in_the_same_turn_has_all_of_its_time() -> None:
    rig = Rig(is_server=False)
    path = path_to(rig)
    before = begin(path)
    rig.clock.advance_ms(BLOCK_MS)  # the application computes, and the loop does not turn
    after = begin(path)
    assert after[0].deadline_ms - rig.clock.monotonic_ms() == 3_000
    assert after[0].restart_deadline_ms - before[0].restart_deadline_ms == BLOCK_MS
    rig.connection.fail_late_requests()
    assert isinstance(before[3].exception(), RequestTimeoutError)
    assert not after[3].done()
    rig.clock.advance_ms(3_000)
    rig.connection.fail_late_requests()
    assert isinstance(after[3].exception(), RequestTimeoutError)
    await turn()


async def test_a_block_counts_for_every_connection() -> None:
    one, other = Rig(is_server=False), Rig(is_server=False)
    other.connection._pending_calls._clock = one.clock
    path = path_to(one, other)
    for _ in range(2):
        begin(path)
    one.clock.advance_ms(BLOCK_MS)
    late = [begin(path) for _ in range(4)]
    for rig in (one, other):
        rig.connection.fail_late_requests()
    assert [each[0].deadline_ms - one.clock.monotonic_ms() for each in late] == [3_000] * 4
    assert not any(each[3].done() for each in late)
    await turn()


async def test_a_wall_clock_that_is_set_back_costs_a_send_nothing() -> None:
    rig = Rig(is_server=False)
    path = path_to(rig)
    begin(path)
    now_ms = rig.clock.now_ms()
    rig.clock.advance_ms(BLOCK_MS)
    rig.clock.set_ms(now_ms - 5_000)
    after = begin(path)
    rig.connection.fail_late_requests()
    assert not after[3].done()
    assert after[0].deadline_ms - rig.clock.monotonic_ms() == 3_000
    await turn()


async def test_other_requests_after_a_block_have_all_of_their_time_too() -> None:
    rig = Rig(is_server=False)
    begin(path_to(rig))
    rig.clock.advance_ms(BLOCK_MS)
    response = rig.connection.request_nowait(105, timeout_ms=1_000)
    rig.connection.fail_late_requests()
    assert not response.done()
    await turn()


async def test_a_wall_clock_that_stands_still_counts_within_a_turn_at_most() -> None:
    rig = Rig(is_server=False)
    path = path_to(rig)
    begin(path)
    await turn()
    now_ms = rig.clock.now_ms()
    rig.clock.advance_ms(BLOCK_MS)
    rig.clock.set_ms(now_ms)
    after = begin(path)
    rig.connection.fail_late_requests()
    assert not after[3].done()
    assert after[0].deadline_ms - rig.clock.monotonic_ms() == 3_000
    await turn()


async def test_a_send_has_the_broker_watched_until_it_answers() -> None:
    rig = Rig(is_server=False)
    path = path_to(rig)
    calls: list[str] = []
    path._client.silence = SimpleNamespace(is_watching=False, expect=lambda: calls.append("expect"))  # type: ignore[assignment]
    begin(path)
    assert calls == ["expect"]
    await turn()
