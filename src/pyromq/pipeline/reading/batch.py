"""Batch reads without Spark: the ranges between two positions, planned once."""

from __future__ import annotations

import logging

from pyromq.model.queue import QueueId
from pyromq.pipeline.core.errors import BackwardRangeError, DataLossError
from pyromq.pipeline.core.offsets import HeldRange, Offsets, queue_text
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.core.places import AtTime, Where
from pyromq.pipeline.reading.plan import Partition, planned_ranges
from pyromq.pipeline.reading.starts import backward_ranges, ending_offsets, needs_group, said, starting_offsets
from pyromq.pipeline.reading.stream import StreamQueries, spread

logger = logging.getLogger(__name__)


def plan_batch(options: SourceOptions, cluster: StreamQueries) -> list[Partition]:
    """Plan the partitions of a batch read. Raises BackwardRangeError, DataLossError, OptionError, TopicNotFoundError,
    SourceUnreachableError.
    """
    held = cluster.held()
    stored = cluster.stored(held) if needs_group(options.starting) or needs_group(options.ending) else {}
    start = starting_offsets(options.starting, held, stored, _by_time(options.starting, held, cluster))
    end = ending_offsets(options.ending, held, stored, _by_time(options.ending, held, cluster))
    backward, gone = backward_ranges(start, end, held)
    asked = {queue: offset for queue, offset in end.items() if offset > start[queue]}  # the rest is an empty range
    _refuse_backward(options, {queue: (start[queue], end[queue]) for queue in backward}, anything_left=bool(asked))
    ranges, losses = planned_ranges(start, asked, held)
    losses += gone
    if losses and options.fail_on_data_loss:
        raise DataLossError(losses)
    for loss in losses:
        logger.warning("messages skipped: %s", loss)
    return spread(ranges, options)


def _refuse_backward(options: SourceOptions, found: dict[QueueId, tuple[int, int]], *, anything_left: bool) -> None:
    """A time on one side alone is another offset in each queue: those that have nothing between are left out, as long
    as others have something."""
    texts = [
        f"{queue_text(queue)} starts at {start} ({said(options.starting, 'starting', queue)}) "
        f"and ends at {end} ({said(options.ending, 'ending', queue)})"
        for queue, (start, end) in found.items()
    ]
    by_time = isinstance(options.starting, AtTime) or isinstance(options.ending, AtTime)
    if texts and not (by_time and anything_left):
        raise BackwardRangeError(texts)
    for text in texts:
        logger.warning("queue left out, its start lies beyond its end: %s", text)


def _by_time(where: Where, held: dict[QueueId, HeldRange], cluster: StreamQueries) -> Offsets:
    return cluster.at_time(held, where.time_ms, held) if isinstance(where, AtTime) else {}
