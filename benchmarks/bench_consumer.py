"""A consumer's bookkeeping: QueueBuffer and the decisions around it, one core, no sockets.

Messages of 1 KiB arrive 32 at a time; sizes of batches are those that listeners get. One operation is one message on
its whole way: filtered, added, taken, decided, finished, with the offset to commit after every batch.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

from benchmarks.measure import Row, measure
from pyromq.client.consumer.rules.assign import Assign, assign_by_hash, assign_evenly
from pyromq.client.consumer.rules.flow_control import FlowControl, FlowLimits
from pyromq.client.consumer.rules.message_protocol import PulledMessage
from pyromq.client.consumer.rules.outcome import ConsumeStatus, decide
from pyromq.client.consumer.rules.queue_buffer import QueueBuffer
from pyromq.client.consumer.rules.subscription import subscribe_tags, wanted_messages
from pyromq.clock import SystemClock
from pyromq.model.queue import QueueId
from pyromq.wire.json.heartbeat import Subscription

MESSAGES = 96_000
PULLED = 32
HELD = 960


@dataclass(slots=True)
class BenchMessage:
    """As much of a message as a buffer looks at."""

    offset: int
    record: bytes
    delivery_attempt: int = 0
    tags: str | None = "TagA"
    properties: dict[str, str] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        return len(self.record)

    def after_failure(self) -> Self:
        return replace(self, delivery_attempt=self.delivery_attempt + 1)


def rows() -> list[Row]:
    record = bytes(1024)
    messages = [BenchMessage(offset, record) for offset in range(MESSAGES)]
    everything, tag = subscribe_tags("orders", "*", 1), subscribe_tags("orders", "TagA || TagB", 1)
    return [
        measure("whole way, batches of 1", lambda: _consume(messages, everything, 1)),
        measure("whole way, batches of 32", lambda: _consume(messages, everything, 32)),
        measure("whole way, batches of 1024", lambda: _consume(messages, everything, 1024)),
        measure("whole way, batches of 32, tag filter", lambda: _consume(messages, tag, 32)),
        measure("add and finish alone, 32 at a time", lambda: _add_and_finish(messages)),
        measure("finished one by one in random order", lambda: _finish_at_random(messages)),
        measure("flow control, one check", lambda: _flow(messages)),
        _assign_row("assign evenly, 256 queues, 16 members", assign_evenly),
        _assign_row("assign by hash, 256 queues, 16 members", assign_by_hash),
    ]


def _consume(messages: list[BenchMessage], subscription: Subscription, batch_max: int) -> int:
    buffer: QueueBuffer[BenchMessage] = QueueBuffer(SystemClock())
    for start in range(0, len(messages), HELD):
        for at in range(start, start + HELD, PULLED):
            buffer.add(wanted_messages(subscription, messages[at : at + PULLED]))
        while batch := buffer.take(batch_max):
            outcome = decide(batch, ConsumeStatus.SUCCESS)
            buffer.consumed(outcome.finished)
            buffer.commit_offset()
    assert buffer.commit_offset() == len(messages)
    return len(messages)


def _add_and_finish(messages: list[BenchMessage]) -> int:
    buffer: QueueBuffer[BenchMessage] = QueueBuffer(SystemClock())
    for at in range(0, len(messages), PULLED):
        buffer.add(messages[at : at + PULLED])
        buffer.finish(messages[at : at + PULLED])
    return len(messages)


def _finish_at_random(messages: list[BenchMessage]) -> int:
    buffer: QueueBuffer[BenchMessage] = QueueBuffer(SystemClock())
    rng = random.Random(1)
    for start in range(0, len(messages), HELD):
        held = messages[start : start + HELD]
        buffer.add(held)
        buffer.take(1024)
        rng.shuffle(held)
        for message in held:
            buffer.consumed((message,))
            buffer.commit_offset()
    assert buffer.commit_offset() == len(messages)
    return len(messages)


def _flow(messages: list[BenchMessage], checks: int = 20_000) -> int:
    buffer: QueueBuffer[BenchMessage] = QueueBuffer(SystemClock())
    buffer.add(messages[:HELD])
    control = FlowControl(FlowLimits())
    for _ in range(checks):
        control.check(buffer)
    return checks


def _assign_row(name: str, assign: Assign, rounds: int = 20) -> Row:
    queues = [QueueId("orders", f"broker-{number % 4}", number // 4) for number in range(256)]
    members = [f"10.0.0.{number}@{number}#123456" for number in range(16)]

    def run() -> int:
        for _ in range(rounds):
            assign(queues, members, members[7])
        return rounds

    return measure(name, run)


_fits: Callable[[BenchMessage], PulledMessage] = lambda message: message  # noqa: E731 - a check for mypy, never called
