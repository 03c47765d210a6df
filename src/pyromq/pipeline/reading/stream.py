"""Streaming reads without Spark: where a query starts, where each batch ends, what it reads.

Spark calls ``latest`` with the end of the last batch it has committed: everything before it is done, so that is what
the group is informed. The start of a query is stored in the group before Spark hears of it (``starts`` says why).
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final, Protocol

from pyromq.clock import Clock, SystemClock
from pyromq.errors import MQError
from pyromq.model.queue import QueueId
from pyromq.pipeline.core.errors import DataLossError, GroupSharedError
from pyromq.pipeline.core.offsets import HeldRange, OffsetRange, Offsets, behind, to_tree
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.core.places import NoMatch
from pyromq.pipeline.reading.broker_ranges import GroupUsage
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
from pyromq.pipeline.reading.starts import require_matches, starting_offsets, times_of

logger = logging.getLogger(__name__)

_MISSING_PAUSE_S: Final = 0.2
_SIZES_MS: Final = 10_000  # how long an average size is believed
_REPORT_AGAIN_MS: Final = 10_000  # once: a broker that crashed may have forgotten the last seconds
_SKIPPED_SHOWN: Final = 5
OFFSET_END: Final = (1 << 63) - 1  # of a range that has none


class StreamQueries(Protocol):
    """What a stream asks of brokers (``cluster.Cluster``)."""

    def held(self, *, missing_ok: bool = False, fresh: bool = True) -> dict[QueueId, HeldRange]: ...
    def wait(self, wait_ms: int) -> None: ...
    def usage(self) -> GroupUsage: ...
    def stored(self, queues: Iterable[QueueId]) -> Offsets: ...
    def at_times(self, times_ms: Mapping[QueueId, int], held: Mapping[QueueId, HeldRange]) -> Offsets: ...
    def with_keys(self, queues: Iterable[QueueId], keys: Iterable[str]) -> dict[QueueId, set[int]]: ...
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
        self._known: Offsets = {}  # what the group knows
        self._reported_start: Offsets | None = None  # all of it is reported
        self._reported_ms = 0  # when something was last reported
        self._is_reported_again = True  # nothing is to be repeated
        self._usage = GroupUsage()  # who else moves the group
        self._reported: tuple[tuple[object, ...], dict[str, Any]] | None = None  # of what, and how it was reported
        self._complete_for: tuple[object, object] = (None, None)  # offsets and ranges that were compared last
        self._idle: tuple[object, object] | None = None  # offsets and ranges between which there was nothing to do
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
            self._note_usage()
            stored = self._cluster.stored(held)
            start = starting_offsets(where, held, stored, starts_by_time(self._options, held, self._cluster))
            self._cluster.commit({queue: offset for queue, offset in start.items() if queue not in stored})
            self._initial, self._has_looked = start, True
            logger.info("query starts: group=%s queues=%d", self._options.group, len(start))
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
        while True:
            end = self._end_now(start, limits)
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if end is not start or self._target is not None or left_ms <= 0:
                self._end = end
                return end
            self._cluster.wait(left_ms)

    def _end_now(self, start: Offsets, limits: BatchLimits) -> Offsets:
        held = self._held(start)
        if self._idle is not None and self._idle[0] is start and self._idle[1] is held and limits.rows_min is None:
            return start
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
            self._idle = start, held
            return start
        self._batch_ms = self._clock.monotonic_ms()
        allowed = rows_allowed(limits, ahead, self._average_sizes(limits, ahead, held, start))
        end = with_new_queues(batch_end({**start, **mended}, reachable, allowed), held)
        return start if end == start else end

    def _bounded(self, held: Mapping[QueueId, HeldRange]) -> Offsets:
        """Queues that appeared after the freeze are noted, not read."""
        target = self._target or {}
        return {queue: min(there.end, target.get(queue, there.first)) for queue, there in held.items()}

    def _held(self, start: Offsets) -> dict[QueueId, HeldRange]:
        """What there is; waits a while for queues that should be there (brokers restart, routes come back late)."""
        deadline_ms = self._clock.monotonic_ms() + self._options.retry_ms
        while True:
            held = self._cluster.held(missing_ok=True, fresh=False)
            is_compared = held is self._complete_for[1] and start is self._complete_for[0]
            if not is_compared and any(queue in held and held[queue].end < at for queue, at in start.items()):
                held = self._cluster.held(
                    missing_ok=True
                )  # tasks of real-time mode read what was not reported here yet
            self._note_usage()
            if is_compared:
                return held
            missing = start.keys() - held.keys() - self._given_up
            if not missing or self._clock.monotonic_ms() >= deadline_ms:
                self._welcome(self._given_up & held.keys())
                self._complete_for = start, held
                return held
            self._sleep(_MISSING_PAUSE_S)

    def _welcome(self, back: set[QueueId]) -> None:
        """Queues that were gone and are there again: with a topic goes what groups have read of it."""
        if back:
            self._made_anew |= back - self._cluster.stored(back).keys()
            self._given_up -= back

    def _look_for_strangers(self, start: Offsets) -> None:
        """A topic that was made anew between two lives and is longer than before looks like the old one."""
        self._has_looked, held = True, self._cluster.held(missing_ok=True)
        begun = {queue for queue in start.keys() & held.keys() if start[queue] > held[queue].first}
        for queue in sorted(begun - self._cluster.stored(begun).keys()):
            text = "if its topic was deleted and made anew, what lies before is not read"
            logger.warning("the group does not know %s, the query is at %d: %s", shown(queue), start[queue], text)

    def _note_usage(self) -> None:
        """Others that move the group are logged once; with ``exclusive`` they end the query: GroupSharedError."""
        usage, group = self._cluster.usage(), self._options.group
        if usage and self._options.exclusive:
            raise GroupSharedError(group, str(usage))
        if usage != self._usage:
            self._usage = usage
            if usage:
                logger.warning("others move the offsets of the group too: group=%s others=%s", group, usage)

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

    def open_ranges(self, start: Offsets) -> list[OffsetRange]:
        """All queues from ``start`` on without an end, new ones from their beginning. Raises DataLossError."""
        self.tell(start)
        held = self._held(start)
        losses, mended = losses_before(start, held)
        self._report(losses)
        self._latest = {queue: there.end for queue, there in held.items()}
        begin = with_new_queues({queue: at for queue, at in mended.items() if queue in held}, held)
        return [OffsetRange(queue, at, OFFSET_END) for queue, at in sorted(begin.items())]

    # --- progress ---

    def tell(self, start: Offsets) -> None:
        """The group stands where the last committed batch ended; a failure is logged, the next batch says more."""
        now_ms = self._clock.monotonic_ms()
        is_again = not self._is_reported_again and now_ms - self._reported_ms >= _REPORT_AGAIN_MS
        if start is self._reported_start and not is_again:
            return
        news = {queue: offset for queue, offset in start.items() if is_again or self._known.get(queue) != offset}
        if news:
            try:
                self._cluster.commit({queue: offset for queue, offset in news.items() if queue not in self._given_up})
            except MQError as error:
                logger.warning("progress not stored: group=%s error=%s", self._options.group, error)
                return
            self._known.update(news)
            self._reported_ms, self._is_reported_again = now_ms, is_again
        self._reported_start = start

    def report(self) -> dict[str, Any] | None:
        """For the progress of the query: where queues end, how far the planned batch leaves them behind, gaps."""
        if not self._latest:
            return None
        seen = self._latest, self._end, self._usage, len(self._skipped)
        if self._reported is None or any(a is not b for a, b in zip(self._reported[0], seen, strict=True)):
            self._reported = seen, self._new_report()
        return self._reported[1]

    def _new_report(self) -> dict[str, Any]:
        lags = behind(self._end or self._latest, self._latest).values()
        return {
            "offsets": to_tree(self._latest),
            "lag": sum(lags),
            "minOffsetsBehindLatest": min(lags),
            "maxOffsetsBehindLatest": max(lags),
            "avgOffsetsBehindLatest": round(sum(lags) / len(lags), 1),
            "group": self._options.group,
            "nameserver": self._options.nameserver,
            **({"sharedWith": asdict(self._usage)} if self._usage else {}),
            **({"skipped": self._skipped} if self._skipped else {}),
        }


def spread(ranges: list[OffsetRange], options: SourceOptions) -> list[Partition]:
    count_max = options.max_partitions or max(8, 4 * (os.cpu_count() or 1), options.min_partitions or 0)
    return plan_partitions(ranges, count_min=options.min_partitions, count_max=count_max, rows_max=options.max_records)


def starts_by_time(options: SourceOptions, held: Mapping[QueueId, HeldRange], cluster: StreamQueries) -> Offsets:
    """Where queues start whose start is given as a time. Raises OptionError, SourceUnreachableError."""
    times_ms = times_of(options.starting, held, "startingOffsetsByTimestamp")
    found = cluster.at_times(times_ms, held)
    if options.starting_no_match is NoMatch.ERROR:
        require_matches(times_ms, found, held)
    return found
