"""Label budget: a metric has so many label sets at most; the others are added up in one whose labels are ``_overflow``.

Names come from clients, and every new one is a series that Prometheus keeps for weeks. Which label sets have a series
of their own does not change while they are there, so no counter jumps from one to the other; the overflow of a counter
never falls, although what it is made of may be deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyromq.metrics.declared import Metric, MetricKind
from pyromq.metrics.samples import Distribution, Family, Labels, Value

OVERFLOW: Final = "_overflow"


class LabelBudget:
    """Owner of what is remembered between two collections: which label sets are shown, and what overflow was shown."""

    def __init__(self, series_max: int) -> None:
        self.series_max = max(1, series_max)
        self._shown: dict[str, set[Labels]] = {}  # by metric that has too many
        self._reported: dict[str, _Reported] = {}  # likewise
        self.dropped: dict[str, int] = {}  # by metric: label sets without a series in the last collection

    def limited(self, family: Family) -> Family:
        metric, samples = family
        if len(samples) <= self.series_max:
            if metric.name in self._shown:
                self._forget(metric.name)
            return family
        present = {labels for labels, _ in samples}
        shown = self._shown.get(metric.name, set()) & present
        for labels, _ in samples:
            if len(shown) >= self.series_max:
                break
            shown.add(labels)
        self._shown[metric.name] = shown
        kept = [sample for sample in samples if sample[0] in shown]
        rest = [value for labels, value in samples if labels not in shown]
        self.dropped[metric.name] = len(rest)
        overflow = self._reported.setdefault(metric.name, _Reported())
        return Family(metric, [*kept, ((OVERFLOW,) * len(metric.labels), overflow.next(metric, _added(rest)))])

    def _forget(self, name: str) -> None:
        """There is room for all again: the overflow ends, as a series of something deleted does."""
        for table in (self._shown, self._reported, self.dropped):
            table.pop(name, None)


class _Reported:
    """The overflow of one counter as it was reported last."""

    def __init__(self) -> None:
        self._last: Value = 0
        self._lost: Value = 0  # of what was reported and is gone

    def next(self, metric: Metric, added: Value) -> Value:
        if metric.kind is MetricKind.GAUGE:
            return added
        if isinstance(added, Distribution):
            return self._next_distribution(added)
        assert not isinstance(self._lost, Distribution) and not isinstance(self._last, Distribution)
        self._lost += max(0, self._last - (added + self._lost))
        self._last = added + self._lost
        return self._last

    def _next_distribution(self, added: Distribution) -> Distribution:
        zero = Distribution((0,) * len(added.counts), 0.0)
        last = self._last if isinstance(self._last, Distribution) else zero
        lost = self._lost if isinstance(self._lost, Distribution) else zero
        sums = added.plus(lost)
        missing = Distribution(
            tuple(max(0, before - now) for before, now in zip(last.counts, sums.counts, strict=True)),
            max(0.0, last.total - sums.total),
        )
        self._lost = lost.plus(missing)
        self._last = added.plus(self._lost)
        return self._last


def _added(values: Iterable[Value]) -> Value:
    total: Value = 0
    for value in values:
        if isinstance(value, Distribution):
            total = total.plus(value) if isinstance(total, Distribution) else value
        else:
            assert not isinstance(total, Distribution)
            total += value
    return total
