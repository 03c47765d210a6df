"""Batch reads without Spark: the ranges between two positions, planned once."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from pyromq.model.namespaces import unwrap
from pyromq.model.queue import QueueId
from pyromq.pipeline.core.errors import BackwardRangeError, DataLossError
from pyromq.pipeline.core.offsets import HeldRange, OffsetRange, queue_text
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.core.places import AtTime, AtTimes
from pyromq.pipeline.reading.filters import Condition, indexed_keys, may_match, narrowed, runs_of, store_times_ms
from pyromq.pipeline.reading.plan import Partition, planned_ranges
from pyromq.pipeline.reading.starts import (
    backward_ranges,
    ending_offsets,
    needs_group,
    said,
    starting_offsets,
    times_of,
)
from pyromq.pipeline.reading.stream import StreamQueries, spread, starts_by_time

logger = logging.getLogger(__name__)


def plan_batch(options: SourceOptions, cluster: StreamQueries, conditions: Sequence[Condition] = ()) -> list[Partition]:
    """Plan the partitions of a batch read; what cannot meet the ``conditions`` of its rows is not read.

    Raises BackwardRangeError, DataLossError, OptionError, TopicNotFoundError, SourceUnreachableError.
    """
    held = cluster.held()
    stored = cluster.stored(held) if needs_group(options.starting) or needs_group(options.ending) else {}
    start = starting_offsets(options.starting, held, stored, starts_by_time(options, held, cluster))
    times_ms = times_of(options.ending, held, "endingOffsetsByTimestamp")
    end = ending_offsets(options.ending, held, stored, cluster.at_times(times_ms, held))
    backward, gone = backward_ranges(start, end, held)
    asked = {queue: offset for queue, offset in end.items() if offset > start[queue]}  # the rest is an empty range
    _refuse_backward(options, {queue: (start[queue], end[queue]) for queue in backward}, anything_left=bool(asked))
    ranges, losses = planned_ranges(start, asked, held)
    losses += gone
    if losses and options.fail_on_data_loss:
        raise DataLossError(losses)
    for loss in losses:
        logger.warning("messages skipped: %s", loss)
    return spread(_fewer(ranges, conditions, options, cluster, held), options)


def _fewer(
    ranges: list[OffsetRange],
    conditions: Sequence[Condition],
    options: SourceOptions,
    cluster: StreamQueries,
    held: Mapping[QueueId, HeldRange],
) -> list[OffsetRange]:
    """The parts of the ranges whose rows can meet the conditions."""
    if not conditions:
        return ranges
    found = [each for each in ranges if may_match(conditions, _as_rows_have_it(each.queue, options))]
    first_ms, end_ms = store_times_ms(conditions)
    queues = [each.queue for each in found]
    starts = cluster.at_times(dict.fromkeys(queues, first_ms), held) if first_ms is not None else {}
    ends = cluster.at_times(dict.fromkeys(queues, end_ms), held) if end_ms is not None else {}
    timed = [
        OffsetRange(
            each.queue,
            max(each.start, starts.get(each.queue, each.start)),
            min(each.end, ends.get(each.queue, each.end)),
        )
        for each in found
    ]
    parts = [part for each in timed if len(part := narrowed(conditions, each))]
    keys = indexed_keys(conditions)
    if not parts or keys is None:
        return parts
    offsets = cluster.with_keys([each.queue for each in parts], keys) if keys else {}
    return [run for each in parts for run in (runs_of(each, offsets[each.queue]) if each.queue in offsets else [each])]


def _as_rows_have_it(queue: QueueId, options: SourceOptions) -> QueueId:
    return QueueId(unwrap(options.namespace, queue.topic), queue.broker, queue.number)


def _refuse_backward(options: SourceOptions, found: dict[QueueId, tuple[int, int]], *, anything_left: bool) -> None:
    """A time on one side alone is another offset in each queue: those that have nothing between are left out, as long
    as others have something."""
    texts = [
        f"{queue_text(queue)} starts at {start} ({said(options.starting, 'starting', queue)}) "
        f"and ends at {end} ({said(options.ending, 'ending', queue)})"
        for queue, (start, end) in found.items()
    ]
    by_time = isinstance(options.starting, AtTime | AtTimes) or isinstance(options.ending, AtTime | AtTimes)
    if texts and not (by_time and anything_left):
        raise BackwardRangeError(texts)
    for text in texts:
        logger.warning("queue left out, its start lies beyond its end: %s", text)
