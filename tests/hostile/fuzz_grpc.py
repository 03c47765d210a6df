"""Fuzzers of the gRPC port: frames, header blocks, messages, and calls to a real broker; all of it from a seed.

    frames     damaged frames of whole calls to a connection: it answers, or ends; nothing else is raised
    headers    damaged header blocks (HPACK) to the decoder of requests, half of them beside another decoder
    messages   damaged messages (Protocol Buffers) of every request; what can be read is written and read again, and
               what the quick reader of sends takes is what the codec reads
    taken      damaged sends, receives and acknowledgements of a client that the lane knows, in reads of several:
               a good call behind them is answered, or the connection has ended
    calls      damaged messages as calls of every RPC to a broker: each one is answered

With the compiled core, header blocks of the first two are read by its tables, as in a broker, and it takes whole calls
of *taken*; ``PYROMQ_PURE=1`` tries the reference.

``python -m tests.hostile.fuzz_grpc [--seed N] [--inputs N] [--calls N]``: inputs are shared by the first four.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import hpack

from pyromq.aio import Admin
from pyromq.compiled_core import Http2Lane, core
from pyromq.net.http2 import Http2Connection
from pyromq.wire.grpc import services
from pyromq.wire.grpc.definitions import (
    FilterExpression,
    GrpcMessage,
    MessageQueue,
    ProtoTime,
    Resource,
    SystemProperties,
)
from pyromq.wire.grpc.framing import with_prefix
from pyromq.wire.grpc.hot import read_send
from pyromq.wire.grpc.protobuf import Proto, ProtobufError, decode
from pyromq.wire.http2 import frames
from pyromq.wire.http2.frames import Http2Error, Http2StreamError
from pyromq.wire.http2.requests import HEADER_LIST_BYTES_MAX, HeaderDecoder, read_request
from tests.grpc.link import request_fields
from tests.grpc.raw import RawPeer
from tests.hostile.rig import victim
from tests.unit.broker.grpc.consumer import BILLING, Consumer, warm_consumer
from tests.unit.broker.sending.lane_rig import LaneRig
from tests.unit.net.http2.talk import Calls, Talk, messages

ORDERS, READERS = Resource(name="orders"), Resource(name="readers")
_QUEUE: Final = MessageQueue(topic=ORDERS, id=1)
_STREAM_ID_MAX: Final = (1 << 31) - 1
_HANDLE: Final = "0 1700000000000 60000 734215009 0 broker-a 0 1"
SEEDS: Final[dict[str, Proto]] = {
    "QueryRoute": services.QueryRouteRequest(topic=ORDERS),
    "QueryAssignment": services.QueryAssignmentRequest(topic=ORDERS, group=READERS),
    "Heartbeat": services.HeartbeatRequest(group=READERS, client_type=2),
    "NotifyClientTermination": services.TerminationRequest(group=READERS),
    "SendMessage": services.SendMessageRequest(
        messages=[
            GrpcMessage(
                topic=ORDERS,
                user_properties={"colour": "red", "size": "9"},
                system_properties=SystemProperties(
                    tag="new", keys=["k1", "k2"], message_id="01" + "A" * 32, body_encoding=1, message_type=1
                ),
                body=b"a body",
            )
        ]
    ),
    "EndTransaction": services.EndTransactionRequest(topic=ORDERS, message_id="01" + "A" * 32, transaction_id="1"),
    "RecallMessage": services.RecallMessageRequest(topic=ORDERS, recall_handle="v1 broker-a orders 1 x"),
    "ReceiveMessage": services.ReceiveMessageRequest(
        group=READERS,
        message_queue=_QUEUE,
        filter_expression=FilterExpression(kind=1, expression="new || old"),
        batch_size=8,
        invisible_duration=ProtoTime(seconds=30),
        long_polling_timeout=ProtoTime(seconds=1),
        attempt_id="attempt",
    ),
    "AckMessage": services.AckMessageRequest(
        group=READERS, topic=ORDERS, entries=[services.AckMessageEntry(message_id="1", receipt_handle=_HANDLE)]
    ),
    "ChangeInvisibleDuration": services.ChangeInvisibleDurationRequest(
        group=READERS, topic=ORDERS, receipt_handle=_HANDLE, invisible_duration=ProtoTime(seconds=30), message_id="1"
    ),
    "ForwardMessageToDeadLetterQueue": services.ForwardToDeadLetterRequest(
        group=READERS, topic=ORDERS, receipt_handle=_HANDLE, message_id="1", delivery_attempt=3
    ),
    "PullMessage": services.PullMessageRequest(group=READERS, message_queue=_QUEUE, offset=1, batch_size=8),
    "GetOffset": services.GetOffsetRequest(group=READERS, message_queue=_QUEUE),
    "UpdateOffset": services.UpdateOffsetRequest(group=READERS, message_queue=_QUEUE, offset=1),
    "QueryOffset": services.QueryOffsetRequest(message_queue=_QUEUE, query_offset_policy=1),
    "Telemetry": services.TelemetryCommand(),
}
_ODD: Final = (b"\xff" * 10, b"\x80" * 11, b"\x00", b"\x7f\xff\xff\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x0b\x0c")


@dataclass
class FuzzReport:
    """What came of it; a problem names the seed and the number that repeat it."""

    inputs: dict[str, int] = field(default_factory=dict)
    accepted: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        facts = ", ".join(f"{name} {count:,} ({self.accepted[name]:,} accepted)" for name, count in self.inputs.items())
        return f"{facts}; problems {len(self.problems)}"


def damaged(data: bytes, rng: Random) -> bytes:
    """Some bytes are others, doubled, gone, or new; sometimes none."""
    found = bytearray(data)
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(found) + 1)
        match rng.randrange(6):
            case 0 if found:
                found[at % len(found)] = rng.getrandbits(8)
            case 1 if found:
                found[at % len(found)] ^= 1 << rng.randrange(8)
            case 2:
                del found[at : at + rng.randrange(8)]
            case 3:
                found[at:at] = rng.choice(_ODD)
            case 4:
                found[at:at] = found[: rng.randrange(len(found) + 1)]
            case _:
                found[at:at] = rng.randbytes(rng.randrange(6))
    return bytes(found)


def _each(name: str, count: int, seed: int, report: FuzzReport, one: Callable[[Random, int], bool]) -> None:
    """Run ``one`` for every number; it returns whether the input was accepted, and raises only for a defect."""
    report.inputs[name] = report.accepted[name] = 0
    rng = Random(f"{seed} {name}")
    for number in range(count):
        report.inputs[name] += 1
        try:
            report.accepted[name] += one(rng, number)
        except Exception as error:
            report.problems.append(f"{name}, seed {seed}, input {number}: {error!r}")
            if len(report.problems) > 20:
                return


# --- messages ---


def fuzz_messages(count: int, seed: int, report: FuzzReport) -> None:
    kinds = [(type(each), each.encode()) for each in SEEDS.values()]

    def one(rng: Random, number: int) -> bool:
        kind, data = kinds[number % len(kinds)]
        data = damaged(data, rng)
        quick = read_send(data) if kind is services.SendMessageRequest else None
        try:
            found = decode(kind, data)
        except ProtobufError:
            assert quick is None, "the quick reader takes what cannot be read"
            return False
        assert quick is None or quick == found, "the quick reader reads something else"
        if number % 16 == 0:
            assert decode(kind, found.encode()) == found, "it is not what was written"
        return True

    _each("messages", count, seed, report, one)


# --- header blocks ---


def _tables() -> Http2Lane | None:
    """Header tables of the compiled core; None: there is none."""
    return core.Http2Lane(HEADER_LIST_BYTES_MAX, (b"", b"", b""), (b"", b"", b"", b"")) if core is not None else None


def _blocks() -> list[bytes]:
    fields = request_fields("/apache.rocketmq.v2.MessagingService/SendMessage", "client-1")
    plain, raw = hpack.Encoder(), hpack.Encoder()
    once = plain.encode(fields)
    return [once, plain.encode([*fields, ("x-mq-namespace", "shop")]), raw.encode(fields, huffman=False)]


class _Decoders:
    """Ours, and in every other life the package hpack beside it: what that reads, ours reads alike."""

    def __init__(self, *, compared: bool) -> None:
        self._ours = HeaderDecoder(_tables())
        self._other = hpack.Decoder(HEADER_LIST_BYTES_MAX) if compared else None

    def decode(self, block: bytes) -> list[tuple[bytes, bytes]]:
        """Raises Http2Error."""
        if self._other is None:
            return self._ours.decode(block)
        wanted: Any = None
        with suppress(hpack.HPACKError, IndexError, ValueError, TypeError):
            wanted = self._other.decode(block, raw=True)
        try:
            found = self._ours.decode(block)
        except Http2Error as error:
            assert wanted is None or "too large" in str(error), "another decoder reads it"
            raise
        assert found == wanted, "another decoder reads something else, or refuses it"
        return found


def fuzz_headers(count: int, seed: int, report: FuzzReport) -> None:
    blocks, decoders = _blocks(), _Decoders(compared=True)

    def one(rng: Random, number: int) -> bool:
        nonlocal decoders
        if number % 200 == 0:
            decoders = _Decoders(compared=number % 400 == 0)
        try:
            read_request(decoders.decode(damaged(blocks[number % 3], rng)))
        except Http2StreamError:
            return False
        except Http2Error:
            decoders = _Decoders(compared=number % 400 < 200)  # a connection would have ended
            return False
        return True

    _each("headers", count, seed, report, one)


# --- frames ---


def _good_frames() -> list[bytes]:
    encoder = hpack.Encoder()
    block = encoder.encode(
        [(":method", "POST"), (":scheme", "http"), (":path", "/one"), ("content-type", "application/grpc")]
    )
    data = with_prefix(b"hello")
    return [
        frames.encode_frame(frames.HEADERS, frames.END_HEADERS, 3, block),
        frames.encode_frame(frames.DATA, frames.END_STREAM, 3, data),
        frames.encode_frame(frames.HEADERS, 0, 5, block[:10]),
        frames.encode_frame(frames.CONTINUATION, frames.END_HEADERS, 5, block[10:]),
        frames.encode_settings(((frames.Http2Setting.INITIAL_WINDOW_SIZE, 70_000),)),
        frames.encode_window_update(3, 100),
        frames.encode_window_update(0, 100),
        frames.encode_frame(frames.PING, 0, 0, bytes(8)),
        frames.encode_reset(3, frames.Http2Code.CANCEL),
        frames.encode_frame(frames.PRIORITY, 0, 3, b"\0\0\0\1\10"),
        frames.encode_goaway(0, frames.Http2Code.NO_ERROR),
    ]


class _OnlyTables:
    """The lane of a connection whose clients have sent nothing yet: it knows header tables, and takes no call."""

    def __init__(self, tables: Http2Lane) -> None:
        self.tables = tables

    def take(self, data: bytes, at: int) -> int:
        return at


class _Handler(Calls):
    """Answers every call with its message."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = lambda call, message: call.respond(message)

    def lane(self, connection: Http2Connection) -> _OnlyTables | None:
        tables = _tables()
        return _OnlyTables(tables) if tables is not None else None


