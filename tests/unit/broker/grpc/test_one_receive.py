"""One truth: receives and acknowledgements, with what the compiled core encodes and reads and without, are the same."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from pyromq.broker.grpc import settling
from pyromq.broker.popping.calls import PopRequest
from pyromq.compiled_core import DESCRIPTION, core
from pyromq.net.http2 import Http2Limits
from pyromq.store.settings import Flush
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.grpc.definitions import (
    GrpcMessage,
    Resource,
)
from pyromq.wire.grpc.services import (
    AckMessageEntry,
)
from pyromq.wire.http2 import frames
from tests.running.seeds import seeds
from tests.unit.broker.grpc.consumer import Consumer, consuming, entries_of, messages_of, receive_of
from tests.unit.broker.sending.lane_rig import LaneRig

needs_core = pytest.mark.skipif(core is None, reason=f"nothing to compare: {DESCRIPTION}")
OK, INVALID, SEVERAL = 20000, 40013, 30000


async def outcome_of(seed: int, flush: Flush, *, with_core: bool) -> dict[str, Any]:
    rng = Random(seed)
    async with LaneRig(with_core, flush, seed, store={"body_bytes_max": 30_000}) as rig:
        consumer, statuses = await consuming(rig), list[Any]()
        if not with_core:
            rig.broker._grpc._receiving._deliveries = None
        for _ in range(12):
            await consumer.send(rng, rng.choice((0, 3, 12)))
            rig.clock.advance_ms(rng.choice((0, 10, 31_000)))
            entries = entries_of(await asked(consumer, rng))
            kept = [each for each in entries if rng.random() < 0.8]
            odd = [AckMessageEntry(message_id="m", receipt_handle=text) for text in odd_handles(rng, entries)]
            for part in (kept, odd, kept[:1] * 2):
                if part:
                    answered = await consumer.ack(part)
                    statuses.append([(each.receipt_handle, each.status) for each in answered.entries])
        outcome = rig.outcome()
        outcome["streams"] = consumer.peer.streams()
        outcome["statuses"] = statuses
        table = rig.broker.parts.popping.pops.table
        outcome["rows"] = {name: (each.low, each.next, sorted(each.rows)) for name, each in table.queues.items()}
    rig.assert_derived_again()
    return outcome


async def asked(consumer: Consumer, rng: Random) -> list[GrpcMessage]:
    """A receive that finds something at once: one that waits would wait for the clock."""
    pops = consumer._rig.broker.parts.popping.pops
    if not pops.has_some(pops.plans.plan(PopRequest(group="billing", topic="orders"))):
        return []
    return await consumer.receive(rng.choice((1, 5, 32)), renew=rng.random() < 0.2)


def odd_handles(rng: Random, entries: list[AckMessageEntry]) -> list[str]:
    found = []
    for each in entries[: rng.choice((0, 0, 2))]:
        words = each.receipt_handle.split(" ")
        words[rng.choice((1, 3, 5, 6, 7))] = rng.choice(("1", "+2", "x", "broker-z"))
        found.append(" ".join(words))
    return found


@needs_core
@pytest.mark.parametrize("flush", [Flush.ASYNC, Flush.SYNC])
@pytest.mark.parametrize("seed", seeds(4))
async def test_the_same_receives_bring_about_the_same(seed: int, flush: Flush, monkeypatch: pytest.MonkeyPatch) -> None:
    found = await outcome_of(seed, flush, with_core=True)
    monkeypatch.setattr(settling, "core", None)
    expected = await outcome_of(seed, flush, with_core=False)
    for name, value in expected.items():
        assert found[name] == value, name
    assert any(OK in [status.code for _, status in each] for each in found["statuses"])


@pytest.mark.parametrize("by_core", [True, False])
async def test_each_acknowledgement_of_a_call_has_its_own_status(
    by_core: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not by_core:
        monkeypatch.setattr(settling, "core", None)
    async with LaneRig(with_core=by_core and core is not None) as rig:
        consumer = await consuming(rig)
        await consumer.send(Random(1), 4)
        entries = entries_of(await consumer.receive(32))
        assert len(entries) == 4
        other = await consumer.ack(entries, group=Resource(name="strangers"))
        assert other.status is not None and other.status.code == INVALID, "receipts are of their group"
        answered = await consumer.ack([entries[0], entries[1], entries[0]])
        assert answered.status is not None and answered.status.code == SEVERAL
        assert [each.status.code for each in answered.entries if each.status] == [OK, OK, INVALID]
        again = await consumer.ack([entries[1]])
        assert again.status is not None and again.status.code == INVALID
        rest = await consumer.ack(entries[2:])
        assert rest.status is not None and rest.status.code == OK
        assert not any(queue.rows for queue in rig.broker.parts.popping.pops.table.queues.values())


@pytest.mark.parametrize("by_core", [True, False])
async def test_an_acknowledgement_that_is_not_written_down_is_refused(
    by_core: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not by_core:
        monkeypatch.setattr(settling, "core", None)
    async with LaneRig(by_core and core is not None, Flush.SYNC) as rig:
        consumer = await consuming(rig)
        await consumer.send(Random(1), 2)
        entries = entries_of(await consumer.receive(32))
        rig.disk.fail_syncs()
        answered = await consumer.ack(entries)
        assert answered.status is not None and answered.status.code not in (OK, SEVERAL, INVALID)
        assert all(each.status == answered.status for each in answered.entries)
        assert sum(len(queue.rows) for queue in rig.broker.parts.popping.pops.table.queues.values()) == 2


async def receiving_in_a_spent_turn(rig: LaneRig) -> tuple[Consumer, int]:
    """A client whose receive was popped for, and waits for a turn in which its connection may be given more."""
    consumer = await consuming(rig)
    await consumer.send(Random(1), 3)
    connection = consumer.peer.connection
    connection.turns.given = Http2Limits().bytes_per_turn
    stream_id = consumer.ask("ReceiveMessage", receive_of(32))
    table = rig.broker.parts.popping.pops.table
    for _ in range(20):
        if not any(queue.rows for queue in table.queues.values()):
            await asyncio.sleep(0)
    connection._out.flush()
    assert stream_id not in consumer.peer.streams(), "this turn is spent"
    return consumer, stream_id


@pytest.mark.parametrize("with_core", [pytest.param(True, marks=needs_core), False])
async def test_messages_wait_for_a_turn_that_is_not_spent(with_core: bool) -> None:
    async with LaneRig(with_core) as rig:
        consumer, stream_id = await receiving_in_a_spent_turn(rig)
        await rig.settle()
        assert len(messages_of(consumer.answer(stream_id))) == 3


@pytest.mark.parametrize("with_core", [pytest.param(True, marks=needs_core), False])
@pytest.mark.parametrize("is_lost", [True, False])
async def test_messages_whose_client_left_before_their_turn_are_given_back(with_core: bool, is_lost: bool) -> None:
    async with LaneRig(with_core) as rig:
        consumer, stream_id = await receiving_in_a_spent_turn(rig)
        if is_lost:
            consumer.peer.connection.connection_lost(None)
        else:
            consumer.peer.connection.data_received(frames.encode_reset(stream_id, frames.Http2Code.CANCEL))
        for _ in range(3):
            await rig.settle()
        assert not any(kind == frames.DATA for kind, *_ in consumer.peer.streams().get(stream_id, ()))
        rig.clock.advance_ms(settling.GIVEN_BACK_MS)
        found = await Consumer(rig).receive(32)
        assert len(found) == 3
        attempts = [each.system_properties.delivery_attempt for each in found if each.system_properties]
        assert attempts == [1, 1, 1], "the delivery that nobody got does not count"


async def test_acknowledgements_that_are_refused_at_once_are_counted_once() -> None:
    async with LaneRig(with_core=False) as rig:
        consumer = await consuming(rig)
        await consumer.send(Random(1), 1)
        entries = entries_of(await consumer.receive(1))
        for _ in range(2):
            await consumer.ack(entries)
        latency = rig.broker.parts.stats.counters.requests.latency
        counts = {key[1]: each.count for key, each in latency.items() if key[0] == RequestCode.ACK_MESSAGE}
        assert counts == {ResponseCode.SUCCESS: 1, ResponseCode.NO_MESSAGE: 1}
