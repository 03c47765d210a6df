"""Tables saved in steps: used at once, durable at the end, taken back when the disk refuses or the caller gives up."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pyromq.errors import StoreReadOnlyError
from pyromq.model.topic import GroupConfig, TopicConfig
from pyromq.store.tables.groups import GroupTable
from pyromq.store.tables.steps import InSteps, Work, all_steps, step
from pyromq.store.tables.topics import TopicTable
from pyromq.testing import FaultyDisk

ROOT = Path("/store")
ORDERS = TopicConfig(topic_name="orders", read_queue_nums=8)


def many(count: int) -> dict[str, TopicConfig]:
    return {f"topic-{number}": TopicConfig(topic_name=f"topic-{number}") for number in range(count)}


def table(disk: FaultyDisk, count: int = 3_000) -> TopicTable:
    topics = TopicTable.load(disk, ROOT)
    all_steps(topics.put_all(many(count), 1))
    return topics


def pieces_before_work(steps: InSteps[None]) -> tuple[int, Work]:
    pieces = 0
    while (work := next(steps)) is None:
        pieces += 1
    return pieces, work


def test_a_change_is_used_at_once_and_durable_at_the_end() -> None:
    disk = FaultyDisk()
    topics = table(disk)
    steps = topics.put_all({"orders": ORDERS}, 2)
    pieces, work = pieces_before_work(steps)
    assert pieces == 4 and topics.get("orders") is ORDERS and not topics.is_durable
    assert TopicTable.load(disk, ROOT).get("orders") is None
    with pytest.raises(StopIteration):
        step(steps, work)
    assert topics.is_durable and not topics.unsaved
    assert TopicTable.load(disk, ROOT).get("orders") == ORDERS


def test_the_text_of_groups_in_steps_is_that_of_a_save() -> None:
    texts = []
    for in_steps in (True, False):
        disk = FaultyDisk()
        groups = GroupTable.load(disk, ROOT)
        for number in range(600):
            groups.put(GroupConfig(group_name=f"group-{number}"), 1)
        groups.forbid("group-7", "orders", 4, 1)
        if in_steps:
            all_steps(groups.save_in_steps())
        else:
            groups.save()
        texts.append(disk.read(ROOT / "config" / "subscriptionGroup.json"))
    assert texts[0] == texts[1]


def test_a_disk_that_refuses_gets_everything_back_as_it_was() -> None:
    topics = table(FaultyDisk(), 2)
    before = topics.get("topic-1")
    changed = TopicConfig(topic_name="topic-1", read_queue_nums=9)
    steps = topics.put_all({"orders": ORDERS, "topic-1": changed}, 2)
    _, _ = pieces_before_work(steps)
    with pytest.raises(StoreReadOnlyError, match=r"topics.json could not be saved: .*read-only"):
        steps.throw(OSError(errno.EROFS, "read-only"))
    assert topics.get("orders") is None and topics.get("topic-1") is before and topics.unsaved


def test_what_was_changed_again_meanwhile_is_not_taken_back() -> None:
    topics = table(FaultyDisk(), 2)
    steps = topics.put_all({"orders": ORDERS}, 2)
    next(steps)
    newer = TopicConfig(topic_name="orders", read_queue_nums=2)
    topics.put(newer, 3)
    with pytest.raises(StoreReadOnlyError):
        steps.throw(OSError(errno.EIO, "broken"))
    assert topics.get("orders") is newer


def test_a_caller_that_gives_up_leaves_nothing_behind() -> None:
    disk = FaultyDisk()
    topics = table(disk)
    steps = topics.put_all({"orders": ORDERS}, 2)
    _, work = pieces_before_work(steps)
    work()  # the file has it, but no caller waits for it any more
    steps.close()
    assert topics.get("orders") is None and topics.unsaved, "the next save takes it out again"
    topics.save()
    assert TopicTable.load(disk, ROOT).get("orders") is None


def test_a_save_that_was_overtaken_does_not_bring_back_the_old_table() -> None:
    disk = FaultyDisk()
    topics = table(disk)
    steps = topics.put_all({"orders": ORDERS}, 2)
    _, work = pieces_before_work(steps)
    topics.put(TopicConfig(topic_name="newer"), 3)
    topics.save()
    with pytest.raises(StopIteration):
        step(steps, work)
    again = TopicTable.load(disk, ROOT)
    assert again.get("orders") == ORDERS and again.get("newer") is not None and topics.is_durable


def test_only_what_differs_is_missing() -> None:
    topics = table(FaultyDisk(), 3)
    changed = TopicConfig(topic_name="topic-1", read_queue_nums=9)
    wanted = [*many(2).values(), changed, ORDERS]
    assert topics.missing(wanted) == {"topic-1": changed, "orders": ORDERS}
