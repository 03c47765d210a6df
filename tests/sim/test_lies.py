"""Every planted mistake is found: by the seed that found it last, or else by one of the next."""

from __future__ import annotations

import pytest

from tests.sim.commands import last_line, simulate
from tests.sim.lies import LIES, Lie

_SEEDS_MAX = 40


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.name.replace(" ", "-"))
def test_it_is_found(lie: Lie) -> None:
    known = simulate("--seed", str(lie.seed), "--lie", lie.name, "--without", lie.without)
    if known.returncode == 1 and "FAILED" in last_line(known):
        return
    found = simulate("--seeds", f"{lie.seed + 1}..{lie.seed + _SEEDS_MAX}", "--lie", lie.name, "--stop")
    assert found.returncode == 1, f"{lie.name}: none of {_SEEDS_MAX} seeds behind {lie.seed} tells\n{found.stdout}"
    assert "FAILED" in found.stdout, found.stderr


def test_there_are_at_least_twenty() -> None:
    assert len({lie.name for lie in LIES}) == len(LIES) >= 20
