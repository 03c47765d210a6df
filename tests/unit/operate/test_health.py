"""What an examination makes of a broker's figures."""

from __future__ import annotations

import pytest

from pyromq.model.queue import QueueId
from pyromq.operate.health import ClusterSeverity, judge_broker, judge_lag, judge_members


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
        "1200 messages left with 3 members connected, the oldest for 3 min 20 s (orders, broker-a queue 2): "
    )
    assert finding.text.endswith("see pyromq group describe billing")
    assert judge_lag("billing", 3, 1_200, [(5_000, other)]) == judge_lag("billing", 3, 0, []) == []


def test_members_without_a_queue_are_told() -> None:
    (finding,) = judge_members("billing", 5, {"orders": 4, "refunds": 2})
    assert (finding.severity, finding.about) == ("warning", "group billing")
    assert "5 members share 4 queues of topic orders, so 1 member can get no messages" in finding.text
    assert "pyromq topic create orders --queues 5" in finding.text


@pytest.mark.parametrize(
    ("members", "queues"), [(4, {"orders": 4}), (9, {}), (9, {"unknown": 0}), (3, {"a": 1, "b": 3})]
)
def test_members_that_all_have_queues_are_no_finding(members: int, queues: dict[str, int]) -> None:
    assert judge_members("billing", members, queues) == []


def test_refusals_by_quotas_are_told() -> None:
    told = {"quotaRefusedSends": "12", "quotaRefusedPulls": "0", "quotaRefusedCreations": "1"}
    (finding,) = judge_broker("broker a", told)
    assert finding.severity is ClusterSeverity.WARNING and "12 sends, 1 creations" in finding.text
