"""A consumer by gRPC without sockets, for a broker that is fed bytes."""

from __future__ import annotations

from random import Random

import hpack

from pyromq.model.topic import TopicConfig
from pyromq.wire.grpc.definitions import (
    FilterExpression,
    GrpcMessage,
    MessageQueue,
    ProtoTime,
    Resource,
    SystemProperties,
)
from pyromq.wire.grpc.framing import MessageCutter, with_prefix
from pyromq.wire.grpc.protobuf import Proto, decode
from pyromq.wire.grpc.services import (
    SERVICE,
    AckMessageEntry,
    AckMessageRequest,
    AckMessageResponse,
    ReceiveMessageRequest,
    ReceiveMessageResponse,
    SendMessageRequest,
)
from pyromq.wire.http2 import frames
from tests.unit.broker.grpc.test_one_lane import GrpcPeer
from tests.unit.broker.popping.pop_rig import number_by_key
from tests.unit.broker.sending.lane_rig import LaneRig

ORDERS, BILLING = Resource(name="orders"), Resource(name="billing")


class Consumer:
    """A client that sends, receives and acknowledges, one call after the other."""

    def __init__(self, rig: LaneRig) -> None:
        self._rig = rig
        self._encoder = hpack.Encoder()
        self._next_id = 1
        self.timeout = ""  # of receives; without one they are not the lane's
        self.peer = GrpcPeer(rig, 0)
        greeting = frames.PREFACE + frames.encode_settings([(4, 1 << 20)]) + frames.encode_window_update(0, 1 << 24)
        self.peer.connection.data_received(greeting)

    async def call(self, name: str, request: Proto) -> list[bytes]:
        stream_id = self.ask(name, request)
        for _ in range(3):
            await self._rig.settle()
        return self.answer(stream_id)

    def ask(self, name: str, request: Proto) -> int:
        """Send a call; returns the number of its stream."""
        stream_id, read = self.encoded(name, request)
        self.peer.connection.data_received(read)
        return stream_id

    def encoded(self, name: str, request: Proto) -> tuple[int, bytes]:
        """A call: the number of its stream, and its bytes. Calls are to be sent in the order of their making."""
        return self.encoded_bytes(name, request.encode())

    def encoded_bytes(self, name: str, request: bytes) -> tuple[int, bytes]:
        stream_id, self._next_id = self._next_id, self._next_id + 2
        fields = [(":method", "POST"), (":scheme", "http"), (":path", f"{SERVICE}{name}")]
        fields += [("content-type", "application/grpc"), ("x-mq-client-id", "me"), ("x-mq-client-version", "5.0.8")]
        if self.timeout and name == "ReceiveMessage":
            fields.append(("grpc-timeout", self.timeout))
        block = self._encoder.encode(fields)
        read = frames.encode_frame(frames.HEADERS, frames.END_HEADERS, stream_id, block)
        read += frames.encode_frame(frames.DATA, frames.END_STREAM, stream_id, with_prefix(request))
        return stream_id, read

    def go_on_behind(self, stream_id: int) -> None:
        """Calls that are made from now on have streams behind that one, which somebody else has opened."""
        self._next_id = max(self._next_id, stream_id + 2)

    def answer(self, stream_id: int) -> list[bytes]:
        """The messages that answered a call, which is over."""
        self.peer.connection._out.flush()
        answered = self.peer.streams()[stream_id]
        assert answered[-1][:2] == (frames.HEADERS, 5)
        data = b"".join(payload for kind, _, _, payload in answered if kind == frames.DATA)
        return MessageCutter(1 << 24).feed(data)

    async def send(self, rng: Random, count: int) -> None:
        for _ in range(count):
            system = SystemProperties(
                tag=rng.choice((None, "a")),
                keys=["k1", "k2"][: rng.randrange(3)],
                message_id=f"01{rng.randrange(1 << 60):X}",
                body_encoding=1,
                message_type=1,
                message_group=rng.choice((None, None, "g")),
                priority=rng.choice((None, None, None, None, 3)),
            )
            body, user = rng.randbytes(rng.choice((1, 100, 2_000))), {"p": "grüße"} if rng.random() < 0.5 else {}
            message = GrpcMessage(topic=ORDERS, user_properties=user, system_properties=system, body=body)
            await self.call("SendMessage", SendMessageRequest(messages=[message]))

    async def receive(self, count: int, *, renew: bool = False) -> list[GrpcMessage]:
        return messages_of(await self.call("ReceiveMessage", receive_of(count, renew=renew)))

    async def ack(self, entries: list[AckMessageEntry], group: Resource = BILLING) -> AckMessageResponse:
        request = AckMessageRequest(group=group, topic=ORDERS, entries=entries)
        (answered,) = await self.call("AckMessage", request)
        return decode(AckMessageResponse, answered)


def receive_of(count: int, *, renew: bool = False) -> ReceiveMessageRequest:
    return ReceiveMessageRequest(
        group=BILLING,
        message_queue=MessageQueue(topic=ORDERS),
        filter_expression=FilterExpression(kind=1, expression="*"),
        batch_size=count,
        invisible_duration=None if renew else ProtoTime(seconds=30),
        auto_renew=renew,
        long_polling_timeout=ProtoTime(seconds=5),
    )


def messages_of(answer: list[bytes]) -> list[GrpcMessage]:
    found = [decode(ReceiveMessageResponse, each) for each in answer]
    return [each.message for each in found if each.message is not None]


def entries_of(messages: list[GrpcMessage]) -> list[AckMessageEntry]:
    found = []
    for message in messages:
        system = message.system_properties
        assert system is not None
        found.append(AckMessageEntry(message_id=system.message_id, receipt_handle=system.receipt_handle or ""))
    return found


async def consuming(rig: LaneRig, topic_type: str = "MIXED") -> Consumer:
    attributes = {"message.type": topic_type}
    config = TopicConfig(topic_name="orders", read_queue_nums=2, write_queue_nums=2, attributes=attributes)
    rig.broker.parts.tables.topics.update(config)
    number_by_key(rig.broker.parts.popping.pops)
    return Consumer(rig)


async def warm_consumer(rig: LaneRig, count: int) -> tuple[Consumer, list[AckMessageEntry]]:
    """A client that the lane knows, and so many messages that it has received and not acknowledged."""
    consumer = await consuming(rig)
    await consumer.send(Random(1), count + 1)
    entries = entries_of(await consumer.receive(32))
    assert len(entries) == count + 1
    await consumer.ack(entries[:1])
    return consumer, entries[1:]
