from __future__ import annotations

import errno
import logging

import pytest

from pyromq.broker.state.progress import BACKWARD_LINES_MAX
from pyromq.testing import FaultyDisk
from tests.unit.broker.builders import progress

READERS = ("readers", "orders", 0)  # group, topic, queue


def test_a_group_that_never_committed_has_no_offset() -> None:
    found = progress()
    assert found.committed(*READERS) is None
    found.commit(*READERS, -1)
    assert found.committed(*READERS) is None, "old clients commit -1 for nothing"
    found.commit(*READERS, 0)
    assert found.committed(*READERS) == 0


def test_a_commit_may_go_back() -> None:
    found = progress()
    found.commit(*READERS, 10)
    found.commit(*READERS, 4)
    assert found.committed(*READERS) == 4


class _Client:
    remote_text = "10.0.0.9:51000"


def test_a_commit_of_a_client_that_goes_back_is_logged_with_the_client(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pyromq")
    found = progress()
    found.commit(*READERS, 10, _Client())
    found.commit(*READERS, 12, _Client())
    found.commit(*READERS, 3)
    assert not caplog.messages, "forwards, or by the broker itself"
    found.commit(*READERS, 2, _Client())
    assert caplog.messages == [
        "commit goes back, messages come again: group=readers topic=orders queue=0 from=3 to=2 client=10.0.0.9:51000"
    ]
    for offset in range(4 * BACKWARD_LINES_MAX, 0, -1):
        found.commit(*READERS, offset, _Client())
    assert len(caplog.messages) == BACKWARD_LINES_MAX, "a client cannot fill the disk with them"


def test_a_pending_reset_wins_over_what_clients_still_commit() -> None:
    found = progress()
    found.commit(*READERS, 10)
    found.reset(*READERS, 3)
    found.commit(*READERS, 12)
    found.commit("readers", "orders", 1, 12)
    assert found.committed(*READERS) == 3
    assert found.committed("readers", "orders", 1) == 12, "other queues are not concerned"
    assert found.take_reset(*READERS) == 3
    assert found.take_reset(*READERS) is None, "it is told once"
    found.commit(*READERS, 4)
    assert found.committed(*READERS) == 4


def test_a_clone_stands_where_the_other_group_stands() -> None:
    found = progress()
    found.commit("a", "orders", 0, 5)
    found.commit("a", "orders", 1, 6)
    found.commit("a", "payments", 0, 7)
    found.commit("b", "orders", 0, 1)
    found.clone("a", "b", "orders")
    assert [found.committed("b", "orders", n) for n in (0, 1)] == [5, 6]
    assert found.committed("b", "payments", 0) is None
    found.clone("a", "c", None)
    assert found.topics_of("c") == ["orders", "payments"]
    found.commit("c", "orders", 0, 9)
    assert found.committed("a", "orders", 0) == 5, "and goes its own way from there"


def test_the_version_moves_every_500_commits() -> None:
    found = progress()
    for n in range(1_499):
        found.commit(*READERS, n)
    assert found.table.version.counter == 2
    found.commit(*READERS, 1_499)
    assert found.table.version.counter == 3


def test_a_forgotten_topic_takes_pending_resets_along() -> None:
    found = progress()
    found.reset(*READERS, 100)
    found.note_pull(*READERS, 50)
    found.commit("readers", "payments", 0, 1)
    found.forget_topic("orders")
    assert found.committed(*READERS) is None
    assert found.take_reset(*READERS) is None, "a new topic of that name starts at 0"
    assert found.pulled(*READERS) == 0
    assert found.groups_of("payments") == ["readers"]
    found.forget_group("readers")
    assert found.topics_of("readers") == []


def test_who_reads_a_topic_that_is_deleted_begins_anew_when_it_comes_back() -> None:
    found = progress()
    for group in ("readers", "gone"):
        found.commit(group, "orders", 0, 57)
        found.note_pull(group, "orders", 0, 57)
    found.begin_anew("orders", {"readers"})
    found.commit(*READERS, 57)  # it has not noticed yet
    assert found.committed(*READERS) is None
    assert found.take_reset(*READERS) == 0
    assert found.take_reset("gone", "orders", 0) is None and found.committed("gone", "orders", 0) is None


def test_progress_is_to_be_saved_when_it_changed_and_again_when_the_disk_refused() -> None:
    disk = FaultyDisk()
    found = progress(disk=disk)
    assert not found.table.unsaved
    found.commit(*READERS, 10)
    disk.fail_at(disk.operations + 1, errno.ENOSPC)
    with pytest.raises(OSError, match="simulated"):
        found.table.save()
    assert found.table.unsaved
    found.table.save()
    assert not found.table.unsaved
    assert progress(disk=disk.after_crash()).committed(*READERS) == 10


def test_a_group_has_pulled_at_least_what_it_committed() -> None:
    found = progress()
    assert found.pulled(*READERS) == 0
    found.note_pull(*READERS, 5)
    assert found.pulled(*READERS) == 5
    found.commit(*READERS, 9)
    assert found.pulled(*READERS) == 9


def test_everything_is_told_with_the_topics_of_groups_and_what_they_pulled() -> None:
    found = progress()
    found.commit(*READERS, 3)
    found.commit("readers", "payments", 1, 4)
    found.note_pull(*READERS, 7)
    found.note_pull("new", "orders", 2, 0)
    told = found.everything()
    assert told.data_version == found.table.version
    assert told.offset_table == {"orders@readers": {0: 3}, "payments@readers": {1: 4}}
    assert told.group_topic_map == {"readers": ["orders", "payments"]}
    assert told.pull_offset_table == {"orders@readers": {0: 7}, "orders@new": {2: 0}}


def test_new_offsets_have_a_bound_and_those_that_are_there_may_move(caplog: pytest.LogCaptureFixture) -> None:
    found = progress()
    found.offsets_max = 2
    for queue in (0, 1):
        assert found.has_room("readers", "orders", queue)
        found.commit("readers", "orders", queue, 1)
    assert not found.has_room("readers", "orders", 2)
    assert not found.has_room("readers", "orders", 3)
    assert caplog.text.count("offset not committed") == 1, "once, not for every pull"
    assert found.has_room("readers", "orders", 1)
    found.forget_group("readers")
    assert found.has_room("others", "orders", 2), "groups that are deleted make room"
