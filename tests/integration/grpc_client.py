"""A client of the gRPC front door on grpcio: not our HTTP/2, our messages."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import grpc
from pyromq.broker.base.settings import GrpcSettings
from pyromq.broker.broker import Broker
from pyromq.model.topic import GroupConfig, TopicConfig
from pyromq.wire.grpc.codes import ClientType
from pyromq.wire.grpc.definitions import (
    FilterExpression,
    GroupSubscription,
    GrpcClientSettings,
    GrpcMessage,
    MessageQueue,
    ProtoTime,
    Publishing,
    Resource,
    SubscriptionEntry,
    SystemProperties,
)
from pyromq.wire.grpc.protobuf import Proto, decode
from pyromq.wire.grpc.services import (
    SERVICE,
    AckMessageEntry,
    AckMessageRequest,
    AckMessageResponse,
    ReceiveMessageRequest,
    ReceiveMessageResponse,
    SendMessageRequest,
    SendMessageResponse,
    TelemetryCommand,
)
from tests.integration.test_broker import settings

_ids = itertools.count(1)


def message(body: bytes = b"hello", topic: str = "orders", **system: Any) -> GrpcMessage:
    system = {"message_id": f"01{next(_ids):032X}", "body_encoding": 1, "message_type": 1} | system
    user = system.pop("user_properties", {})
    return GrpcMessage(
        topic=Resource(name=topic), body=body, user_properties=user, system_properties=SystemProperties(**system)
    )


class GrpcTester:
    """One client id on one channel."""

    def __init__(self, channel: grpc.aio.Channel, **metadata: str) -> None:
        self._channel = channel
        self._metadata = {"x-mq-client-id": f"tester-{next(_ids)}", "x-mq-language": "PYTHON"} | metadata

    def _fields(self, more: dict[str, str]) -> tuple[tuple[str, str], ...]:
        return tuple((name.replace("_", "-"), value) for name, value in (self._metadata | more).items())

    async def ask(self, name: str, request: Proto, kind: type[Any], *, timeout_s: float = 30, **metadata: str) -> Any:
        call = self._channel.unary_unary(
            SERVICE + name, request_serializer=lambda each: each.encode(), response_deserializer=partial(decode, kind)
        )
        return await call(request, timeout=timeout_s, metadata=self._fields(metadata))

    async def stream(self, name: str, request: Proto, kind: type[Any], *, timeout_s: float = 30) -> list[Any]:
        call = self._channel.unary_stream(
            SERVICE + name, request_serializer=lambda each: each.encode(), response_deserializer=partial(decode, kind)
        )
        return [each async for each in call(request, timeout=timeout_s, metadata=self._fields({}))]

    def telemetry(self) -> Any:
        call = self._channel.stream_stream(
            SERVICE + "Telemetry",
            request_serializer=lambda each: each.encode(),
            response_deserializer=partial(decode, TelemetryCommand),
        )
        return call(metadata=self._fields({}))

    # --- in short ---

    async def send(self, *messages: GrpcMessage) -> SendMessageResponse:
        found: SendMessageResponse = await self.ask(
            "SendMessage", SendMessageRequest(messages=list(messages)), SendMessageResponse
        )
        return found

    async def receive(self, group: str = "billing", topic: str = "orders", **changes: Any) -> list[Any]:
        """All parts of the response."""
        fields: dict[str, Any] = {
            "group": Resource(name=group),
            "message_queue": MessageQueue(topic=Resource(name=topic)),
            "filter_expression": FilterExpression(kind=1, expression="*"),
            "batch_size": 32,
            "invisible_duration": ProtoTime(seconds=60),
            "long_polling_timeout": ProtoTime(seconds=5),
        }
        return await self.stream("ReceiveMessage", ReceiveMessageRequest(**fields | changes), ReceiveMessageResponse)

    async def messages(self, **changes: Any) -> list[GrpcMessage]:
        return [each.message for each in await self.receive(**changes) if each.message is not None]

    async def ack(self, *found: GrpcMessage, group: str = "billing", topic: str = "orders") -> AckMessageResponse:
        entries = [
            AckMessageEntry(
                message_id=each.system_properties.message_id, receipt_handle=each.system_properties.receipt_handle or ""
            )
            for each in found
            if each.system_properties is not None
        ]
        request = AckMessageRequest(group=Resource(name=group), topic=Resource(name=topic), entries=entries)
        answered: AckMessageResponse = await self.ask("AckMessage", request, AckMessageResponse)
        return answered

    async def settings(self, settings: GrpcClientSettings) -> tuple[Any, TelemetryCommand]:
        """The open stream, and the first command that came."""
        stream = self.telemetry()
        await stream.write(TelemetryCommand(settings=settings))
        return stream, await stream.read()


def producer_settings(*topics: str) -> GrpcClientSettings:
    publishing = Publishing(topics=[Resource(name=topic) for topic in topics], validate_message_type=True)
    return GrpcClientSettings(client_type=ClientType.PRODUCER, publishing=publishing)


def consumer_settings(group: str, *topics: str, kind: ClientType = ClientType.PUSH_CONSUMER) -> GrpcClientSettings:
    entries = [
        SubscriptionEntry(topic=Resource(name=topic), expression=FilterExpression(kind=1, expression="*"))
        for topic in topics
    ]
    subscription = GroupSubscription(group=Resource(name=group), subscriptions=entries)
    return GrpcClientSettings(client_type=kind, subscription=subscription)


@asynccontextmanager
async def grpc_broker(folder: Path, **changes: Any) -> AsyncIterator[tuple[Broker, GrpcTester]]:
    """A broker with topic ``orders``, and a client of its gRPC port."""
    async with Broker(settings(grpc=GrpcSettings(port=0), **changes), folder / "store") as broker:
        add_topic(broker, "orders")
        async with channel_to(broker) as channel:
            yield broker, GrpcTester(channel)


@asynccontextmanager
async def channel_to(broker: Broker) -> AsyncIterator[grpc.aio.Channel]:
    assert broker.grpc_address is not None
    async with grpc.aio.insecure_channel(str(broker.grpc_address)) as channel:
        yield channel


def add_topic(broker: Broker, name: str, kind: str = "NORMAL", queues: int = 2) -> None:
    broker.parts.tables.topics.update(
        TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, attributes={"message.type": kind})
    )


def add_group(broker: Broker, name: str, **changes: Any) -> None:
    broker.parts.tables.groups.update(GroupConfig(group_name=name, **changes))
