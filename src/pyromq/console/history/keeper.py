"""The keeper of samples: numbers by name, in tiers, in memory and (with a folder) on disk."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final

from pyromq.clock import Clock
from pyromq.console.history.files import BYTES_MAX, SampleJournal
from pyromq.console.history.rings import Ring
from pyromq.console.history.spans import TIERS, Tier, TimeSpan

logger = logging.getLogger(__name__)

NAMES_MAX: Final = 4_000
"""Numbers that are remembered: those that got a sample last. Each takes about 7 KiB."""


class History:
    """``add`` takes samples, ``points`` gives them back. Owner of all rings and journals.

    Without a folder, or when the disk refuses, samples live as long as the process.
    """

    def __init__(self, clock: Clock, folder: Path | None = None, *, bytes_max: int = BYTES_MAX) -> None:
        self._clock = clock
        self._rings: OrderedDict[str, dict[str, Ring]] = OrderedDict()  # by name, then by tier
        self._journals = (
            {tier.name: SampleJournal(folder, tier, bytes_max // len(TIERS)) for tier in TIERS} if folder else {}
        )
        self._open: dict[str, int] = {}  # by tier: the slot that gets samples now
        self._pending: dict[str, float] = {}  # samples of the finest tier's open slot
        self._is_refused = False

    def load(self) -> None:
        """Read what an earlier process kept."""
        now_ms, last_ms = self._clock.now_ms(), 0
        for tier in TIERS:
            journal = self._journals.get(tier.name)
            newest = tier.slot(now_ms)
            for slot, values in journal.read(newest - tier.slots) if journal else ():
                if slot <= newest:  # not of a clock that was ahead
                    self._put(tier, slot, values)
                    last_ms = max(last_ms, slot * tier.step_ms) if tier is TIERS[0] else last_ms
        if last_ms:  # slots that were open then are finished with what comes now
            self._open = {tier.name: tier.slot(last_ms) for tier in TIERS[1:]}

    def add(self, values: Mapping[str, float]) -> None:
        """Keep numbers of this moment; a second sample of one slot counts instead of the first."""
        now_ms, finest = self._clock.now_ms(), TIERS[0]
        slot = finest.slot(now_ms)
        before = self._open.setdefault(finest.name, slot)
        if slot < before:
            self._rewind(now_ms)
        elif slot > before:
            self._finish(now_ms)
        self._pending.update(values)
        self._put(finest, slot, values)

    def _finish(self, now_ms: int) -> None:
        """Write the slot that is over, and the coarser ones that are over with it, as means of the finer ones."""
        finest = TIERS[0]
        self._write(finest, self._open[finest.name], self._pending)
        self._open[finest.name], self._pending = finest.slot(now_ms), {}
        for finer, tier in pairwise(TIERS):
            slot = tier.slot(now_ms)
            before = self._open.setdefault(tier.name, slot)
            if slot > before:
                means = self._means(finer, tier, before)
                self._put(tier, before, means)
                self._write(tier, before, means)
            self._open[tier.name] = slot

    def _rewind(self, now_ms: int) -> None:
        """The clock was set back: what is kept of later moments would hide the samples that come now."""
        for tier in TIERS:
            slot = tier.slot(now_ms)
            self._open[tier.name] = slot
            for rings in self._rings.values():
                if tier.name in rings:
                    rings[tier.name].rewind(slot)
        self._pending = {}

    def _means(self, finer: Tier, tier: Tier, slot: int) -> dict[str, float]:
        begin, end = finer.slot(slot * tier.step_ms), finer.slot((slot + 1) * tier.step_ms)
        found = {name: rings[finer.name].mean(begin, end) for name, rings in self._rings.items() if finer.name in rings}
        return {name: mean for name, mean in found.items() if mean is not None}

    def _put(self, tier: Tier, slot: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            rings = self._rings.setdefault(name, {})
            if tier.name not in rings:
                rings[tier.name] = Ring(tier.slots)
            rings[tier.name].put(slot, value)
            self._rings.move_to_end(name)
        while len(self._rings) > NAMES_MAX:
            self._rings.popitem(last=False)

    def _write(self, tier: Tier, slot: int, values: Mapping[str, float]) -> None:
        journal = self._journals.get(tier.name)
        if journal is None or not values:
            return
        try:
            journal.append(slot, values)
            self._is_refused = False
        except OSError as error:  # charts go on in memory
            if not self._is_refused:
                logger.warning("samples are not kept: reason=%s", error)
            self._is_refused = True

    def points(self, name: str, span: TimeSpan) -> list[tuple[int, float | None]]:
        """Times and values of a number, oldest first; None where samples are missing. Empty if it has none."""
        now_ms, tier = self._clock.now_ms(), span.tier
        rings = self._rings.get(name, {})
        if tier.name not in rings:
            return self._finer(name, span)
        begin, end = tier.slot(now_ms - span.ms), tier.slot(now_ms)
        found = [(slot * tier.step_ms, value) for slot, value in rings[tier.name].window(begin, end + 1)]
        return _from_first(_bridged(found))

    def _finer(self, name: str, span: TimeSpan) -> list[tuple[int, float | None]]:
        """Before the first slot of a tier is over, what finer tiers know."""
        before = {TimeSpan.WEEK: TimeSpan.DAY, TimeSpan.DAY: TimeSpan.QUARTER}.get(span)
        return self.points(name, before) if before is not None else []

    def close(self) -> None:
        """Write the open slot; the journals are closed."""
        if self._pending:
            self._write(TIERS[0], self._open[TIERS[0].name], self._pending)
        for journal in self._journals.values():
            journal.close()


_STEPS_MIN: Final = 4  # so many slots without a sample may be no gap: some numbers are sampled less often


def _bridged(points: list[tuple[int, float | None]]) -> list[tuple[int, float | None]]:
    """The points with one None for each gap: where three times as many samples are missing as usual."""
    known = [number for number, (_, value) in enumerate(points) if value is not None]
    steps = sorted(after - before for before, after in pairwise(known))
    most = max(_STEPS_MIN, 3 * steps[len(steps) // 2]) if steps else _STEPS_MIN
    found: list[tuple[int, float | None]] = []
    before = 0
    for number in known:
        if number - before > most:
            found.append((points[number][0] - 1, None))
        found.append(points[number])
        before = number
    return found


def _from_first(points: list[tuple[int, float | None]]) -> list[tuple[int, float | None]]:
    first = next((number for number, (_, value) in enumerate(points) if value is not None), len(points))
    return points[first:]
