"""Access control at the gRPC port: signatures over the time of a call, rights by topic and group, client ids."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha1
from pathlib import Path
from typing import Any

import pytest

import grpc
from pyromq.broker.base.access import GuardedAccess
from pyromq.broker.base.settings import GrpcSettings
from pyromq.broker.broker import Broker
from pyromq.security.policies import make_user
from pyromq.security.secret import Secret
from pyromq.wire.grpc.codes import StatusCode
from pyromq.wire.grpc.definitions import MessageQueue, Resource
from pyromq.wire.grpc.services import (
    GetOffsetRequest,
    OffsetResponse,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    QueryRouteRequest,
    QueryRouteResponse,
    RecallMessageRequest,
    RecallMessageResponse,
)
from tests.integration.grpc_client import GrpcTester, add_topic, channel_to, consumer_settings, message
from tests.integration.guarded import CANARY, guarded_access
from tests.integration.test_broker import settings

pytestmark = [pytest.mark.integration, pytest.mark.both_modes]
TIME = "20261116T120000Z"


def signed(user: str, secret: str, time: str = TIME, *, upper: bool = False) -> dict[str, str]:
    digits = hmac.new(secret.encode(), time.encode(), sha1).hexdigest()
    text = digits.upper() if upper else digits
    value = f"MQv2-HMAC-SHA1 Credential={user}, SignedHeaders=x-mq-date-time, Signature={text}"
    return {"authorization": value, "x-mq-date-time": time}


@asynccontextmanager
async def guarded(folder: Path) -> AsyncIterator[tuple[Broker, grpc.aio.Channel]]:
    changes: dict[str, Any] = {"grpc": GrpcSettings(port=0), "access": guarded_access()}
    async with Broker(settings(**changes), folder / "store") as broker:
        add_topic(broker, "orders")
        access = broker.access
        assert isinstance(access, GuardedAccess)
        access.guard.book.create_user(make_user("alice", Secret("alice-s3cret")))
        async with channel_to(broker) as channel:
            yield broker, channel


def test_a_good_signature_of_either_case_lets_a_user_in(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded(tmp_path) as (_, channel):
            for upper in (False, True):
                client = GrpcTester(channel, **signed("root", CANARY, upper=upper))
                sent = await client.send(message(b"mine"))
                assert sent.status is not None and sent.status.code == StatusCode.OK, sent.status
                [found] = await client.messages()
                acknowledged = await client.ack(found)
                assert acknowledged.status is not None and acknowledged.status.code == StatusCode.OK

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        signed("root", "wrong"),
        signed("nobody", CANARY),
        signed("", ""),
        {"authorization": signed("root", CANARY)["authorization"]},
        {**signed("root", CANARY), "x-mq-date-time": "20261116T120001Z"},
        {**signed("root", CANARY), "authorization": "Basic cm9vdDpyb290"},
        signed("alice", "alice-s3cret"),
    ],
    ids=["none", "wrong key", "nobody", "empty user", "no time", "another time", "another scheme", "no right"],
)
def test_others_are_unauthorized_whatever_they_ask(tmp_path: Path, metadata: dict[str, str]) -> None:
    async def scenario() -> None:
        async with guarded(tmp_path) as (_, channel):
            client = GrpcTester(channel, **metadata)
            sent = await client.send(message())
            assert sent.status is not None and sent.status.code == StatusCode.UNAUTHORIZED, sent.status
            parts = await client.receive()
            assert parts[0].status.code == StatusCode.UNAUTHORIZED
            route = QueryRouteRequest(topic=Resource(name="orders"))
            assert (await client.ask("QueryRoute", route, QueryRouteResponse)).status.code == StatusCode.UNAUTHORIZED
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await client.settings(consumer_settings("billing", "orders"))
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert "UNAUTHORIZED" in (refused.value.details() or "")

    asyncio.run(scenario())


@pytest.mark.parametrize("topic", ["orders", "missing"])
def test_who_may_do_nothing_with_a_topic_does_not_learn_whether_it_exists(tmp_path: Path, topic: str) -> None:
    async def scenario() -> None:
        async with guarded(tmp_path) as (_, channel):
            alice = GrpcTester(channel, **signed("alice", "alice-s3cret"))
            name = Resource(name=topic)
            queue = MessageQueue(topic=name)
            group = Resource(name="billing")
            asked = [
                (await alice.send(message(topic=topic))).status,
                (await alice.receive(topic=topic))[0].status,
                (await alice.ask("QueryRoute", QueryRouteRequest(topic=name), QueryRouteResponse)).status,
                (
                    await alice.ask(
                        "QueryAssignment", QueryAssignmentRequest(topic=name, group=group), QueryAssignmentResponse
                    )
                ).status,
                (
                    await alice.ask(
                        "RecallMessage", RecallMessageRequest(topic=name, recall_handle="x"), RecallMessageResponse
                    )
                ).status,
                (
                    await alice.ask("GetOffset", GetOffsetRequest(group=group, message_queue=queue), OffsetResponse)
                ).status,
            ]
            assert {status.code for status in asked if status is not None} == {StatusCode.UNAUTHORIZED}, asked

    asyncio.run(scenario())


def test_the_same_client_id_of_two_users_is_two_clients(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded(tmp_path) as (broker, channel):
            name = {"x-mq-client-id": "same"}
            root = GrpcTester(channel, **signed("root", CANARY), **name)
            await root.send(message())
            alice = GrpcTester(channel, **signed("alice", "alice-s3cret"), **name)
            refused = await alice.send(message())
            assert refused.status is not None and refused.status.code == StatusCode.UNAUTHORIZED
            assert len(broker._grpc.clients) == 2

    asyncio.run(scenario())
