"""What a broker asks of clients on their telemetry streams: thread stacks, a message handed over, new connections."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import grpc
from pyromq.broker.base.settings import GrpcSettings
from pyromq.broker.broker import Broker
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.grpc.codes import StatusCode
from pyromq.wire.grpc.definitions import Status
from pyromq.wire.grpc.services import Nonce, TelemetryCommand, ThreadStackTrace
from pyromq.wire.headers.shared import ConsumeDirectlyHeader, ConsumerRunningInfoHeader
from tests.integration.grpc_client import GrpcTester, add_topic, channel_to, consumer_settings, message
from tests.integration.test_broker import Client, running, send

pytestmark = [pytest.mark.integration, pytest.mark.both_modes]
NAME = {"x-mq-client-id": "worker-1"}


@asynccontextmanager
async def push_consumer(folder: Path) -> AsyncIterator[tuple[Broker, Client, Any]]:
    """A broker, an operator's connection, and the telemetry stream of a push consumer."""
    async with running(folder, grpc=GrpcSettings(port=0)) as (broker, operator):
        add_topic(broker, "orders", queues=1)
        async with channel_to(broker) as channel:
            stream, _ = await GrpcTester(channel, **NAME).settings(consumer_settings("billing", "orders"))
            yield broker, operator, stream
            stream.cancel()


def test_an_operator_reads_the_stacks_of_a_consumer(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with push_consumer(tmp_path) as (_, operator, stream):
            header = ConsumerRunningInfoHeader(consumer_group="billing", client_id="worker-1", jstack_enable=True)
            asked = asyncio.ensure_future(operator.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, header))
            command = (await stream.read()).print_thread_stack_trace_command
            trace = ThreadStackTrace(nonce=command.nonce, thread_stack_trace="main: at Shop.pay")
            await stream.write(TelemetryCommand(thread_stack_trace=ThreadStackTrace(nonce="of nobody")))
            await stream.write(TelemetryCommand(status=Status(code=StatusCode.OK), thread_stack_trace=trace))
            response = await asked
            assert response.code == ResponseCode.SUCCESS
            assert json.loads(response.body)["jstack"] == "main: at Shop.pay"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("status", "verdict"), [(StatusCode.OK, "CR_SUCCESS"), (StatusCode.FAILED_TO_CONSUME_MESSAGE, "CR_LATER")]
)
def test_an_operator_hands_a_message_to_a_consumer(tmp_path: Path, status: StatusCode, verdict: str) -> None:
    async def scenario() -> None:
        async with push_consumer(tmp_path) as (_, operator, stream):
            sent = await send(operator, b"42", properties="UNIQ_KEY\x01U1\x02")
            header = ConsumeDirectlyHeader(
                consumer_group="billing", client_id="worker-1", topic="orders", msg_id=sent.msg_id
            )
            asked = asyncio.ensure_future(operator.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, header))
            command = (await stream.read()).verify_message_command
            assert (command.message.body, command.message.topic.name) == (b"42", "orders")
            result = TelemetryCommand(
                status=Status(code=status, message="looked at"), verify_message_result=Nonce(nonce=command.nonce)
            )
            await stream.write(result)
            response = await asked
            assert response.code == ResponseCode.SUCCESS
            said = json.loads(response.body)
            assert (said["consumeResult"], said["remark"]) == (verdict, "looked at")

    asyncio.run(scenario())


@pytest.mark.parametrize(("language", "is_told"), [("JAVA", True), ("NODE_JS", False)])
def test_a_broker_that_stops_tells_clients_to_connect_anew(tmp_path: Path, language: str, is_told: bool) -> None:
    """Node.js' client takes its listeners off the stream then, and the end of the connection ends its process."""

    async def scenario() -> None:
        async with running(tmp_path, grpc=GrpcSettings(port=0)) as (broker, _):
            add_topic(broker, "orders", queues=1)
            async with channel_to(broker) as channel:
                client = GrpcTester(channel, **{"x-mq-language": language})
                stream, _ = await client.settings(consumer_settings("billing", "orders"))
                await client.send(message(b"before"))
                stopping = asyncio.ensure_future(broker.stop())
                said = [command async for command in _rest(stream)]
                await stopping
        told = [command for command in said if command.reconnect_endpoints_command is not None]
        assert len(told) == is_told
        for command in told:
            assert "stops" in command.status.message and command.reconnect_endpoints_command.nonce

    asyncio.run(scenario())


async def _rest(stream: Any) -> AsyncIterator[TelemetryCommand]:
    """What comes on a stream until it breaks."""
    try:
        while (command := await stream.read()) is not grpc.aio.EOF:
            yield command
    except grpc.aio.AioRpcError as error:
        assert error.code() == grpc.StatusCode.UNAVAILABLE, error
