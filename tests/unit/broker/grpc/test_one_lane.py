"""One truth: the same bytes of gRPC clients, with the send lane and without it, bring about the same."""

from __future__ import annotations

import asyncio
import os
import threading
from random import Random
from typing import Any

import hpack
import pytest

from pyromq.compiled_core import DESCRIPTION, core
from pyromq.model.topic import TopicConfig
from pyromq.net import Address
from pyromq.net.half_read import HalfReadFrames
from pyromq.net.http2 import Http2Connection, Http2Limits
from pyromq.net.idle import IdleWatch
from pyromq.store.settings import Flush
from pyromq.wire.grpc.codes import StatusCode
from pyromq.wire.grpc.definitions import Digest, GrpcMessage, ProtoTime, Resource, SystemProperties
from pyromq.wire.grpc.framing import with_prefix
from pyromq.wire.grpc.protobuf import decode
from pyromq.wire.grpc.services import SERVICE, SendMessageRequest, SendMessageResponse
from pyromq.wire.http2 import frames
from pyromq.wire.http2.hpack import HpackDecoder, HpackError
from tests.running.seeds import seeds
from tests.unit.broker.sending.lane_rig import LaneRig
from tests.unit.net.fakes import turn
from tests.unit.net.http2.talk import FakeTransport

needs_core = pytest.mark.skipif(core is None, reason=f"nothing to compare: {DESCRIPTION}")
_SEEDS = int(os.environ.get("PYROMQ_TRUTH_SEEDS", "8"))
_READS = 50


class GrpcPeer:
    """A gRPC client: what it sends arrives in reads of the test's choice."""

    def __init__(self, rig: LaneRig, number: int) -> None:
        front = rig.broker._grpc
        remote, half_read = Address("10.0.0.1", 5000 + number), HalfReadFrames(1 << 24)
        watch: IdleWatch[Http2Connection] = IdleWatch(rig.clock, 0)
        self.connection = Http2Connection(front, rig.clock, Http2Limits(), watch, remote, half_read)
        self.transport = FakeTransport()
        self.connection.connection_made(self.transport)

    def streams(self) -> dict[int, list[frames.RawFrame]]:
        """What was written, by streams."""
        found: dict[int, list[frames.RawFrame]] = {}
        for frame in frames.Http2FrameDecoder().feed(bytes(self.transport.written)):
            found.setdefault(frame[2], []).append(frame)
        return found


