"""Seconds of the long run: three members, every kind of client, one planned change; ``make soak`` runs hours."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.agents import Pace
from tests.faults.cluster import REPLICATION
from tests.faults.lease_servers import is_installed
from tests.soak import run as soak_run
from tests.soak.faults import FAULTS
from tests.soak.load import QUICK
from tests.soak.report import reports_in
from tests.soak.run import SoakPlan, SoakRun
from tests.soak.samples import RunFolder

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]

NAME = "20261117-000000"


async def test_a_short_run_loses_nothing_and_leaves_its_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = next((each for each in ("etcd", "PostgreSQL") if is_installed(each)), None)
    if store is None:
        pytest.skip("neither etcd nor PostgreSQL is installed: the soak was not tried")
    monkeypatch.setattr(soak_run, "choose", lambda rng: "planned switch")
    plan = SoakPlan(
        hours=15 / 3600,
        rate=40.0,
        fault_every_s=6.0,
        sample_s=1.0,
        lease_store=store,
        settle_s=240.0,
        pace=Pace(4.0, REPLICATION, 1_000),
        waits=QUICK,
    )
    problems = await SoakRun(plan, tmp_path / "scratch", RunFolder(tmp_path / "kept" / NAME)).go()
    assert problems == []
    report = reports_in(tmp_path / "kept")[0]
    last = report.samples[-1]
    assert report.is_over and last.faults >= 1 and last.outstanding == 0
    assert last.acknowledged >= 15 and last.deliveries > last.acknowledged, "several groups get most kinds"
    assert {"clients", "name server", "member-0", "member-0 agent", "member-2"} <= last.processes.keys()
    assert set(last.disk) == {"member-0", "member-1", "member-2"} and min(last.disk.values()) > 0


def test_every_fault_may_be_chosen() -> None:
    assert all(weight > 0 for _, weight in FAULTS.values())
