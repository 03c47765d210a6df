"""Delays become delay levels: never shorter for a retry, never longer for what came too early."""

from __future__ import annotations

import pytest

from pyromq.model.delay_levels import LEVELS_MS, level_after, level_before
from pyromq.store.settings import StoreSettings


def test_the_levels_are_those_of_brokers() -> None:
    assert StoreSettings().delay_ladder_ms == LEVELS_MS


@pytest.mark.parametrize(
    ("delay_ms", "after", "before"),
    [(-5, 1, 1), (0, 1, 1), (1_000, 1, 1), (1_001, 2, 1), (60_000, 5, 5), (7_200_000, 18, 18), (10**12, 18, 18)],
)
def test_a_delay_has_a_level(delay_ms: int, after: int, before: int) -> None:
    assert (level_after(delay_ms), level_before(delay_ms)) == (after, before)
