"""A few rounds of the faults that matter most; ``make faults`` runs all of them, and many."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pyromq.replication.settings import Role
from pyromq.store.settings import Flush
from tests.faults.agent_faults import AGENT_FAULTS
from tests.faults.agents import ManagedCluster, managed
from tests.faults.cluster import Cluster, two_processes
from tests.faults.kinds_of_faults import FAULTS, POWER_CUTS
from tests.faults.lease_servers import LEASE_SERVERS, is_installed
from tests.faults.power import two_machines
from tests.faults.rounds import Outcome, run_rounds

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]

Property = Callable[[str, object], None]
SEED = 20_261_116


def report(found: Outcome, record: Property) -> None:
    print(found)
    record("ledger messages", found.promised)
    record("ledger duplicates", found.duplicates)
    record("ledger messages lost", found.lost if found.role == Role.SYNC_MASTER.value else 0)
    assert not found.problems, "\n".join(found.problems)


@pytest.mark.parametrize(
    ("fault", "rounds"),
    [("master killed", 2), ("both killed at once", 1), ("log swallowed, then master killed", 1)],
)
async def test_with_a_sync_master_nothing_promised_is_lost(
    tmp_path: Path, fault: str, rounds: int, record_property: Property
) -> None:
    found = await run_rounds(
        lambda number: Cluster(two_processes(tmp_path / str(number)), Role.SYNC_MASTER),
        fault,
        FAULTS[fault],
        rounds=rounds,
        seed=SEED,
    )
    assert found.lost == 0
    report(found, record_property)


async def test_with_an_async_master_the_lag_bounds_what_is_lost(tmp_path: Path, record_property: Property) -> None:
    fault = "cut apart, then master killed"
    found = await run_rounds(
        lambda number: Cluster(two_processes(tmp_path / str(number)), Role.ASYNC_MASTER),
        fault,
        FAULTS[fault],
        rounds=1,
        seed=SEED,
    )
    report(found, record_property)


@pytest.mark.parametrize(
    ("fault", "flush"), [("power fails at the master", Flush.SYNC), ("power fails at both", Flush.ASYNC)]
)
async def test_what_is_promised_outlives_the_page_cache(
    tmp_path: Path, fault: str, flush: Flush, record_property: Property
) -> None:
    found = await run_rounds(
        lambda number: Cluster(two_machines(tmp_path, f"{SEED} {fault} {number}", flush), Role.SYNC_MASTER),
        fault,
        POWER_CUTS[fault],
        rounds=1,
        seed=SEED,
    )
    assert found.lost == 0
    report(found, record_property)


@pytest.mark.skipif(not is_installed("etcd"), reason="etcd is not installed: rounds under agents were not tried")
async def test_under_agents_a_master_that_was_paused_longer_than_its_lease_is_a_replica(
    tmp_path: Path, record_property: Property
) -> None:
    fault = "agents: master paused longer than its lease"
    with LEASE_SERVERS["etcd"](tmp_path) as leases:
        found = await run_rounds(
            lambda number: ManagedCluster(managed(tmp_path / str(number), leases), Role.SYNC_MASTER, leases),
            fault,
            AGENT_FAULTS[fault],
            rounds=1,
            seed=SEED,
        )
    assert found.lost == 0
    report(found, record_property)