class Talker:
    """The bytes that a client sends: calls, some of them odd, and frames between them."""

    def __init__(self, rng: Random, number: int) -> None:
        self._rng = rng
        self._number = number
        self._encoder = hpack.Encoder()
        self._next_id = 1
        self._messages = 0
        self.bytes = frames.PREFACE + frames.encode_settings([(4, 1 << 20)])

    def call(self, oddness: float) -> bytes:
        rng, stream_id, is_odd = self._rng, self._next_id, self._rng.random() < oddness
        self._next_id += 2
        fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", f"{SERVICE}SendMessage".encode())]
        fields += [(b"content-type", b"application/grpc"), (b"te", b"trailers"), (b"grpc-timeout", b"3S")]
        fields += [
            (b"x-mq-client-id", b"client-%d" % self._number),
            (b"x-mq-request-id", rng.randbytes(8).hex().encode()),
        ]
        if is_odd and rng.random() < 0.4:
            fields = self._odd_fields(fields)
        block = self._encoder.encode(fields, huffman=rng.random() < 0.5)
        count = rng.choice((1, 1, 1, 1, 2, 0)) if is_odd else 1
        request = SendMessageRequest(messages=[self._message(is_odd=is_odd) for _ in range(count)]).encode()
        if is_odd and rng.random() < 0.1:
            request = bytes(byte if rng.random() < 0.99 else rng.randrange(256) for byte in request)
        return self._frames(stream_id, block, with_prefix(request), is_odd=is_odd)

    def _frames(self, stream_id: int, block: bytes, data: bytes, *, is_odd: bool) -> bytes:
        rng = self._rng
        found = frames.encode_frame(frames.HEADERS, frames.END_HEADERS, stream_id, block)
        if rng.random() < 0.2 and len(data) < frames.FRAME_BYTES_MAX:
            found += frames.encode_frame(frames.DATA, 0, stream_id, data)
            found += frames.encode_frame(frames.DATA, frames.END_STREAM, stream_id, b"")
        elif is_odd and (rng.random() < 0.3 or len(data) > frames.FRAME_BYTES_MAX):
            middle = rng.randrange(len(data))
            if len(data) > frames.FRAME_BYTES_MAX:
                middle = len(data) // 2
            found += frames.encode_frame(frames.DATA, 0, stream_id, data[:middle])
            found += frames.encode_frame(frames.DATA, frames.END_STREAM, stream_id, data[middle:])
        else:
            found += frames.encode_frame(frames.DATA, frames.END_STREAM, stream_id, data)
        if rng.random() < 0.1:
            found += frames.encode_frame(frames.PING, 0, 0, bytes(8))
        if rng.random() < 0.1:
            found += frames.encode_window_update(0, 1000)
        if is_odd and rng.random() < 0.1:
            found += frames.encode_reset(stream_id, frames.Http2Code.CANCEL)
        if is_odd and rng.random() < 0.05:
            found += frames.encode_frame(frames.DATA, 0, stream_id, b"behind the end")
        return found

    def _odd_fields(self, fields: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        odd: list[tuple[bytes, bytes]] = [
            (b"te", b"gzip"),
            (b"X-Upper", b"x"),
            (b"connection", b"close"),
            (b"content-length", b"5"),
            (b"x-mq-client-id", b"another"),
            (b"x-mq-namespace", b"shop"),
            (b"grpc-encoding", b"gzip"),
            (b":late", b"x"),
        ]
        what = self._rng.randrange(3)
        if what == 0:
            return [each for each in fields if each[0] != self._rng.choice(fields)[0]]
        return [*fields, self._rng.choice(odd)] if what == 1 else [*fields, (b"x-long", b"y" * 3_000)]

    def _message(self, *, is_odd: bool) -> GrpcMessage:
        rng = self._rng
        self._messages += 1
        system: dict[str, Any] = {
            "tag": rng.choice((None, "a", "tag-b")),
            "keys": [f"k{rng.randrange(99)}" for _ in range(rng.choice((0, 1, 3)))],
            "message_id": f"01{self._number:04X}{self._messages:08X}",
            "body_digest": rng.choice((None, Digest(kind=1, checksum="AB"))),
            "body_encoding": rng.choice((0, 1)),
            "message_type": rng.choice((0, 1, 2)),
            "born_timestamp": rng.choice((None, ProtoTime(seconds=1_790_000_000 + rng.randrange(99), nanos=7_654_321))),
            "born_host": "here",
            "queue_id": rng.choice((0, 3)),
            "trace_context": rng.choice((None, "00-aa-bb-01")),
        }
        user = {f"p{number}": rng.choice(("x", "grüße", "a b")) for number in range(rng.choice((0, 0, 1, 4)))}
        topic, body = (
            Resource(name=rng.choice(("orders", "orders", "bills"))),
            rng.randbytes(rng.choice((1, 50, 1_024))),
        )
        if is_odd:
            odd: dict[str, list[Any]] = {
                "tag": ["", " ", "a|b", "ü", "a\x01b"],
                "keys": [["a b"], [""], ["\x02"], [str(number) for number in range(80)]],
                "message_id": ["", " ", "with-dash", "ü", "01\x02TAGS\x01x", "01\x02x\x01y"],
                "message_group": ["g", ""],
                "priority": [3, -1],
                "delivery_timestamp": [ProtoTime(seconds=1)],
                "message_type": [4, 5],
                "body_encoding": [2],
                "trace_context": ["a\x02b", ""],
                "lite_topic": ["l"],
            }
            name = rng.choice(list(odd))
            system[name] = rng.choice(odd[name])
            user |= rng.choice(
                ({}, {"KEYS": "x"}, {"": "x"}, {"a\x01": "b"}, {"DELAY_": "TIMER_D"}, {"PRIORITY_": "y"})
            )
            topic = rng.choice((topic, topic, Resource(name="absent"), Resource(resource_namespace="n", name="orders")))
            body = rng.choice((body, body, b"", rng.randbytes(12_000)))
        return GrpcMessage(topic=topic, user_properties=user, system_properties=SystemProperties(**system), body=body)


def reads_of(seed: int) -> list[tuple[int, int, bytes]]:
    """Steps: by how much time moves on, whose read it is, and its bytes."""
    rng = Random(seed)
    talkers, oddness = [Talker(rng, number) for number in range(2)], (0.0, 0.15, 0.6)[seed % 3]
    steps = []
    for _ in range(_READS):
        number = rng.randrange(2)
        talker = talkers[number]
        for _ in range(rng.choice((1, 2, 12))):
            talker.bytes += talker.call(oddness)
        stream = talker.bytes
        cut = len(stream) if rng.random() < 0.7 else rng.randrange(len(stream) + 1)
        read, talker.bytes = stream[:cut], stream[cut:]
        steps.append((rng.choice((0, 0, 1, 700)), number, read))
    return steps


async def outcome_of(seed: int, flush: Flush, *, with_core: bool) -> tuple[dict[str, Any], int]:
    """Everything that came of it, and how many calls the lane took."""
    taken = 0
    async with LaneRig(with_core, flush, seed, store={"body_bytes_max": 30_000}) as rig:
        topics = rig.broker.parts.tables.topics
        for name in ("orders", "bills"):
            topics.update(TopicConfig(topic_name=name, read_queue_nums=3, write_queue_nums=3))
        peers = [GrpcPeer(rig, number) for number in range(2)]
        for peer in peers:
            lane = peer.connection.lane
            assert lane is not None

            def noted(count: int, *more: int, known: Any = peer.connection.taken) -> None:
                nonlocal taken
                taken += count
                known(count, *more)

            peer.connection.taken = noted  # type: ignore[method-assign]
        for number, (passed_ms, who, read) in enumerate(reads_of(seed)):
            rig.clock.advance_ms(passed_ms)
            if number == 30:  # one more queue
                topics.update(TopicConfig(topic_name="bills", read_queue_nums=4, write_queue_nums=4))
            peers[who].connection.data_received(read)
            await rig.settle()
        for peer in peers:
            peer.connection._out.flush()
        outcome = rig.outcome()
        outcome["streams"] = [peer.streams() for peer in peers]
        facts = [(each.connection.calls, each.connection.calls_begun, each.connection.close_reason) for each in peers]
        outcome["connections"] = facts
        outcome["turn"] = rig.broker._grpc._sending.turn
        outcome["half read"] = [each.connection.half_read_bytes for each in peers]
    rig.assert_derived_again()
    return outcome, taken


@needs_core
@pytest.mark.parametrize("flush", [Flush.ASYNC, Flush.SYNC])
@pytest.mark.parametrize("seed", seeds(_SEEDS))
async def test_the_same_calls_bring_about_the_same(seed: int, flush: Flush, monkeypatch: pytest.MonkeyPatch) -> None:
    found, taken = await outcome_of(seed, flush, with_core=True)
    expected, none = await outcome_of(seed, flush, with_core=False)
    assert none == 0
    for name, value in expected.items():
        assert found[name] == value, name
    stored = sum(found["numbers"][:1]) if isinstance(found["numbers"], tuple) else 1
    assert stored
    if seed % 3 == 0:
        assert taken > 100, "the lane has to take what is plain"


@needs_core
async def test_what_the_lane_took_waits_for_the_window_of_the_connection() -> None:
    async with LaneRig(with_core=True) as rig:
        rig.broker.parts.tables.topics.update(TopicConfig(topic_name="orders", read_queue_nums=1, write_queue_nums=1))
        peer, talker = GrpcPeer(rig, 0), Talker(Random(1), 0)
        read, taken = frames.PREFACE + frames.encode_settings([]), 0
        for number in range(6):
            if number == 3:
                peer.connection._out.window = 40  # less than a response
            handled = peer.connection._requests.handled
            peer.connection.data_received(read + plain_call(talker))
            taken += peer.connection._requests.handled == handled
            read = b""
            await rig.settle()
        assert (taken, peer.connection.calls) == (5, 3), "the lane took all but the first, and three wait"
        peer.connection.data_received(frames.encode_window_update(0, 10_000))
        await rig.settle()
        peer.connection._out.flush()
        assert [ids(peer, number) for number in range(1, 12, 2)] == [[f"01{number:030X}"] for number in range(1, 7)]
        assert peer.connection.calls == 0


@needs_core
async def test_a_response_that_has_no_window_waits_for_one() -> None:
    async with LaneRig(with_core=True) as rig:
        rig.broker.parts.tables.topics.update(TopicConfig(topic_name="orders", read_queue_nums=1, write_queue_nums=1))
        peer, talker = GrpcPeer(rig, 0), Talker(Random(1), 0)
        talker.bytes = frames.PREFACE + frames.encode_settings([(4, 40)])  # less than a response
        read = talker.bytes
        for _ in range(6):
            peer.connection.data_received(read + plain_call(talker))
            read = b""
            await rig.settle()
        streams = peer.streams()
        assert all(frames.HEADERS == streams[number][0][0] for number in range(1, 12, 2))
        assert peer.connection.calls == 6
        for number in range(1, 12, 2):
            peer.connection.data_received(frames.encode_window_update(number, 10_000))
        await rig.settle()
        peer.connection._out.flush()
        assert [ids(peer, number) for number in range(1, 12, 2)] == [[f"01{number:030X}"] for number in range(1, 7)]
        assert peer.connection.calls == 0


@needs_core
@pytest.mark.parametrize("window", [0, 40])
async def test_a_window_that_was_widened_before_the_response_counts(window: int) -> None:
    async with LaneRig(with_core=True) as rig:
        rig.broker.parts.tables.topics.update(TopicConfig(topic_name="orders", read_queue_nums=1, write_queue_nums=1))
        peer, talker = GrpcPeer(rig, 0), Talker(Random(1), 0)
        read = frames.PREFACE + frames.encode_settings([(4, window)])
        for number in range(1, 12, 2):
            peer.connection.data_received(read + plain_call(talker) + frames.encode_window_update(number, 10_000))
            read = b""
            await rig.settle()
        peer.connection._out.flush()
        assert [ids(peer, number) for number in range(1, 12, 2)] == [[f"01{number:030X}"] for number in range(1, 7)]
        assert peer.connection.calls == 0


_ODD_IDS = [b"01AB\x02TAGS\x01x", b"01AB\x02x\x01\xff", b"01AB\x02__BORNHOST\x01x", b"\xff", b"01AB\x02"]


@needs_core
@pytest.mark.parametrize("odd", _ODD_IDS)
async def test_an_id_of_which_properties_would_come_is_no_plain_one(odd: bytes) -> None:
    async with LaneRig(with_core=True) as rig:
        rig.broker.parts.tables.topics.update(TopicConfig(topic_name="orders", read_queue_nums=1, write_queue_nums=1))
        peer, talker = GrpcPeer(rig, 0), Talker(Random(1), 0)
        read = frames.PREFACE + frames.encode_settings([])
        for _ in range(3):
            peer.connection.data_received(read + plain_call(talker))
            read = b""
            await rig.settle()
        before = rig.broker.parts.write_path.store.end_position
        peer.connection.data_received(plain_call(talker, odd))
        await rig.settle()
        assert rig.broker.parts.write_path.store.end_position == before, "nothing is stored under such an id"


class OneListener:
    """Stands for the listener of one connection."""

    def __init__(self, connection: Http2Connection) -> None:
        self.addresses = [Address("127.0.0.1", 8081)]
        self._connection = connection

    async def stop(self) -> None:
        self._connection.close("the server stops")


@pytest.mark.parametrize("with_core", [pytest.param(True, marks=needs_core), False])
async def test_a_broker_that_stops_answers_the_sends_that_wait_for_the_disk(with_core: bool) -> None:
    async with LaneRig(with_core, Flush.SYNC) as rig:
        rig.broker.parts.tables.topics.update(TopicConfig(topic_name="orders", read_queue_nums=1, write_queue_nums=1))
        peer, talker = GrpcPeer(rig, 0), Talker(Random(1), 0)
        rig.broker._grpc._server = OneListener(peer.connection)  # type: ignore[assignment]
        read = frames.PREFACE + frames.encode_settings([])
        for _ in range(2):
            peer.connection.data_received(read + plain_call(talker))
            read = b""
            await rig.settle()
        is_slow = threading.Event()
        rig.disk.before_each(lambda kind: None if kind != "sync" else is_slow.wait(30) and None)
        peer.connection.data_received(plain_call(talker))
        await turn()
        assert rig.broker.parts.write_path.pressure.waiting_for_disk
        stopping = asyncio.create_task(rig.broker.stop())
        await turn()
        is_slow.set()
        await stopping
        assert ids(peer, 5) == [f"01{3:030X}"]
        status = decode(SendMessageResponse, peer.streams()[5][1][3][5:]).status
        assert status is not None and status.code == StatusCode.OK


def plain_call(talker: Talker, message_id: bytes = b"") -> bytes:
    stream_id, talker._next_id = talker._next_id, talker._next_id + 2
    fields = [(":method", "POST"), (":scheme", "http"), (":path", f"{SERVICE}SendMessage")]
    fields += [("content-type", "application/grpc"), ("x-mq-client-id", "me")]
    system = SystemProperties(message_id=f"01{stream_id // 2 + 1:030X}", body_encoding=1, message_type=1)
    message = GrpcMessage(topic=Resource(name="orders"), system_properties=system, body=b"hello")
    data = with_prefix(SendMessageRequest(messages=[message]).encode())
    if message_id:
        odd = b"\x1a%c%b\x28\x01\x30\x01" % (len(message_id), message_id)
        inner = b"\x0a\x08\x12\x06orders\x1a%c%b\x22\x05hello" % (len(odd), odd)
        data = with_prefix(b"\x0a%c%b" % (len(inner), inner))
    head = frames.encode_frame(frames.HEADERS, frames.END_HEADERS, stream_id, talker._encoder.encode(fields))
    return head + frames.encode_frame(frames.DATA, frames.END_STREAM, stream_id, data)


def ids(peer: GrpcPeer, stream_id: int) -> list[str]:
    data = b"".join(payload for kind, _, _, payload in peer.streams()[stream_id] if kind == frames.DATA)
    return [entry.message_id for entry in decode(SendMessageResponse, data[5:]).entries]


@needs_core
@pytest.mark.parametrize("seed", seeds(_SEEDS))
def test_both_decoders_of_header_blocks_agree(seed: int) -> None:
    assert core is not None
    rng, encoder = Random(seed), hpack.Encoder()
    ours, other = HpackDecoder(2_000), core.Http2Lane(2_000, (b"", b"", b""), (b"", b"", b"", b""))
    for _ in range(300):
        if rng.random() < 0.1:
            encoder.header_table_size = rng.choice((0, 60, 500, 4_096))
        names = [
            rng.choice((b"x-a", b"x-mq-client-id", b":path", b"te", rng.randbytes(3))) for _ in range(rng.randrange(9))
        ]
        pairs = [(name, rng.randbytes(rng.randrange(60)) if rng.random() < 0.5 else b"same") for name in names]
        block = encoder.encode(pairs, huffman=rng.random() < 0.5)
        if rng.random() < 0.02:
            block = rng.randbytes(rng.randrange(40))
        found, text, is_too_large = other.decode(block)
        try:
            wanted = ours.decode(block)
        except HpackError as error:
            assert (found, text, is_too_large) == (None, str(error), "list of more" in str(error))
            return
        assert found == wanted
        assert other.list_bytes == ours.list_bytes
