"""What an examination makes of a broker's figures."""

from __future__ import annotations

import pytest

from pyromq.client.admin.examining import ClusterSeverity, judge_broker


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
