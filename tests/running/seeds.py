"""Seeds of randomised tests: the same in every run of ``make test``, others in every round of ``make explore``.

    for seed in seeds(400): …          pytestmark = pytest.mark.seeded

A failure of an exploring run comes back with ``PYROMQ_EXPLORE_SEED`` set to the seed of its round.
"""

from __future__ import annotations

import os

VARIABLE = "PYROMQ_EXPLORE_SEED"
_FIRST = int(os.environ.get(VARIABLE) or "0")


def seed_of(number: int) -> int:
    """A seed with a number of its own within a test."""
    return _FIRST + number


def seeds(count: int) -> range:
    return range(_FIRST, _FIRST + count)
