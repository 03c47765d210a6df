"""A few kills of real brokers with consumers that pop, over both protocols; ``make pops`` has many."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.pop_rounds import run_pop_rounds

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]


@pytest.mark.parametrize("is_alone", [True, False], ids=["alone", "with-a-replica"])
async def test_nothing_is_lost_and_nothing_acknowledged_comes_again(
    is_alone: bool, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    found = await run_pop_rounds(tmp_path, 3, 20_261_117, is_alone=is_alone)
    assert not found.problems, "\n".join(found.problems)
    assert found.kills == 3 and found.acks > 30, str(found)
    record_property("processes killed", found.kills)
    record_property("promises checked", found.sent + found.acks)
