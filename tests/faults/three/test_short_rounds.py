"""A round each of what matters most with three members and short leases; ``make faults ARGUMENTS=--three`` runs all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.agents import Pace
from tests.faults.cluster import REPLICATION
from tests.faults.lease_servers import is_installed
from tests.faults.three import faults
from tests.faults.three.rows import ETCD, POSTGRESQL, ROWS, Row, run_row, table

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]

Property = Callable[[str, object], None]
QUICK = Pace(3.0, REPLICATION, 1_000)


@pytest.mark.parametrize(("fault", "store"), [("master hangs", POSTGRESQL), ("planned switches", ETCD)])
async def test_three_members_lose_nothing(
    fault: str,
    store: str,
    tmp_path: Path,
    record_property: Property,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not is_installed(store):
        pytest.skip(f"{store} is not installed: {fault} was not tried with it")
    monkeypatch.setattr(faults, "SWITCHES", 1)
    row = next(each for each in ROWS if each.fault == fault)
    row = replace(row, store=store, pace=QUICK, goal=None)
    found = await run_row(row, tmp_path, rounds=1, seed=20_261_116)
    print(table([(row, found)]))
    record_property("ledger messages", found.promised)
    record_property("ledger duplicates", found.duplicates)
    record_property("ledger messages lost", found.lost)
    assert found.lost == 0 and not found.problems, "\n".join(found.problems)


def test_rows_have_names_of_their_own_and_times_of_goals() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    judged = [row for row in ROWS if row.goal is not None]
    assert {"master killed", "master hangs", "master isolated", "planned switches"} <= {row.fault for row in judged}
    assert all(isinstance(row, Row) and row.pace.lease_s >= 1 for row in ROWS)
