"""What an examination makes of a broker's figures."""

from __future__ import annotations

from typing import Any

import click
import msgspec
import pytest

from pyromq.cli.main import app
from pyromq.metrics.health import BROKER
from pyromq.model.failure import Failure, FailureStory
from pyromq.model.queue import QueueId
from pyromq.model.topic import GroupConfig
from pyromq.operate.consumers.blocked_queues import BlockedQueue
from pyromq.operate.consumers.group_state import GroupMember, GroupState
from pyromq.operate.health import (
    ClusterFinding,
    ClusterSeverity,
    about_broker,
    judge_broker,
    judge_flow,
    judge_heads,
    judge_lag,
    judge_members,
    judge_paused,
    judge_popped,
    judge_subscriptions,
)
from pyromq.operate.replication import BrokerCopy, judge_copies
from pyromq.operate.subjects import Subject, SubjectKind

GROUP = SubjectKind.GROUP


@pytest.mark.parametrize(("ratio", "severity"), [("0.10", "ok"), ("0.80", "warning"), ("0.9", "bad"), ("", "ok")])
def test_a_broker_is_judged_by_its_disk(ratio: str, severity: str) -> None:
    (finding,) = judge_broker("broker a", {"commitLogDiskRatio": ratio})
    assert finding.severity == severity


def test_a_broker_whose_queues_lag_behind_its_log_is_worth_a_word() -> None:
    (finding,) = judge_broker("broker a", {"commitLogDiskRatio": "0.1", "dispatchBehindBytes": str(128 << 20)})
    assert finding.severity == "warning" and "128 MiB" in finding.text


def test_a_broker_whose_name_was_taken_is_bad_and_one_that_stalled_is_worth_a_look() -> None:
    told = {"commitLogDiskRatio": "0.1", "nameTaken": "2", "nameTakenBy": "10.6.6.6:10911", "loopStalls": "0"}
    (finding,) = judge_broker("broker a", told)
    assert finding.severity is ClusterSeverity.BAD and "10.6.6.6:10911" in finding.text
    told = {"commitLogDiskRatio": "0.1", "loopStalls": "3", "loopStallWorstMs": "250", "loopStallCode": "34"}
    (finding,) = judge_broker("broker a", told)
    assert finding.severity is ClusterSeverity.WARNING and "250 ms by 34" in finding.text


def test_members_with_an_old_message_before_them_are_stuck_or_too_slow() -> None:
    queue, other = QueueId("orders", "broker-a", 2), QueueId("orders", "broker-a", 3)
    (finding,) = judge_lag("billing", 3, 1_200, [(5_000, other), (200_000, queue)])
    assert (finding.severity, finding.about) == ("warning", "group billing")
    assert finding.text.startswith(
        "1,200 messages left with 3 members connected, the oldest for 3 min 20 s (orders, broker-a queue 2): "
    )
    assert (finding.command, finding.page) == ("pyromq group describe billing", Subject(kind=GROUP, name="billing"))
    assert judge_lag("billing", 3, 1_200, [(5_000, other)]) == judge_lag("billing", 3, 0, []) == []


def test_members_without_a_queue_are_told() -> None:
    (finding,) = judge_members("billing", 5, {"orders": 4, "refunds": 2})
    assert (finding.severity, finding.about) == ("warning", "group billing")
    assert "5 members share 4 queues of topic orders, so 1 member can get no messages" in finding.text
    assert finding.command == "pyromq topic create orders --queues 5"
    assert finding.page == Subject(kind=SubjectKind.TOPIC, name="orders", within="configuration")


@pytest.mark.parametrize(
    ("members", "queues"), [(4, {"orders": 4}), (9, {}), (9, {"unknown": 0}), (3, {"a": 1, "b": 3})]
)
def test_members_that_all_have_queues_are_no_finding(members: int, queues: dict[str, int]) -> None:
    assert judge_members("billing", members, queues) == []


def test_refusals_by_quotas_are_told() -> None:
    told = {"quotaRefusedSends": "12", "quotaRefusedPulls": "0", "quotaRefusedCreations": "1"}
    (finding,) = judge_broker("broker a", told)
    assert finding.severity is ClusterSeverity.WARNING and "12 sends, 1 creations" in finding.text


# --- what members say ---


def _state(**fields: Any) -> GroupState:
    given = {
        "group": "billing",
        "config": GroupConfig(group_name="billing"),
        "is_online": True,
        "is_broadcasting": False,
        "lag": 7,
        "lag_ms": 10,
        "subscriptions": {},
        "members": (),
        "queues": (),
    }
    return GroupState(**{**given, **fields})


def _member(client_id: str, **fields: Any) -> GroupMember:
    return GroupMember(client_id=client_id, address="a:1", language="PYTHON", version=1, version_text="1", **fields)