async def fuzz_frames(count: int, seed: int, report: FuzzReport) -> None:
    """Frames of a connection, then a good call: it is answered, or the connection has ended."""
    good, rng = _good_frames(), Random(f"{seed} frames")
    report.inputs["frames"] = report.accepted["frames"] = 0
    number = 0
    while report.inputs["frames"] < count:
        number += 1
        talk = Talk(handler=_Handler()).greet()
        some = [damaged(rng.choice(good), rng) for _ in range(rng.randrange(1, 24))]
        report.inputs["frames"] += len(some)
        try:
            for frame in some:
                talk.feed(frame)
            half = (
                talk.connection._frames.half_read_bytes or talk.connection._requests.block is not None
            )  # it swallows the call
            if talk.connection.is_open:
                talk.call(1_000_001, b"the last one")
            found = await talk.read()
        except Exception as error:
            report.problems.append(f"frames, seed {seed}, connection {number}: {error!r}")
            continue
        if not talk.transport.closed:
            if not half and messages(found, 1_000_001) != [b"the last one"]:
                report.problems.append(f"frames, seed {seed}, connection {number}: a call was not answered")
            report.accepted["frames"] += len(some)
        talk.connection.connection_lost(None)
        if len(report.problems) > 20:
            return


# --- calls that the lane takes ---


