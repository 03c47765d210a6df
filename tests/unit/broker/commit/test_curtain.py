"""What consumers of a sync master see, and when they are told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from pyromq.broker.base.queue_key import QueueKey
from pyromq.broker.commit.curtain import Curtain
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
    def __init__(self) -> None:
        self.store = FakeStore(end_position=100)
        self.curtain = Curtain(cast(MessageStore, self.store))
        self.told: list[set[QueueKey]] = []
        self.curtain.on_visible = self.told.append

    def stored(self, end: int, queue: int, *, waits: bool = True) -> None:
        """As group commit does it: on disk, held, shown."""
        self.store.end_position = end
        if waits:
            self.curtain.close()
        self.curtain.add({("t", queue)})
        self.curtain.reveal(everything=not waits)


def test_what_waits_is_hidden_and_what_was_answered_is_told() -> None:
    rig = Rig()
    rig.stored(200, 1)
    rig.stored(300, 2)
    assert rig.store.visible_end == 100 and rig.told == []
    rig.curtain.safe(200)
    rig.curtain.reveal(everything=False)
    assert rig.store.visible_end == 200 and rig.told == [{("t", 1), ("t", 2)}]
    rig.curtain.reveal(everything=False)
    assert len(rig.told) == 1, "nothing new can be seen"
    rig.curtain.safe(300)
    rig.curtain.reveal(everything=True)
    assert rig.store.visible_end == 300 and rig.told[1:] == [{("t", 2)}]
    assert not rig.curtain.is_hiding


def test_what_was_visible_stays_visible() -> None:
    rig = Rig()
    rig.stored(200, 1, waits=False)
    assert rig.store.visible_end == 200 and rig.told == [{("t", 1)}]
    rig.stored(300, 1)
    assert rig.store.visible_end == 200, "it did not wait, and what comes behind it does not take it back"
    rig.curtain.safe(150)  # a replica that is far behind
    rig.curtain.reveal(everything=False)
    assert rig.store.visible_end == 200


def test_without_a_store_nothing_is_hidden() -> None:
    curtain, told = Curtain(None), list[set[QueueKey]]()
    curtain.on_visible = told.append
    curtain.close()
    curtain.add({("t", 1)})
    curtain.reveal(everything=True)
    assert told == [{("t", 1)}] and not curtain.is_hiding


def test_what_a_replica_lacks_that_may_become_master_stays_hidden_although_it_was_answered() -> None:
    rig, shown = Rig(), list[int]()
    required: list[int | None] = [100]
    rig.curtain.required, rig.curtain.on_shown = lambda: required[0], shown.append
    rig.stored(200, 1)
    rig.curtain.safe(200)  # answered: late, or alone
    rig.curtain.reveal(everything=True)
    assert rig.store.visible_end == 100 and rig.told == [] and rig.curtain.is_hiding
    required[0] = 150
    rig.curtain.reveal(everything=True)
    assert rig.store.visible_end == 150
    required[0] = 120  # another one is named
    rig.curtain.reveal(everything=True)
    assert rig.store.visible_end == 150, "what was shown stays shown"
    required[0] = None  # nobody is
    rig.curtain.reveal(everything=True)
    assert rig.store.visible_end == 200 and not rig.curtain.is_hiding
    assert rig.told[-1] == {("t", 1)} and shown[-1] == 200
    rig.stored(300, 2, waits=False)
    assert rig.store.visible_end == 300 and rig.told[-1] == {("t", 2)}


def test_a_log_that_was_opened_is_shown_when_those_have_it_who_may_take_over() -> None:
    rig, opened = Rig(), list[str]()
    required: list[int | None] = [90]
    rig.curtain.required, rig.curtain.on_open = lambda: required[0], lambda: opened.append("opened")
    rig.curtain.is_shut = True
    rig.curtain.open_if_ready()
    assert rig.curtain.is_shut and opened == []
    required[0] = 100
    rig.curtain.open_if_ready()
    rig.curtain.open_if_ready()
    assert not rig.curtain.is_shut and opened == ["opened"]


def test_what_readers_are_not_told_of_is_bounded() -> None:
    rig = Rig()
    for number in range(1_000):
        rig.stored(200 + number, number)
    assert len(rig.curtain._untold) <= 256 and rig.told == []
    rig.curtain.safe(2_000)
    rig.curtain.reveal(everything=True)
    assert rig.told == [{("t", number) for number in range(1_000)}]
