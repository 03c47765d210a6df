"""Streaming reads without Spark: where a query starts, where each batch ends, what it reads.

Spark calls ``latest`` with the end of the last batch it has committed: everything before it is done, so that is what
the group is told. The start of a query is stored in the group before Spark hears of it (``starts`` says why).
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from pyromq.clock import Clock, SystemClock
from pyromq.errors import MQError
from pyromq.model.queue import QueueId
from pyromq.pipeline.core.errors import DataLossError
from pyromq.pipeline.core.offsets import HeldRange, OffsetRange, Offsets, from_tree, to_tree
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.core.places import AtTime
from pyromq.pipeline.reading.plan import (
    BatchLimits,
    Partition,
    backlog_of,
    batch_end,
    is_worth_a_batch,
    losses_before,
    plan_partitions,
    planned_ranges,
    rows_allowed,
    shown,
    with_new_queues,
)
from pyromq.pipeline.reading.starts import starting_offsets

logger = logging.getLogger(__name__)

_POLL_MS_FIRST: Final = 5
_POLL_MS_MAX: Final = 40
_SIZES_MS: Final = 10_000  # how long an average size is believed
_TELL_AGAIN_MS: Final = 10_000  # a broker that crashed may have forgotten the last seconds
_SKIPPED_SHOWN: Final = 5


class StreamQueries(Protocol):
    """What a stream asks of brokers (``cluster.Cluster``)."""

    def held(self, *, missing_ok: bool = False) -> dict[QueueId, HeldRange]: ...
    def stored(self, queues: Iterable[QueueId]) -> Offsets: ...
    def at_time(self, queues: Iterable[QueueId], time_ms: int, held: Mapping[QueueId, HeldRange]) -> Offsets: ...
    def commit(self, offsets: Mapping[QueueId, int]) -> None: ...
    def average_bytes(self, queue: QueueId, held: HeldRange, start: int) -> float: ...


class Stream:
    """Offsets and ranges of one running query; Spark's own process calls it, one call at a time."""

    def __init__(
        self,
        options: SourceOptions,
        cluster: StreamQueries,
        *,
        clock: Clock | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._options = options
        self._cluster = cluster
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._initial: Offsets | None = None
        self._target: Offsets | None = None  # where a query that reads what there is stops
        self._latest: Offsets = {}  # where queues end, as of the last look
        self._end: Offsets = {}  # where the planned batch ends
        self._told: Offsets = {}  # what the group knows
        self._told_ms: int | None = None  # when it was last told of all
        self._given_up: set[QueueId] = set()  # queues that are gone, and are not waited for any more
        self._made_anew: set[QueueId] = set()  # queues that were gone and are another one's now
        self._has_looked = False  # for topics that were deleted and created again before this life
        self._skipped: list[str] = []  # the last gaps, in words
        self._batch_ms = self._clock.monotonic_ms()  # when the last batch was planned
        self._sizes: dict[str, tuple[int, float]] = {}  # by topic: when it was found out, bytes

    # --- the start ---

    def initial(self) -> Offsets:
        """Offsets where the query begins: equal for every call, also in the next life of a query that did not finish
        its first batch.
        """
        if self._initial is None:
            held, where = self._cluster.held(), self._options.starting
            stored = self._cluster.stored(held)
            by_time = self._cluster.at_time(held, where.time_ms, held) if isinstance(where, AtTime) else {}
            start = starting_offsets(where, held, stored, by_time)
            self._cluster.commit({queue: offset for queue, offset in start.items() if queue not in stored})
            self._initial = start
            logger.info("query starts: group=%s offsets=%s", self._options.group, to_tree(start))
        return self._initial

    def freeze(self) -> None:
        """What is there now is all that is read."""
        self._target = {queue: there.end for queue, there in self._cluster.held(missing_ok=True).items()}

    # --- the end of the next batch ---

    def latest(self, start: Offsets, *, limited: bool = True) -> Offsets:
        """Where the next batch ends: ``start`` itself when there is nothing to do for now.

        Waits a little for messages when there are none. Raises DataLossError, SourceUnreachableError.
        """
        if not self._has_looked:
            self._look_for_strangers(start)
        self.tell(start)
        limits = self._limits() if limited else BatchLimits()
        deadline_ms = self._clock.monotonic_ms() + self._options.long_poll_ms
        pause_ms = _POLL_MS_FIRST
        while True:
            end = self._end_now(start, limits)
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if end != start or self._target is not None or left_ms <= 0:
                self._end = end
                return end
            self._sleep(min(pause_ms, left_ms) / 1000)
            pause_ms = min(_POLL_MS_MAX, pause_ms * 2)

    def _end_now(self, start: Offsets, limits: BatchLimits) -> Offsets:
        held = self._held(start)
        losses, mended = losses_before({q: at for q, at in start.items() if q not in self._given_up}, held)
        if anew := {queue: held[queue].first for queue in self._made_anew if queue in start and queue in held}:
            self._made_anew.clear()
            self._report([f"{shown(queue)} was created again, {start[queue]} was next" for queue in sorted(anew)])
            return {**start, **anew}  # a batch that only takes note of it
        self._report(losses)
        self._given_up |= {queue for queue in start if queue not in held}
        self._latest = {queue: there.end for queue, there in held.items()}
        reachable = self._latest if self._target is None else self._bounded(held)
        ahead = backlog_of({**start, **mended}, reachable)
        rows = sum(ahead.values())
        is_new = any(queue not in start for queue in held)
        moved = {queue: mended[queue] for queue in mended if mended[queue] != start[queue]}
        waited_ms = self._clock.monotonic_ms() - self._batch_ms
        if self._target is None and not is_worth_a_batch(limits, rows, waited_ms) and not is_new and not moved:
            return start
        self._batch_ms = self._clock.monotonic_ms()
        allowed = rows_allowed(limits, ahead, self._average_sizes(limits, ahead, held, start))
        return with_new_queues(batch_end({**start, **mended}, reachable, allowed), held)

    def _bounded(self, held: Mapping[QueueId, HeldRange]) -> Offsets:
        """Queues that appeared after the freeze are noted, not read."""
        target = self._target or {}
        return {queue: min(there.end, target.get(queue, there.first)) for queue, there in held.items()}

    def _held(self, start: Offsets) -> dict[QueueId, HeldRange]:
        """What there is; waits a while for queues that should be there (brokers restart, routes come back late)."""
        deadline_ms = self._clock.monotonic_ms() + self._options.retry_ms
        while True:
            held = self._cluster.held(missing_ok=True)
            missing = start.keys() - held.keys() - self._given_up
            if not missing or self._clock.monotonic_ms() >= deadline_ms:
                self._welcome(self._given_up & held.keys())
                return held
            self._sleep(_POLL_MS_MAX * 5 / 1000)

    def _welcome(self, back: set[QueueId]) -> None:
        """Queues that were gone and are there again: with a topic goes what groups have read of it."""
        if back:
            self._made_anew |= back - self._cluster.stored(back).keys()
            self._given_up -= back

    def _look_for_strangers(self, start: Offsets) -> None:
        """A topic that was made anew between two lives and is longer than before cannot be told from the old one."""
        self._has_looked, held = True, self._cluster.held(missing_ok=True)
        begun = {queue for queue in start.keys() & held.keys() if start[queue] > held[queue].first}
        for queue in sorted(begun - self._cluster.stored(begun).keys()):
            text = "if its topic was deleted and made anew, what lies before is not read"
            logger.warning("the group does not know %s, the query is at %d: %s", shown(queue), start[queue], text)

    def _report(self, losses: list[str]) -> None:
        if losses and self._options.fail_on_data_loss:
            raise DataLossError(losses)
        for loss in losses:
            logger.warning("messages skipped: %s", loss)
        self._skipped = [*self._skipped, *losses][-_SKIPPED_SHOWN:]

    def _limits(self) -> BatchLimits:
        options = self._options
        return BatchLimits(options.max_offsets, options.min_offsets, options.max_bytes, options.max_trigger_delay_ms)

    def _average_sizes(
        self, limits: BatchLimits, ahead: Mapping[QueueId, int], held: Mapping[QueueId, HeldRange], start: Offsets
    ) -> dict[str, float]:
        """Average message size of each topic, as its fullest queue shows it at its start; looked at again from time to
        time.
        """
        if limits.bytes_max is None:
            return {}
        now_ms = self._clock.monotonic_ms()
        for topic in {queue.topic for queue in ahead}:
            if topic not in self._sizes or now_ms - self._sizes[topic][0] >= _SIZES_MS:
                fullest = max((queue for queue in ahead if queue.topic == topic), key=lambda queue: ahead[queue])
                size = self._cluster.average_bytes(fullest, held[fullest], start[fullest])
                self._sizes[topic] = now_ms, size
        return {topic: size for topic, (_, size) in self._sizes.items()}

    # --- what a batch reads ---

    def partitions(self, start: Offsets, end: Offsets) -> list[Partition]:
        """Cut a batch into ranges: equal for equal offsets, as long as brokers keep their messages. Raises
        DataLossError.
        """
        if not backlog_of(start, end) and not backlog_of(end, start):
            return []
        ranges, losses = planned_ranges(start, end, self._held(end), is_first=start == self._initial)
        self._report(losses)
        return spread(ranges, self._options)

    # --- progress ---

    def tell(self, start: Offsets) -> None:
        """The group stands where the last committed batch ended; a failure is logged, the next batch tells more."""
        now_ms = self._clock.monotonic_ms()
        if self._told_ms is not None and now_ms - self._told_ms >= _TELL_AGAIN_MS:
            self._told.clear()
        news = {queue: offset for queue, offset in start.items() if self._told.get(queue) != offset}
        if not news:
            return
        try:
            self._cluster.commit({queue: offset for queue, offset in news.items() if queue not in self._given_up})
        except MQError as error:
            logger.warning("progress not stored: group=%s error=%s", self._options.group, error)
        else:
            self._told_ms = self._told_ms if self._told else now_ms
            self._told.update(news)

    def report(self) -> dict[str, Any] | None:
        """For the progress of the query: where queues end, how many messages the planned batch leaves unread, gaps."""
        if not self._latest:
            return None
        lag = sum(backlog_of(self._end or self._latest, self._latest).values())
        return {
            "offsets": to_tree(self._latest),
            "lag": lag,
            "group": self._options.group,
            "nameserver": self._options.nameserver,
            **({"skipped": self._skipped} if self._skipped else {}),
        }


def spread(ranges: list[OffsetRange], options: SourceOptions) -> list[Partition]:
    count_max = options.max_partitions or max(8, 4 * (os.cpu_count() or 1), options.min_partitions or 0)
    return plan_partitions(ranges, count_min=options.min_partitions, count_max=count_max, rows_max=options.max_records)


def offsets_of(tree: Any) -> Offsets:
    """Read offsets as Spark hands them back from a checkpoint."""
    return from_tree(tree)
