"""Numbers of a metric at one moment."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyromq.metrics.declared import Metric

Labels = tuple[str, ...]
"""Values, in the order in which the metric declares its labels."""


class Distribution(NamedTuple):
    """A histogram at one moment: ``counts`` of each bucket by itself, the last one without a bound."""

    counts: tuple[int, ...]
    total: float

    @property
    def observed(self) -> int:
        return sum(self.counts)

    def plus(self, other: Distribution) -> Distribution:
        return Distribution(
            tuple(mine + yours for mine, yours in zip(self.counts, other.counts, strict=True)), self.total + other.total
        )


Value = int | float | Distribution


class Family(NamedTuple):
    """Everything that is known of one metric."""

    metric: Metric
    samples: Sequence[tuple[Labels, Value]]


class ServerSamples(NamedTuple):
    """What one server of a process has to say; ``common`` are labels of all its series."""

    common: Mapping[str, str]
    families: Sequence[Family]


class Histogram:
    """Counted up where things happen: one bisection, two additions."""

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._total = 0.0

    def observe(self, value: float, count: int = 1) -> None:
        """``count`` things of one size, such as the sends that one flush has served."""
        self._counts[bisect_left(self._bounds, value)] += count
        self._total += value * count

    @property
    def count(self) -> int:
        return sum(self._counts)

    def now(self) -> Distribution:
        return Distribution(tuple(self._counts), self._total)
