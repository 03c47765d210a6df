"""Collecting on the servers' loop: the steps of all sources, a few milliseconds per loop iteration."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from pyromq.clock import Clock, thread_cpu_s
from pyromq.endpoint.sources import MetricsSource, ProcessFacts
from pyromq.metrics import process_table as table
from pyromq.metrics.samples import Family, ServerSamples

logger = logging.getLogger(__name__)

TURN_S: Final = 0.002
_COUNTED_MAX: Final = 1_000_000  # a source that never ends would be a defect


class Collection:
    """One collection at a time; who asks while one is made gets the same, and so do those who ask soon after it."""

    def __init__(self, clock: Clock, *, fresh_s: float = 1.0) -> None:
        self._clock = clock
        self._fresh_s = fresh_s
        self._began_s = clock.monotonic_s()
        self._process = ProcessFacts()
        self._making: asyncio.Task[list[ServerSamples]] | None = None
        self._made: list[ServerSamples] | None = None
        self._made_at_s = 0.0
        self.sources: list[MetricsSource] = []
        self.cpu_s = 0.0  # of the last one
        self.more: Callable[[], list[Family]] = list  # about the endpoint itself

    async def parts(self) -> list[ServerSamples]:
        """Collect the samples of all sources. Raises what a source raises: a defect."""
        now_s = self._clock.monotonic_s()
        if self._made is not None and now_s - self._made_at_s < self._fresh_s:
            return self._made
        if self._making is None:
            self._making = asyncio.get_running_loop().create_task(self._make(), name="collect metrics")
            self._making.add_done_callback(self._done)
        return await asyncio.shield(self._making)

    def _done(self, task: asyncio.Task[list[ServerSamples]]) -> None:
        self._making = None
        if not task.cancelled() and task.exception() is None:
            self._made, self._made_at_s = task.result(), self._clock.monotonic_s()

    async def _make(self) -> list[ServerSamples]:
        used_s, parts, common = 0.0, list[ServerSamples](), dict[str, str]()
        for source in self.sources:
            steps = source.collect()
            for _ in range(_COUNTED_MAX):
                began_s, cpu_s, is_over = self._clock.monotonic_s(), thread_cpu_s(), False
                while not is_over and self._clock.monotonic_s() - began_s < TURN_S:
                    try:
                        next(steps)
                    except StopIteration as end:
                        parts += end.value
                        common = dict(end.value[0].common) if end.value else common
                        is_over = True
                used_s += thread_cpu_s() - cpu_s
                if is_over:
                    break
                await asyncio.sleep(0)
        self.cpu_s = used_s
        return [ServerSamples(common, self._own()), *parts]  # the process goes under the name of its last server

    def _own(self) -> list[Family]:
        return [
            *self._process.families(self._clock.monotonic_s() - self._began_s),
            Family(table.COLLECT_TIME, [((), self.cpu_s)]),
            *self.more(),
        ]
