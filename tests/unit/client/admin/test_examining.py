"""What an examination makes of a broker's figures."""

from __future__ import annotations

import pytest

from pyromq.client.admin.examining import judge_broker


@pytest.mark.parametrize(("ratio", "severity"), [("0.10", "ok"), ("0.80", "warning"), ("0.9", "bad"), ("", "ok")])
def test_a_broker_is_judged_by_its_disk(ratio: str, severity: str) -> None:
    (finding,) = judge_broker("broker a", {"commitLogDiskRatio": ratio})
    assert finding.severity == severity


def test_a_broker_whose_queues_lag_behind_its_log_is_worth_a_word() -> None:
    (finding,) = judge_broker("broker a", {"commitLogDiskRatio": "0.1", "dispatchBehindBytes": str(128 << 20)})
    assert finding.severity == "warning" and "128 MiB" in finding.text
