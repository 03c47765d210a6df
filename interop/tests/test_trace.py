"""Traces: mqadmin reads ours, we read those of Java, with either server."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from interop.jars import Jars
from interop.mqadmin import run_mqadmin
from interop.tests.conftest import case
from interop.world import Cluster
from pyromq import aio
from pyromq.errors import NotFoundError, TopicNotFoundError
from pyromq.model.message import Message
from pyromq.settings import PushConsumerSettings
from pyromq.wire.trace import MessageKind, Published, TraceRecord

SECTION = "Java admin tools × servers"
_FIRST = PushConsumerSettings(start="earliest")


@case("queryMsgTraceById reads traces of PyroMQ's clients", SECTION)
async def test_mqadmin_reads_our_traces(cluster: Cluster, jars: Jars, tmp_path: Path) -> None:
    topic, group, consumed = f"traced-{uuid4().hex[:8]}", f"billing-{uuid4().hex[:8]}", asyncio.Event()

    async def listen(message: aio.ReceivedMessage) -> None:
        consumed.set()

    async with aio.Admin(cluster.nameserver) as admin:
        await admin.topics.create(topic, queues=1)
        await admin.groups.create(group)
    async with aio.Producer(cluster.nameserver, group="orders-service", trace=True) as producer:
        receipt = await producer.send(Message(topic, b"42", keys="order-42"))
    consumer = aio.PushConsumer(cluster.nameserver, group=group, listener=listen, settings=_FIRST, trace=True)
    consumer.subscribe(topic)
    async with consumer:
        await consumed.wait()
    command = ("queryMsgTraceById", "-n", cluster.nameserver, "-i", receipt.message_id)
    lines: list[list[str]] = []
    while len(lines) < 2:  # Apache's index takes a moment
        shown = await asyncio.to_thread(run_mqadmin, jars, tmp_path, *command)
        lines = [line.split() for line in shown.splitlines() if line.startswith(("Pub", "Sub"))]
    assert [(line[0], line[1], line[-1]) for line in lines] == [
        ("Pub", "orders-service", "success"),
        ("Sub", group, "success"),
    ]


@case("a trace of the Java producer is read by PyroMQ", SECTION)
async def test_we_read_traces_of_java(cluster: Cluster, jars: Jars, tmp_path: Path) -> None:
    key, topic = f"key-{uuid4().hex[:8]}", f"traced-{uuid4().hex[:8]}"
    command = ["sendMessage", "-n", cluster.nameserver, "-t", topic, "-p", "42", "-k", key, "-c", "new", "-m", "true"]
    async with aio.Admin(cluster.nameserver) as admin:
        await admin.topics.create(topic, queues=1)
        found: list[TraceRecord] = []
        while not found:  # mqadmin waits half a second for its traces and then ends, on a busy machine without them
            await asyncio.to_thread(run_mqadmin, jars, tmp_path, *command)
            with suppress(NotFoundError, TopicNotFoundError):
                found = await admin.messages.trace(key)
    record = found[0]
    assert isinstance(record, Published)
    assert (record.topic, record.tags, record.keys, record.body_bytes) == (topic, "new", key, 2)
    assert (record.kind, record.is_success) == (MessageKind.NORMAL, True)
