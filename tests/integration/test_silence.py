"""Mistakes that used to wait in silence say what is wrong."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from typing import Any

import pytest

from pyromq.aio import Admin, Message, Producer, PullConsumer, PushConsumer, ReceivedMessage
from pyromq.broker.base.settings import BrokerSettings
from pyromq.client.consumer.base import loop_watch
from pyromq.client.consumer.rules.flow_control import FlowLimits
from pyromq.errors import ConfigError, MQError
from pyromq.settings import PushConsumerSettings
from pyromq.testing import LoopbackBroker
from tests.integration.waiting import until

pytestmark = pytest.mark.integration

FAST = PushConsumerSettings(start="earliest", rebalance_ms=200, persist_ms=50)


async def ignore(message: ReceivedMessage) -> None:
    """A listener."""


def warnings(caplog: pytest.LogCaptureFixture) -> str:
    found = (record for record in caplog.records if record.levelno >= logging.WARNING)
    return "\n".join(record.getMessage() for record in found)


def consumer(broker: LoopbackBroker, listener: Any = ignore, topics: Any = "orders", **changes: Any) -> PushConsumer:
    settings = replace(FAST, **changes)
    return PushConsumer(broker.nameserver, group="billing", listener=listener, topics=topics, settings=settings)


async def test_a_misspelt_topic_is_named_once_with_what_was_probably_meant(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with LoopbackBroker() as broker, Producer(broker.nameserver, group="makers") as producer:
        await producer.send(Message("orders", b"1"))
        async with consumer(broker, topics="ordres") as member:
            text = "topic 'ordres' does not exist (did you mean 'orders'?); waiting"
            await until(lambda: text in warnings(caplog))
            await producer.send(Message("ordres", b"2"))
            await until(lambda: "topic exists now: topic=ordres" in caplog.text)
            await until(lambda: member.counts.ok == 1)
        assert warnings(caplog).count("does not exist") == 1


async def test_a_group_that_no_broker_creates_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async with (
        LoopbackBroker(BrokerSettings(port=0, auto_create_groups=False)) as broker,
        Producer(broker.nameserver, group="makers") as producer,
        Admin(broker.nameserver) as admin,
    ):
        await producer.send(Message("orders", b"1"))
        async with consumer(broker) as member:
            await until(lambda: "group 'billing': broker" in warnings(caplog))
            assert "create it (pyromq group create)" in warnings(caplog)
            await admin.groups.create("billing")
            await until(lambda: member.counts.ok == 1)


async def test_a_consumer_without_subscription_is_refused_or_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async with LoopbackBroker() as broker:
        with pytest.raises(ConfigError, match="no topic is subscribed"):
            await consumer(broker, topics=()).open()
        async with PullConsumer(broker.nameserver, group="readers") as reader:
            with pytest.raises(ConfigError, match="no topic is subscribed"):
                await reader.poll(10)
        async with consumer(broker) as member:
            member.unsubscribe("orders")
            assert "no topic is subscribed any more" in warnings(caplog)


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_coroutine_that_blocks_the_loop_is_named_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, orderly: bool
) -> None:
    monkeypatch.setattr(loop_watch, "TICK_S", 0.01)

    async def blocking(message: ReceivedMessage) -> None:
        time.sleep(1.1)  # noqa: ASYNC251 - what is tested

    async with LoopbackBroker() as broker, Producer(broker.nameserver, group="makers") as producer:
        await producer.send_batch([Message("orders", b"1")] * 2)
        async with consumer(broker, blocking, orderly=orderly) as member:
            await until(lambda: member.counts.ok == 2)
        assert warnings(caplog).count("coroutine listener blocks the event loop") == 1
        assert "blocking seconds=1." in warnings(caplog)


async def test_the_log_of_sends_has_their_keys(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "pyromq.client.producer.send_log")
    async with LoopbackBroker() as broker, Producer(broker.nameserver, group="makers") as producer:
        receipt = await producer.send(Message("orders", b"1", keys="order-7 customer-3"))
        assert f"sent: topic=orders keys='order-7 customer-3' id={receipt.message_id} status=SEND_OK" in caplog.text
        with pytest.raises(MQError):
            await producer.send(Message("orders", b"1", keys="order-8", delay=60 * 86_400))
        assert "send failed: topic=orders keys='order-8'" in caplog.text


async def test_flow_control_offsets_that_go_back_and_sends_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "pyromq.client.producer.send_log")
    release = asyncio.Event()

    async def held(message: ReceivedMessage) -> None:
        await release.wait()

    async with LoopbackBroker() as broker, Producer(broker.nameserver, group="makers") as producer:
        receipts = await producer.send_batch([Message("orders", b"1")] * 100)
        assert f"sent: topic=orders keys='' id={receipts[0].message_id} status=SEND_OK" in caplog.text
        limits = FlowLimits(messages_max=10, full_wait_ms=1)
        async with consumer(broker, held, limits=limits) as member, Admin(broker.nameserver) as admin:
            await until(lambda: "pulls held back: queue=" in warnings(caplog))
            await until(lambda: sum(member.flow_counts.values()) > 20)
            assert warnings(caplog).count("reason=too many messages buffered") == 1
            release.set()
            await until(lambda: member.counts.ok == 100)
            await admin.offsets.reset("billing", "orders", to_ms=0)
            await until(lambda: "offset goes back, messages come again" in warnings(caplog))
