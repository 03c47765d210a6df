"""Offsets in a store of the application: what it says, and what follows when it fails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pyromq.client.consumer.offsets.user_offsets import UserOffsets
from pyromq.client.consumer.rules.start_offset import Stored
from pyromq.model.queue import QueueId

QUEUE, OTHER = QueueId("orders", "broker-a", 0), QueueId("orders", "broker-a", 1)


class Store:
    """``answer`` is what ``load`` returns, or raises."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer
        self.saved: dict[QueueId, int] = {}
        self.is_down = False

    def load(self, queue: QueueId) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def save(self, offsets: Mapping[QueueId, int]) -> None:
        if self.is_down:
            raise OSError("the database is away")
        self.saved.update(offsets)


@pytest.mark.parametrize(
    ("answer", "stored"),
    [
        (7, 7),
        (0, 0),
        (None, Stored.NONE),
        (OSError("the database is away"), Stored.UNREADABLE),
        ("7", Stored.UNREADABLE),
        (True, Stored.UNREADABLE),
        (7.0, Stored.UNREADABLE),
    ],
)
async def test_what_cannot_be_loaded_is_not_taken_for_a_new_group(answer: object, stored: object) -> None:
    """A consumer would start at the beginning or at the end, and consume everything again or nothing."""
    assert await UserOffsets(Store(answer)).stored(QUEUE) == stored


async def test_coroutines_are_awaited() -> None:
    class Awaited(Store):
        async def load(self, queue: QueueId) -> int:  # type: ignore[override]
            return 9

        async def save(self, offsets: Mapping[QueueId, int]) -> None:  # type: ignore[override]
            self.saved.update(offsets)

    store = Awaited()
    keeper = UserOffsets(store)
    assert await keeper.stored(QUEUE) == 9
    keeper.table.update(QUEUE, 10)
    await keeper.persist([QUEUE])
    assert store.saved == {QUEUE: 10}


async def test_owned_queues_are_saved_and_others_are_left_alone() -> None:
    store = Store()
    keeper = UserOffsets(store)
    keeper.table.update(QUEUE, 10)
    keeper.table.update(OTHER, 20)
    await keeper.persist([QUEUE])
    assert store.saved == {QUEUE: 10}


async def test_the_last_offset_of_a_queue_that_was_given_up_is_saved_before_the_end() -> None:
    store = Store()
    keeper = UserOffsets(store)
    keeper.table.update(QUEUE, 10)
    keeper.give_up(QUEUE)
    await keeper.close()
    assert store.saved == {QUEUE: 10} and keeper.table.read(QUEUE) is None


async def test_what_could_not_be_saved_is_saved_later(caplog: pytest.LogCaptureFixture) -> None:
    store = Store()
    store.is_down = True
    keeper = UserOffsets(store)
    keeper.table.update(QUEUE, 10)
    keeper.give_up(QUEUE)
    await keeper.close()
    assert store.saved == {} and "offsets not saved, trying again later" in caplog.text
    store.is_down = False
    await keeper.persist([])
    assert store.saved == {QUEUE: 10}
    store.saved.clear()
    await keeper.persist([])
    assert store.saved == {}, "once is enough"


async def test_a_queue_that_comes_back_is_saved_with_its_new_offset() -> None:
    store = Store()
    store.is_down = True
    keeper = UserOffsets(store)
    keeper.table.update(QUEUE, 10)
    keeper.give_up(QUEUE)
    await keeper.close()
    store.is_down = False
    keeper.table.update(QUEUE, 12)
    await keeper.persist([QUEUE])
    assert store.saved == {QUEUE: 12}
    store.saved.clear()
    keeper.table.forget(QUEUE)
    await keeper.persist([])
    assert store.saved == {}, "the old offset must not come after the new one"