async def fuzz_taken(count: int, seed: int, report: FuzzReport) -> None:
    """Reads of a connection to a broker without sockets, then a good call: it is answered, or the connection ended."""
    rng = Random(f"{seed} taken")
    report.inputs["taken"] = report.accepted["taken"] = 0
    while report.inputs["taken"] < count and len(report.problems) <= 20:
        before = report.inputs["taken"]
        async with LaneRig(with_core=core is not None) as rig:
            consumer, entries = await warm_consumer(rig, 3)
            reads = [damaged_read(consumer, entries, rng) for _ in range(rng.randrange(1, 30))]
            report.inputs["taken"] += len(reads)
            try:
                if await _is_open_after(reads, rig, consumer, rng):
                    consumer.go_on_behind(consumer.peer.connection._streams.last_id)  # a damaged one may be far ahead
                    answered = await consumer.ack(entries[:1])
                    assert answered.status is not None, "the last call is not answered"
                    report.accepted["taken"] += len(reads)
                consumer.peer.connection.connection_lost(None)
                assert not consumer.peer.connection.calls, "calls of a connection that is gone"
            except Exception as error:
                report.problems.append(f"taken, seed {seed}, inputs from {before}: {error!r}")


async def _is_open_after(reads: list[bytes], rig: LaneRig, consumer: Consumer, rng: Random) -> bool:
    """Whether a call that comes next has to be answered."""
    connection = consumer.peer.connection
    for read in reads:
        connection.data_received(read)
        if rng.random() < 0.3:
            await rig.settle()
    await rig.settle()
    is_half = connection._frames.half_read_bytes or connection._requests.block is not None  # it swallows the call
    has_streams = connection._streams.last_id < _STREAM_ID_MAX
    return not is_half and has_streams and not connection._is_ending and not consumer.peer.transport.closed


