"""Offsets that brokers keep: what is committed when, and what an answer that does not come means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pyromq.client.consumer.offsets.offset_keeper import BrokerOffsets
from pyromq.client.consumer.rules.start_offset import Stored
from pyromq.errors import RequestTimeoutError
from pyromq.model.queue import QueueId

QUEUE, OTHER = QueueId("orders", "broker-a", 0), QueueId("orders", "broker-a", 1)


class Calls:
    def __init__(self) -> None:
        self.committed: list[dict[QueueId, int]] = []
        self.is_silent = False

    def commit(self, offsets: Mapping[QueueId, int]) -> None:
        self.committed.append(dict(offsets))

    async def stored_offset(self, queue: QueueId) -> int:
        if self.is_silent:
            raise RequestTimeoutError("silent", timeout_ms=1)
        return 7


def keeper() -> tuple[BrokerOffsets, Calls]:
    calls = Calls()
    return BrokerOffsets(cast(Any, calls)), calls


async def test_a_queue_that_is_given_up_is_committed_a_last_time_and_forgotten() -> None:
    offsets, calls = keeper()
    offsets.table.update(QUEUE, 10)
    offsets.give_up(QUEUE)
    offsets.give_up(OTHER)  # nothing was consumed of it
    assert calls.committed == [{QUEUE: 10}] and offsets.table.read(QUEUE) is None


async def test_owned_queues_are_committed_changed_or_not() -> None:
    """Commits are one-way and may get lost."""
    offsets, calls = keeper()
    offsets.table.update(QUEUE, 10)
    offsets.table.update(OTHER, 20)
    await offsets.persist([QUEUE])
    await offsets.persist([QUEUE])
    assert calls.committed == [{QUEUE: 10}] * 2


async def test_an_offset_that_cannot_be_read_is_not_taken_for_none() -> None:
    """Else the queue would start at its end or its beginning, and messages be skipped or all come again."""
    offsets, calls = keeper()
    assert await offsets.stored(QUEUE) == 7
    calls.is_silent = True
    assert await offsets.stored(QUEUE) is Stored.UNREADABLE
