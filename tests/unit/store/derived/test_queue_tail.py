"""Tails of queues and their line, in Python and in the compiled core: the same calls bring about the same."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from pyromq.compiled_core import DESCRIPTION, core
from pyromq.store.derived.queue_entry import ENTRY, ENTRY_BYTES
from pyromq.store.derived.queue_tail import PureLine, PureTail

PURE = (PureTail, PureLine)
KINDS: list[Any] = [pytest.param(PURE, id="python")]
if core is not None:
    KINDS.append(pytest.param((core.QueueTail, core.QueueLine), id="core"))


def entry(position: int, size: int = 100, tag_hash: int = 0) -> bytes:
    return ENTRY.pack(position, size, tag_hash)


def facts(tail: Any) -> tuple[Any, ...]:
    return tail.next_offset, tail.owed_bytes, tail.owed_entries, tail.owed(1 << 30)


@pytest.mark.parametrize("kinds", KINDS)
def test_entries_are_staged_then_owed_then_gone(kinds: Any) -> None:
    tail = kinds[0]("orders", 3)
    assert (tail.topic, tail.queue_id, facts(tail)) == ("orders", 3, (0, 0, 0, b""))
    tail.stage(7, 100, -5)
    tail.stage_encoded(entry(107) + entry(207))
    assert facts(tail) == (3, 0, 0, b"")
    assert tail.commit_staged() == 3 and tail.commit_staged() == 0
    tail.stage(1 << 40, 0x7FFFFFFF, -(1 << 63))
    assert facts(tail) == (4, 60, 3, entry(7, 100, -5) + entry(107) + entry(207))
    assert tail.owed(2 * ENTRY_BYTES) == entry(7, 100, -5) + entry(107) and tail.owed(0) == b""
    tail.settle(ENTRY_BYTES)
    assert facts(tail) == (4, 40, 2, entry(107) + entry(207)), "offsets stay"
    tail.drop_staged()
    assert facts(tail) == (3, 40, 2, entry(107) + entry(207)), "what is owed stays"
    tail.restart_tail(1 << 40)
    assert facts(tail) == (1 << 40, 0, 0, b"")


@pytest.mark.parametrize("kinds", KINDS)
def test_what_cannot_be_is_refused_and_changes_nothing(kinds: Any) -> None:
    tail, line = kinds[0]("orders", 0), kinds[1]()
    tail.stage(1, 2, 3)
    for broken in (b"short", entry(1)[1:], entry(1) + b"x"):
        with pytest.raises(ValueError, match="20 bytes each"):
            tail.stage_encoded(broken)
    for size in (ENTRY_BYTES, 1):
        with pytest.raises(ValueError, match="than is owed"):
            tail.settle(size)
    with pytest.raises(IndexError, match="no queue is in line"):
        line.first()
    line.leave()
    line.drop_staged()
    assert (len(line), line.commit(), line.count_owed(), list(line.take_news())) == (0, 0, 0, [])
    assert facts(tail) == (1, 0, 0, b"")


@pytest.mark.parametrize("kinds", KINDS)
def test_queues_stand_in_line_once_and_in_the_order_in_which_they_began_to_wait(kinds: Any) -> None:
    line, (one, two, three) = kinds[1](), (kinds[0](topic, 0) for topic in ("a", "b", "a"))
    for queue in (two, one, two):
        queue.stage(1, 1, 1)
        line.add(queue)
    assert line.has_staged and line.commit() == 3 and not line.has_staged
    assert sorted(set(line.take_news())) == ["a", "b"] and list(line.take_news()) == []
    for queue in (three, two):
        queue.stage(1, 1, 1)
        line.add(queue)
    assert line.commit() == 2 and (len(line), line.count_owed()) == (3, 5)
    assert set(line.take_news()) == {"a", "b"}
    for queue in (two, one, three):
        assert line.first() is queue
        line.leave()
    assert len(line) == 0
    one.stage(1, 1, 1)
    line.add(one)
    line.drop_staged()
    assert not line.has_staged and one.next_offset == 1 and list(line.take_news()) == []
    line.commit()
    assert len(line) == 0, "what was dropped does not wait"


class Twins:
    """Queues and a line of one kind; they do what they are told."""

    def __init__(self, kinds: Any) -> None:
        self.queues = [kinds[0](f"topic-{number % 3}", number) for number in range(5)]
        self.line = kinds[1]()

    def act(self, action: int, number: int, value: int) -> Any:
        queue = self.queues[number]
        match action:
            case 0 | 1 | 2:
                queue.stage(value, value % 1_000, -value)
                return self.line.add(queue)
            case 3:
                queue.stage_encoded(entry(value) * (value % 4))
                return self.line.add(queue)
            case 4 | 5:
                return self.line.commit()
            case 6:
                return self.line.drop_staged()
            case 7 if len(self.line):
                first = self.line.first()
                first.settle(first.owed_bytes)  # as its writer does
                return self.line.leave()
            case 8:
                return queue.settle(len(queue.owed(value % 3 * ENTRY_BYTES)))  # a reader writes what it is owed
            case 9:
                return queue.restart_tail(value % 100) if not value % 5 else sorted(set(self.line.take_news()))
        return None

    def facts(self) -> Any:
        first = self.queues.index(self.line.first()) if len(self.line) else None
        known = len(self.line), self.line.count_owed(), self.line.has_staged, first
        return known, [facts(queue) for queue in self.queues]


@pytest.mark.skipif(core is None, reason=f"nothing to compare: {DESCRIPTION}")
@pytest.mark.parametrize("seed", range(20))
def test_both_do_the_same(seed: int) -> None:
    assert core is not None
    rng, ours, theirs = Random(seed), Twins(PURE), Twins((core.QueueTail, core.QueueLine))
    for _ in range(400):
        step = rng.randrange(10), rng.randrange(5), rng.randrange(1 << 40)
        done = [twins.act(*step) for twins in (ours, theirs)]
        if step[0] not in (0, 1, 2, 3):  # ``add`` returns what it likes
            assert done[0] == done[1], step
        assert ours.facts() == theirs.facts(), step


@pytest.mark.skipif(core is None, reason=f"there is no core: {DESCRIPTION}")
def test_the_core_refuses_wrong_types() -> None:
    assert core is not None
    line = core.QueueLine()
    for wrong in (PureTail("orders", 0), None, "orders"):
        with pytest.raises(TypeError):
            line.add(wrong)
    for arguments in ((), ("orders",), (7, 0)):
        with pytest.raises((TypeError, OverflowError)):
            core.QueueTail(*arguments)
    with pytest.raises((TypeError, OverflowError)):
        core.QueueTail("orders", 0).stage(1 << 63, 0, 0)
    with pytest.raises(AttributeError):
        core.QueueTail("orders", 0).next_offset = 7