def test_a_paused_group_with_members_is_a_finding_and_one_that_runs_is_none() -> None:
    paused = _state(config=GroupConfig(group_name="billing", consume_enable=False), members=(_member("c1"),))
    [found] = judge_paused(paused)
    assert found.text == "paused, with 1 member connected and 7 messages left"
    assert found.words == ["group", "create", "billing", "--enabled"]
    assert not judge_paused(_state(members=(_member("c1"),)))


def test_members_that_disagree_are_named_with_what_they_subscribe_to() -> None:
    odd = _member("c2", agrees=False, subscriptions={"orders": "paid"})
    usual = _member("c1", agrees=True, subscriptions={"orders": "new"})
    [found] = judge_subscriptions(_state(members=(usual, odd)))
    assert found.severity == "bad"
    assert found.text.startswith("c2 subscribes to orders (paid), the others to orders (new): messages get lost")
    assert not judge_subscriptions(_state(members=(usual,)))


def test_a_held_up_queue_is_a_finding_at_once_and_a_slow_one_is_not() -> None:
    story = FailureStory.begun_by(Failure(error_class="ValueError", text="no such customer", attempt=3))
    queue = QueueId("orders", "broker-a", 0)
    head = BlockedQueue(queue=queue, committed=0, end=7, offset=0, attempt=3, stage="waiting", story=story, age_ms=5)
    [found] = judge_heads(_state(queues=(head,)))
    assert (found.severity, "failed 3 times" in found.text) == ("bad", True)
    assert "ValueError: no such customer; 7 messages left in it" in found.text
    assert not judge_heads(_state(queues=(msgspec.structs.replace(head, attempt=0, story=None),)))


def test_flow_control_is_a_finding_where_a_buffer_is_full_and_messages_wait() -> None:
    held, paused = _member("c1", held_pulls={"MESSAGES": 4, "SPAN": 0}), _member("c2", held_pulls={"PAUSED": 9})
    [found] = judge_flow(_state(members=(held, paused)))
    assert found.text.startswith("flow control holds back pulls of 1 member (c1: messages 4)")
    assert not judge_flow(_state(members=(held,), lag=0)), "it was so once, and has caught up"
    assert not judge_flow(_state(members=(paused,)))


# --- what settles a finding ---

_SICK = {
    "storeTrouble": "the disk failed a flush",
    "storeDamage": "a segment is damaged",
    "commitLogDiskRatio": "0.9",
    "unreadMessagesDeleted": "3",
    "quotaRefusedSends": "2",
    "dispatchBehindBytes": str(1 << 30),
    "nameTaken": "1",
    "nameTakenBy": "10.0.0.9:10911",
    "failoverAway": "10.0.0.2:10911=1000",
    "failoverLease": "3",
    "failoverGrantedMs": "0",
    "failoverCutMessages": "4",
    "loopStalls": "2",
}


def _sick_copy() -> BrokerCopy:
    return BrokerCopy(cluster="c", broker="a", number=1, address="h:1", role="replica", state="REFUSED", reason="?")


def _troubles() -> list[ClusterFinding]:
    queue = QueueId("orders", "broker-a", 2)
    story = FailureStory.begun_by(Failure(error_class="ValueError", text="no", attempt=3))
    head = BlockedQueue(queue=queue, committed=0, end=7, offset=0, attempt=3, stage="waiting", story=story, age_ms=5)
    popped = BlockedQueue(queue=queue, committed=0, end=7, offset=0, attempt=9, in_flight=1, message_id="AB12")
    paused = _state(config=GroupConfig(group_name="billing", consume_enable=False), members=(_member("c1"),))
    odd = (_member("c1", agrees=True, subscriptions={"o": "a"}), _member("c2", agrees=False, subscriptions={"o": "b"}))
    return [
        *judge_broker("broker a", _SICK, "broker-a"),
        *[about_broker(about, "", each) for about, each in judge_copies([_sick_copy()])],
        *judge_lag("billing", 3, 1_200, [(200_000, queue)]),
        *judge_members("billing", 5, {"orders": 4}),
        *judge_paused(paused),
        *judge_subscriptions(_state(members=odd)),
        *judge_heads(_state(queues=(head,))),
        *judge_popped(_state(queues=(popped,))),
        *judge_flow(_state(members=(_member("c1", held_pulls={"MESSAGES": 4}),))),
    ]


def test_every_trouble_names_a_page_an_action_and_a_command_that_exists() -> None:
    found = _troubles()
    assert len(found) == 19, [each.text for each in found]
    for finding in found:
        assert finding.page is not None and finding.action, finding
        assert BROKER not in finding.words, finding
        command: click.Command = app
        context = click.Context(app)
        words = iter(finding.words)
        while isinstance(command, click.Group):
            word = next(words)
            inner = command.get_command(context, word)
            assert inner is not None, f"{finding.command}: there is no {word}"
            command = inner
        known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
        assert {word for word in words if word.startswith("-")} <= known, finding.command