def damaged_read(consumer: Consumer, entries: list[services.AckMessageEntry], rng: Random) -> bytes:
    """Some calls; the messages of half of them are damaged, and of some reads the frames."""
    found = b""
    for _ in range(rng.randrange(1, 6)):
        name = rng.choice(("SendMessage", "AckMessage", "AckMessage", "ReceiveMessage"))
        request = SEEDS[name].encode()
        if name == "AckMessage":
            own = rng.sample(entries, rng.randrange(len(entries) + 1))
            request = services.AckMessageRequest(group=BILLING, topic=ORDERS, entries=own).encode()
        if rng.random() < 0.5:
            request = damaged(request, rng)
        found += consumer.encoded_bytes(name, request)[1]
    return damaged(found, rng) if rng.random() < 0.03 else found


# --- calls to a broker ---


def _calls(count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    rng, names = Random(f"{seed} calls"), list(SEEDS)
    for number in range(count):
        name = names[number % len(names)]
        yield name, damaged(SEEDS[name].encode(), rng)


async def fuzz_calls(address: str, count: int, seed: int, report: FuzzReport) -> None:
    """Every call is answered: with messages and a status, or with a status alone."""
    report.inputs["calls"] = report.accepted["calls"] = 0
    calls = list(_calls(count, seed))
    for begin in range(0, count, 200):
        async with RawPeer(address, f"fuzz-{begin}", initial_window_size=1 << 24) as peer:
            streams: dict[int, int] = {}
            for number, (name, data) in enumerate(calls[begin : begin + 200]):
                stream = 2 * number + 1
                streams[stream] = begin + number
                head = peer.head(stream, name, **{"grpc-timeout": "3S"})
                body = frames.encode_frame(frames.DATA, frames.END_STREAM, stream, with_prefix(data))
                assert await peer.send(head + body), f"seed {seed}, call {begin + number}: the connection has ended"
            await _answered(peer, streams, seed, report)


async def _answered(peer: RawPeer, streams: dict[int, int], seed: int, report: FuzzReport) -> None:
    deadline = time.monotonic() + 120
    report.inputs["calls"] += len(streams)
    while streams and time.monotonic() < deadline:
        await peer.look()
        for kind, flags, stream, payload in peer.seen:
            if (kind in (frames.HEADERS, frames.DATA) and flags & frames.END_STREAM) or kind == frames.RST_STREAM:
                report.accepted["calls"] += streams.pop(stream, None) is not None and b"\x010" in payload[-4:]
        peer.seen.clear()
        await asyncio.sleep(0.01)
    report.problems += [f"calls, seed {seed}: call {number} is not answered" for number in streams.values()]


async def fuzz_real_broker(folder: Path, count: int, seed: int, report: FuzzReport) -> None:
    async with victim(folder) as server:
        async with Admin(server.nameserver) as admin:
            await admin.topics.create("orders", queues=2)
        await fuzz_calls(server.addresses["grpc"], count, seed, report)
        if "Traceback" in server.log:
            report.problems.append(server.log[server.log.index("Traceback") - 300 :][:3_000])


def fuzz_all(inputs: int, seed: int) -> FuzzReport:
    """Of a hundred 40 are messages, 30 header blocks, 28 frames, and 2 reads of whole calls."""
    report = FuzzReport()
    fuzz_messages(inputs * 4 // 10, seed, report)
    fuzz_headers(inputs * 3 // 10, seed, report)
    asyncio.run(fuzz_frames(inputs * 28 // 100, seed, report))
    asyncio.run(fuzz_taken(inputs * 2 // 100, seed, report))
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--calls", type=int, default=0)
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    report = fuzz_all(given.inputs, given.seed)
    if given.calls:
        with tempfile.TemporaryDirectory(prefix="pyromq-fuzz-") as scratch:
            asyncio.run(fuzz_real_broker(Path(scratch), given.calls, given.seed, report))
    print(f"seed {given.seed}, {'core' if _tables() is not None else 'pure'}: {report}", flush=True)
    for problem in report.problems:
        print(f"PROBLEM {problem}")
    return bool(report.problems)


if __name__ == "__main__":
    sys.exit(main())
