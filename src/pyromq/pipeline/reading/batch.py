"""Batch reads without Spark: the ranges between two positions, planned once."""

from __future__ import annotations

import logging

from pyromq.model.queue import QueueId
from pyromq.pipeline.core.errors import DataLossError
from pyromq.pipeline.core.offsets import HeldRange, Offsets
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.core.places import AtTime, Where
from pyromq.pipeline.reading.plan import Partition, planned_ranges
from pyromq.pipeline.reading.starts import beyond_end, ending_offsets, needs_group, starting_offsets
from pyromq.pipeline.reading.stream import StreamQueries, spread

logger = logging.getLogger(__name__)


def plan_batch(options: SourceOptions, cluster: StreamQueries) -> list[Partition]:
    """Raises DataLossError, OptionError, TopicNotFoundError, SourceUnreachableError."""
    held = cluster.held()
    stored = cluster.stored(held) if needs_group(options.starting) or needs_group(options.ending) else {}
    start = starting_offsets(options.starting, held, stored, _by_time(options.starting, held, cluster))
    end = ending_offsets(options.ending, held, stored, _by_time(options.ending, held, cluster))
    asked = {queue: offset for queue, offset in end.items() if offset > start[queue]}  # the rest is an empty range
    ranges, losses = planned_ranges(start, asked, held)
    losses += beyond_end(options.starting, held)
    if losses and options.fail_on_data_loss:
        raise DataLossError(losses)
    for loss in losses:
        logger.warning("messages skipped: %s", loss)
    return spread(ranges, options)


def _by_time(where: Where, held: dict[QueueId, HeldRange], cluster: StreamQueries) -> Offsets:
    return cluster.at_time(held, where.time_ms, held) if isinstance(where, AtTime) else {}
