"""Acknowledgements and receives by gRPC in the lane: what comes of calls is the same with it and without it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from pyromq.broker.grpc import settling
from pyromq.broker.popping.calls import PopRequest
from pyromq.compiled_core import DESCRIPTION, core
from pyromq.model.names import POP_JOURNAL_TOPIC
from pyromq.net.http2 import CallMethod, Http2Connection
from pyromq.store.settings import Flush
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.grpc.definitions import Resource
from pyromq.wire.grpc.protobuf import decode
from pyromq.wire.grpc.services import AckMessageEntry, AckMessageRequest, AckMessageResponse
from pyromq.wire.http2 import frames
from tests.running.seeds import seeds
from tests.unit.broker.grpc.consumer import (
    BILLING,
    ORDERS,
    Consumer,
    consuming,
    entries_of,
    messages_of,
    receive_of,
    warm_consumer,
)
from tests.unit.broker.grpc.test_one_receive import INVALID, OK, odd_handles
from tests.unit.broker.sending.lane_rig import LaneRig

needs_core = pytest.mark.skipif(core is None, reason=f"nothing to compare: {DESCRIPTION}")
STRANGERS = Resource(name="strangers")


class Taken:
    """Counts what the lane of a connection takes."""

    def __init__(self, connection: Http2Connection) -> None:
        self.calls = 0
        self._taken = connection.taken
        connection.taken = self._note  # type: ignore[method-assign]

    def _note(self, count: int, *more: int) -> None:
        self.calls += count
        self._taken(count, *more)


def ack_of(entries: list[AckMessageEntry], group: Resource = BILLING) -> AckMessageRequest:
    return AckMessageRequest(group=group, topic=ORDERS, entries=entries)


def codes_of(consumer: Consumer, stream_id: int) -> list[int]:
    """Codes of the entries of a response."""
    (answered,) = consumer.answer(stream_id)
    return [each.status.code for each in decode(AckMessageResponse, answered).entries if each.status]


# --- one truth ---


async def outcome_of(seed: int, flush: Flush, *, with_core: bool) -> tuple[dict[str, Any], int]:
    rng = Random(seed)
    async with LaneRig(with_core, flush, seed, store={"body_bytes_max": 30_000}) as rig:
        consumer = await consuming(rig)
        taken, receives = Taken(consumer.peer.connection), list[int]()
        if not with_core:
            rig.broker._grpc._receiving._deliveries = None
        entries: list[AckMessageEntry] = []
        for _ in range(14):
            await consumer.send(rng, rng.choice((0, 3, 12)))
            rig.clock.advance_ms(rng.choice((0, 10, 31_000)))
            consumer.timeout = rng.choice(("", "30S", "30000m", "4S"))  # the last is too short for a receive
            receives += await in_reads(rig, consumer, calls_of(rng, rig, entries), rng)
            answered = [number for number in receives[-3:] if number in consumer.peer.streams()]  # others wait
            entries = [each for number in answered for each in entries_of(messages_of(consumer.answer(number)))]
        outcome = rig.outcome()
        outcome["streams"] = consumer.peer.streams()
        outcome["connection"] = consumer.peer.connection.calls, consumer.peer.connection.calls_begun
        outcome["acks"] = ack_counts(rig)
        table = rig.broker.parts.popping.pops.table
        outcome["rows"] = {name: (each.low, each.next, sorted(each.rows)) for name, each in table.queues.items()}
    rig.assert_derived_again()
    return outcome, taken.calls


def calls_of(rng: Random, rig: LaneRig, entries: list[AckMessageEntry]) -> list[tuple[str, Any]]:
    """Acknowledgements, good and bad, in calls of one or several, and receives between them."""
    calls: list[tuple[str, Any]] = []
    rest = [each for each in entries if rng.random() < 0.7]
    while rest:
        size = rng.choice((1, 1, 1, 4))
        calls.append(("AckMessage", ack_of(rest[:size], rng.choice((BILLING,) * 9 + (STRANGERS,)))))
        rest = rest[size:]
    odd = [AckMessageEntry(message_id="m", receipt_handle=text) for text in odd_handles(rng, entries)]
    if odd:
        calls.insert(rng.randrange(len(calls) + 1), ("AckMessage", ack_of(odd)))
    if entries and rng.random() < 0.3:
        calls.append(("AckMessage", ack_of([])))
    pops = rig.broker.parts.popping.pops
    if pops.has_some(pops.plans.plan(PopRequest(group="billing", topic="orders"))):
        request = receive_of(rng.choice((1, 5, 32)), renew=rng.random() < 0.2)
        calls.insert(rng.randrange(len(calls) + 1), ("ReceiveMessage", request))
    return calls


async def in_reads(rig: LaneRig, consumer: Consumer, calls: list[tuple[str, Any]], rng: Random) -> list[int]:
    """Send the calls, with a ping between some of them, in reads that end anywhere; returns the streams of receives."""
    data, receives = b"", []
    for name, request in calls:
        stream_id, call = consumer.encoded(name, request)
        data += call
        if name == "ReceiveMessage":
            receives.append(stream_id)
        if rng.random() < 0.1:
            data += frames.encode_frame(frames.PING, 0, 0, bytes(8))
    while data:
        cut = len(data) if rng.random() < 0.7 else rng.randrange(len(data)) + 1
        consumer.peer.connection.data_received(data[:cut])
        data = data[cut:]
        if rng.random() < 0.5:
            await rig.settle()
    for _ in range(4):
        await rig.settle()
    consumer.peer.connection._out.flush()
    return receives


def ack_counts(rig: LaneRig) -> dict[int, int]:
    latency = rig.broker.parts.stats.counters.requests.latency
    return {key[1]: each.count for key, each in latency.items() if key[0] == RequestCode.ACK_MESSAGE}


@needs_core
@pytest.mark.parametrize("flush", [Flush.ASYNC, Flush.SYNC])
@pytest.mark.parametrize("seed", seeds(4))
async def test_the_same_calls_of_a_consumer_bring_about_the_same(
    seed: int, flush: Flush, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, taken = await outcome_of(seed, flush, with_core=True)
    monkeypatch.setattr(settling, "core", None)
    expected, none = await outcome_of(seed, flush, with_core=False)
    for name, value in expected.items():
        assert found[name] == value, name
    assert none == 0
    assert taken > 20, "the lane has to take what is plain"
    assert {ResponseCode.SUCCESS, ResponseCode.NO_MESSAGE} <= found["acks"].keys()


# --- the lane by itself ---


@needs_core
async def test_acknowledgements_of_one_read_are_one_request_and_each_has_its_answer() -> None:
    async with LaneRig(with_core=True) as rig:
        consumer, entries = await warm_consumer(rig, 5)
        taken, read, streams = Taken(consumer.peer.connection), b"", []
        for each in (entries[:1], entries[1:3], entries[:1], entries[3:]):  # the third once more
            stream_id, data = consumer.encoded("AckMessage", ack_of(each))
            streams.append(stream_id)
            read += data
        before = rig.broker.store.queues[POP_JOURNAL_TOPIC, 0].next_offset
        consumer.peer.connection.data_received(read)
        await rig.settle()
        assert taken.calls == 4
        assert rig.broker.store.queues[POP_JOURNAL_TOPIC, 0].next_offset == before + 1, "one record of the journal"
        assert [codes_of(consumer, each) for each in streams] == [[OK], [OK, OK], [INVALID], [OK, OK]]
        assert consumer.peer.connection.calls == 0
        assert not any(queue.rows for queue in rig.broker.parts.popping.pops.table.queues.values())


@needs_core
async def test_a_receive_that_finds_something_is_no_call_of_pythons() -> None:
    async with LaneRig(with_core=True) as rig:
        consumer, _ = await warm_consumer(rig, 1)
        consumer.timeout, served = "30S", list[int]()
        connection = consumer.peer.connection
        serve = connection.serve_taken

        def noted(method: CallMethod, stream_id: int, timeout: bytes, message: bytes) -> None:
            served.append(stream_id)
            serve(method, stream_id, timeout, message)

        connection.serve_taken = noted  # type: ignore[method-assign]
        counters = rig.broker.parts.stats.counters
        first = consumer.ask("ReceiveMessage", receive_of(2))  # which is read for the first time
        await consumer.send(Random(1), 4)
        assert served == [first] and len(messages_of(consumer.answer(first))) == 1
        found = messages_of(await consumer.call("ReceiveMessage", receive_of(2)))
        assert served == [first] and len(found) == 2
        await consumer.call("ReceiveMessage", receive_of(2))
        missed, calls = counters.pulls_missed, connection.calls
        waiting = consumer.ask("ReceiveMessage", receive_of(2))
        await rig.settle()
        assert served == [first, waiting], "it has to wait"
        assert (counters.pulls_missed, connection.calls) == (missed + 1, calls + 1)
        await consumer.send(Random(2), 1)
        assert len(messages_of(consumer.answer(waiting))) == 1
        assert connection.calls == calls


@needs_core
async def test_a_receive_without_room_is_delivered_when_there_is_some() -> None:
    async with LaneRig(with_core=True) as rig:
        consumer, _ = await warm_consumer(rig, 1)
        consumer.timeout = "30S"
        await consumer.send(Random(1), 6)
        await consumer.call("ReceiveMessage", receive_of(1))
        connection = consumer.peer.connection
        connection._out.window = 10
        stream_id = consumer.ask("ReceiveMessage", receive_of(1))
        await rig.settle()
        assert connection.calls == 1
        connection.data_received(frames.encode_window_update(0, 100_000))
        await rig.settle()
        assert len(messages_of(consumer.answer(stream_id))) == 1
        assert connection.calls == 0


@needs_core
async def test_nothing_is_answered_before_it_is_safe() -> None:
    async with LaneRig(True, Flush.SYNC) as rig:
        consumer, entries = await warm_consumer(rig, 1)
        rig.disk.fail_syncs()
        stream_id = consumer.ask("AckMessage", ack_of(entries))
        for _ in range(3):
            await rig.settle()
        (code,) = codes_of(consumer, stream_id)
        assert code not in (OK, INVALID)
        assert sum(len(queue.rows) for queue in rig.broker.parts.popping.pops.table.queues.values()) == 1


@needs_core
async def test_what_waits_for_the_window_of_the_connection_is_answered_later() -> None:
    async with LaneRig(with_core=True) as rig:
        consumer, entries = await warm_consumer(rig, 3)
        connection = consumer.peer.connection
        taken, connection._out.window = Taken(connection), 10
        streams = [consumer.ask("AckMessage", ack_of([each])) for each in entries]
        for _ in range(3):
            await rig.settle()
        assert (taken.calls, connection.calls) == (3, 3)
        connection.data_received(frames.encode_window_update(0, 10_000))
        await rig.settle()
        assert [codes_of(consumer, each) for each in streams] == [[OK]] * 3
        assert connection.calls == 0


@needs_core
@pytest.mark.parametrize("is_reset", [True, False])
async def test_who_does_not_wait_for_the_answer_has_acknowledged_all_the_same(is_reset: bool) -> None:
    async with LaneRig(with_core=True) as rig:
        consumer, entries = await warm_consumer(rig, 2)
        connection = consumer.peer.connection
        stream_id = consumer.ask("AckMessage", ack_of(entries))
        if is_reset:
            connection.data_received(frames.encode_reset(stream_id, frames.Http2Code.CANCEL))
        else:
            connection.connection_lost(None)
        for _ in range(3):
            await rig.settle()
        assert stream_id not in consumer.peer.streams()
        assert connection.calls == 0
        assert not any(queue.rows for queue in rig.broker.parts.popping.pops.table.queues.values())


@needs_core
async def test_a_broker_that_stops_refuses_what_the_lane_takes() -> None:
    async with LaneRig(with_core=True) as rig:
        consumer, entries = await warm_consumer(rig, 2)
        taken = Taken(consumer.peer.connection)
        rig.broker.dispatcher.refuse_late()
        stream_id = consumer.ask("AckMessage", ack_of(entries))
        for _ in range(3):
            await rig.settle()
        codes = codes_of(consumer, stream_id)
        assert len(codes) == 2 and OK not in codes, f"{taken.calls} taken"
        assert sum(len(queue.rows) for queue in rig.broker.parts.popping.pops.table.queues.values()) == 2


@pytest.mark.parametrize("with_core", [pytest.param(True, marks=needs_core), False])
async def test_the_receipt_that_a_push_consumer_knows_counts_after_renewals(with_core: bool) -> None:
    async with LaneRig(with_core) as rig:
        consumer, entries = await warm_consumer(rig, 1)
        await consumer.ack(entries)
        await consumer.send(Random(2), 2)
        renewed = entries_of(await consumer.receive(32, renew=True))
        rig.clock.advance_ms(50_000)
        rig.broker._grpc.look_around()
        await rig.settle()
        rig.clock.advance_ms(30_000)
        answered = await consumer.ack(renewed)
        assert [each.status.code for each in answered.entries if each.status] == [OK, OK]
        assert not any(queue.rows for queue in rig.broker.parts.popping.pops.table.queues.values())
