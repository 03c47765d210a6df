"""How far a group is, and when that is written down."""

from __future__ import annotations

from pyromq.client.consumer.rules.offset_store import MemberOffsets
from pyromq.model.queue import QueueId

FIRST, SECOND, THIRD = (QueueId("orders", "broker-a", number) for number in range(3))


def test_consuming_moves_an_offset_forward_only() -> None:
    table = MemberOffsets()
    assert table.read(FIRST) is None
    for offset in (0, 5, 3):
        table.update(FIRST, offset)
    assert table.read(FIRST) == 5


def test_a_reset_may_go_back() -> None:
    table = MemberOffsets({FIRST: 5})
    table.reset(FIRST, 2)
    assert table.read(FIRST) == 2
    table.update(FIRST, 3)
    assert table.read(FIRST) == 3


def test_a_frozen_offset_ignores_late_listeners_until_the_queue_is_forgotten() -> None:
    table = MemberOffsets({FIRST: 900})
    table.freeze(FIRST, 10)
    table.update(FIRST, 901)
    assert table.read(FIRST) == 10
    assert table.forget(FIRST) == 10
    table.update(FIRST, 11)
    assert table.read(FIRST) == 11


def test_a_thawed_offset_moves_on_where_it_froze() -> None:
    table = MemberOffsets()
    table.freeze(FIRST, 10)
    table.thaw(FIRST)
    table.update(FIRST, 11)
    assert table.read(FIRST) == 11


def test_owned_queues_with_a_known_offset_are_persisted_changed_or_not() -> None:
    table = MemberOffsets({SECOND: 7, FIRST: 5})
    for _ in range(2):
        assert table.of([THIRD, SECOND, FIRST]) == {FIRST: 5, SECOND: 7}


def test_a_queue_that_is_given_up_is_persisted_once_and_forgotten() -> None:
    table = MemberOffsets({FIRST: 5})
    assert table.forget(FIRST) == 5
    assert table.forget(FIRST) is None
    assert table.read(FIRST) is None


def test_a_broker_is_told_the_offsets_of_the_topic_it_asked_for() -> None:
    other = QueueId("other", "broker-a", 0)
    assert MemberOffsets({FIRST: 5, other: 6}).of_topic("orders") == {FIRST: 5}


def test_the_revision_tells_whether_anything_changed() -> None:
    table = MemberOffsets({FIRST: 5})
    before = table.revision
    table.update(FIRST, 4)
    table.forget(SECOND)
    assert table.revision == before
    table.update(FIRST, 6)
    assert table.revision > before
