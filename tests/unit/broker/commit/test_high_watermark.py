"""What consumers of a sync master see, and when they are told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from pyromq.broker.base.queue_key import QueueKey
from pyromq.broker.commit.high_watermark import HighWatermark
from pyromq.store.message_store import EVERYTHING, MessageStore


class FakeStore(SimpleNamespace):
    """On its disk is everything that it has."""

    end_position = 0
    visible_max = EVERYTHING

    @property
    def readable_end(self) -> int:
        return int(self.end_position)

    @property
    def visible_end(self) -> int:
        return min(self.end_position, self.visible_max)


class Rig:
    def __init__(self, *, is_shut: bool = False) -> None:
        self.store = FakeStore(end_position=100)
        self.watermark = HighWatermark(cast(MessageStore, self.store), is_shut=is_shut)
        self.told: list[set[QueueKey]] = []
        self.required: int | None = None  # how far the replicas are that a lease names

    def stored(self, end: int, queue: int, *, waits: bool = True) -> None:
        """As group commit does it: on disk, held, shown."""
        self.store.end_position = end
        if waits:
            self.watermark.hide_new()
        self.watermark.add({("t", queue): None})
        self.advance(everything=not waits)

    def advance(self, *, everything: bool) -> None:
        if queues := self.watermark.advance(self.required, everything=everything):
            self.told.append(set(queues))


def test_what_waits_is_hidden_and_what_was_answered_is_told() -> None:
    rig = Rig()
    rig.stored(200, 1)
    rig.stored(300, 2)
    assert rig.store.visible_end == 100 and rig.told == []
    rig.watermark.confirm(200)
    rig.advance(everything=False)
    assert rig.store.visible_end == 200 and rig.told == [{("t", 1), ("t", 2)}]
    rig.advance(everything=False)
    assert len(rig.told) == 1, "nothing new can be seen"
    rig.watermark.confirm(300)
    rig.advance(everything=True)
    assert rig.store.visible_end == 300 and rig.told[1:] == [{("t", 2)}]
    assert not rig.watermark.is_hiding


def test_what_was_visible_stays_visible() -> None:
    rig = Rig()
    rig.stored(200, 1, waits=False)
    assert rig.store.visible_end == 200 and rig.told == [{("t", 1)}]
    rig.stored(300, 1)
    assert rig.store.visible_end == 200, "it did not wait, and what comes behind it does not take it back"
    rig.watermark.confirm(150)  # a replica that is far behind
    rig.advance(everything=False)
    assert rig.store.visible_end == 200


def test_what_a_replica_lacks_that_may_become_master_stays_hidden_although_it_was_answered() -> None:
    rig = Rig()
    rig.required = 100
    rig.stored(200, 1)
    rig.watermark.confirm(200)  # answered: late, or alone
    rig.advance(everything=True)
    assert rig.store.visible_end == 100 and rig.told == [] and rig.watermark.is_hiding
    rig.required = 150
    rig.advance(everything=True)
    assert rig.store.visible_end == 150
    rig.required = 120  # another one is named
    rig.advance(everything=True)
    assert rig.store.visible_end == 150, "what was shown stays shown"
    rig.required = None  # nobody is
    rig.advance(everything=True)
    assert rig.store.visible_end == 200 and not rig.watermark.is_hiding
    assert rig.told[-1] == {("t", 1)} and rig.watermark.end == 200
    rig.stored(300, 2, waits=False)
    assert rig.store.visible_end == 300 and rig.told[-1] == {("t", 2)}


def test_a_log_that_was_opened_is_shown_when_those_have_it_who_may_take_over() -> None:
    watermark = Rig(is_shut=True).watermark
    assert not watermark.open_if_ready(90) and watermark.is_shut
    assert watermark.open_if_ready(100) and not watermark.is_shut
    assert not watermark.open_if_ready(100), "it says so once"
    assert Rig(is_shut=True).watermark.open_if_ready(None), "the lease names nobody"


def test_what_readers_are_not_told_of_is_bounded() -> None:
    rig = Rig()
    for number in range(1_000):
        rig.stored(200 + number, number)
    assert len(rig.watermark._unreported) <= 256 and rig.told == []
    rig.watermark.confirm(2_000)
    rig.advance(everything=True)
    assert rig.told == [{("t", number) for number in range(1_000)}]
