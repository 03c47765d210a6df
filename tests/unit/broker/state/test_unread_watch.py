from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from pyromq.broker.base.stats import Counters
from pyromq.broker.state.unread_watch import UnreadWatch
from pyromq.operate.health import ClusterSeverity, judge_broker
from pyromq.store.unread import Unread
from pyromq.wire.json.heartbeat import MessageModel


def watch(offsets: dict[tuple[str, str], dict[int, int]], *live: Any) -> tuple[UnreadWatch, Counters]:
    tables: Any = SimpleNamespace(
        progress=SimpleNamespace(items=offsets.items),
        members=SimpleNamespace(consumer_groups=lambda: live),
        topics=SimpleNamespace(is_system=lambda topic: topic.startswith("rmq_sys_")),
    )
    counters = Counters()
    return UnreadWatch(tables, counters), counters


def group(name: str, topic: str, model: MessageModel = MessageModel.CLUSTERING) -> Any:
    return SimpleNamespace(name=name, model=model, subscriptions={topic: None})


def test_groups_read_a_topic_by_their_commits_or_their_subscriptions() -> None:
    told, _ = watch(
        {("orders", "shop"): {0: 7}, ("other", "x"): {0: 1}},
        group("new", "orders"),
        group("everyone", "orders", MessageModel.BROADCASTING),
    )
    readers = told.readers()
    assert readers("orders", 0) == {"shop": 7, "new": 0}
    assert readers("orders", 1) == {"shop": 0, "new": 0}
    assert readers("unread", 0) == {} and readers("rmq_sys_x", 0) is None


def test_deletions_are_named_at_error_the_first_of_them_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    told, counters = watch({})
    unread = [Unread(f"topic-{number}", "shop", 2) for number in range(25)]
    with caplog.at_level(logging.ERROR):
        told.deleted(unread, forced=True)
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0] == "unread messages deleted: topic=topic-0 group=shop messages=2 reason=the disk is too full"
    assert len(lines) == 21 and lines[-1].endswith("topics_of_groups=5 messages=10")
    assert counters.unread_deleted == 50


def test_what_no_group_reads_is_named_only_when_it_went_by_force(caplog: pytest.LogCaptureFixture) -> None:
    told, counters = watch({})
    with caplog.at_level(logging.ERROR):
        told.deleted([Unread("audit", "", 3)], forced=False)
        assert (caplog.records, counters.unread_deleted) == ([], 0)
        told.deleted([Unread("audit", "", 3)], forced=True)
    assert "topic=audit" in caplog.text and counters.unread_deleted == 3


def test_doctor_tells_what_was_deleted_unread() -> None:
    (finding,) = judge_broker("broker a", {"commitLogDiskRatio": "0.2", "unreadMessagesDeleted": "32"})
    assert finding.severity is ClusterSeverity.BAD and "32 messages that groups had not read" in finding.text
    (fine,) = judge_broker("broker a", {"commitLogDiskRatio": "0.2", "unreadMessagesDeleted": "0"})
    assert fine.severity is ClusterSeverity.OK
