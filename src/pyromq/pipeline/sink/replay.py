"""Idempotent writes: how a sink recognises rows of a batch that Spark runs again.

    marker   the last batch that was committed, and where each queue ended then: all of it, and all before it, is done.
             A file beside the checkpoint of a query; of a batch write, offsets of a group named after the sink
    plan     on the driver, before a batch is run: what lies between marker and end may be ours already
    task     reads unique keys and checksums of that stretch, and leaves out the rows it finds

Usually marker and end are the same, or a few messages of other producers apart, and nothing or little is read. Queues
are the truth about what was stored, whichever queue a row went to in its first life; an index of keys is not needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from pyromq.checksum import CRC_MASK, crc32
from pyromq.errors import MQError
from pyromq.model.queue import QueueId
from pyromq.pipeline.core.checkpoint_log import CheckpointLog
from pyromq.pipeline.core.connections import connect
from pyromq.pipeline.core.offsets import HeldRange, OffsetRange, Offsets, from_tree, to_tree
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.reading.pulls import read_ranges
from pyromq.pipeline.sink.keys import digest_of
from pyromq.pipeline.sink.options import SinkOptions

MARKER_PREFIX: Final = "PYROMQ_SINK_"
_SCHEMA: Final = pa.schema([("message_id", pa.string()), ("body_crc", pa.int32())])
_MARKER: Final = "marker"
_NO_BATCH: Final = -1


class NotRepeatableError(MQError):
    """A batch that was run again brought other rows than before."""


class ReplayQueries(Protocol):
    """What is asked of brokers (``cluster.Cluster``)."""

    def held(self, *, missing_ok: bool = False) -> dict[QueueId, HeldRange]: ...
    def stored(self, queues: Iterable[QueueId]) -> Offsets: ...
    def commit(self, offsets: Mapping[QueueId, int]) -> None: ...


@dataclass(frozen=True, slots=True)
class Marker:
    """Batches up to this one are done, and lie before these offsets."""

    batch: int
    ends: Offsets


class FileMarker:
    """Marker of a query: beside its checkpoint, and as lasting."""

    def __init__(self, log: CheckpointLog) -> None:
        self._log = log

    def read(self) -> Marker | None:
        text = self._log.read(_MARKER)
        facts = json.loads(text) if text is not None else None
        return Marker(facts["batch"], from_tree(facts["ends"])) if facts is not None else None

    def write(self, marker: Marker) -> None:
        self._log.write(_MARKER, json.dumps({"batch": marker.batch, "ends": to_tree(marker.ends)}))


class GroupMarker:
    """Marker of a batch write, which has no checkpoint: offsets of a group, set once, so the write can be repeated."""

    def __init__(self, cluster: ReplayQueries) -> None:
        self._cluster = cluster

    def read(self) -> Marker | None:
        stored = self._cluster.stored(self._cluster.held())
        return Marker(_NO_BATCH, stored) if stored else None

    def write(self, marker: Marker) -> None:
        self._cluster.commit(marker.ends)


@dataclass(frozen=True, slots=True)
class ReplayedStretch:
    """Where rows of a batch may lie already: [start, end) of each queue, as it was before the batch was run."""

    ranges: tuple[OffsetRange, ...] = ()

    @property
    def doubtful(self) -> tuple[OffsetRange, ...]:
        return tuple(each for each in self.ranges if len(each))

    def until(self, held: Mapping[QueueId, HeldRange]) -> tuple[OffsetRange, ...]:
        """With all that came since."""
        begun = {each.queue: each.start for each in self.ranges}
        found = (OffsetRange(q, begun.get(q, there.first), there.end) for q, there in sorted(held.items()))
        return tuple(each for each in found if len(each))

    def since(self, queue: QueueId, held: Mapping[QueueId, HeldRange]) -> tuple[OffsetRange, ...]:
        """What came to one queue since the batch was planned."""
        ends = {each.queue: each.end for each in self.ranges}
        there = held.get(queue)
        return (OffsetRange(queue, ends.get(queue, there.first), there.end),) if there is not None else ()


def marker_options(options: SinkOptions) -> SourceOptions:
    """For the ``Cluster`` that knows the queues of a sink, and its marker."""
    return replace(options.reaching, topics=options.topics, group=MARKER_PREFIX + digest_of(options.identity))


def marker_of(options: SinkOptions, cluster: ReplayQueries) -> FileMarker | GroupMarker:
    return FileMarker(CheckpointLog(options.checkpoint, "sent")) if options.checkpoint else GroupMarker(cluster)


def plan_replay(cluster: ReplayQueries, marker: FileMarker | GroupMarker) -> tuple[int, ReplayedStretch]:
    """The last batch that is done, and where others may lie. The first plan sets the marker, before anything is sent.

    Raises TopicNotFoundError.
    """
    held = cluster.held()
    known = marker.read()
    if known is None:
        known = Marker(_NO_BATCH, {queue: there.end for queue, there in held.items()})
        marker.write(known)
    ranges = (
        OffsetRange(queue, min(max(known.ends.get(queue, there.first), there.first), there.end), there.end)
        for queue, there in sorted(held.items())
    )
    return known.batch, ReplayedStretch(tuple(ranges))


def move_marker(batch: int, cluster: ReplayQueries, marker: FileMarker | GroupMarker) -> None:
    """A batch is committed: all of it lies before the ends of now."""
    known = marker.read()
    if known is None or batch > known.batch:
        marker.write(Marker(batch, {queue: there.end for queue, there in cluster.held().items()}))


class FoundRows:
    """Keys of our rows in a stretch of the topic, with the checksums of their bodies."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._crcs: dict[str, int] = {}

    def add(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            ours = batch.filter(pc.starts_with(batch.column(0), self._prefix))
            if ours.num_rows:
                self._crcs.update(zip(ours.column(0).to_pylist(), ours.column(1).to_pylist(), strict=True))

    def __len__(self) -> int:
        return len(self._crcs)

    def __contains__(self, key: str) -> bool:
        return key in self._crcs

    def has(self, key: str, body: bytes) -> bool:
        """Whether this row is there already. Raises NotRepeatableError when the row of that name was another one."""
        crc = self._crcs.get(key)
        if crc is None:
            return False
        if crc & CRC_MASK != crc32(body) & CRC_MASK:
            raise NotRepeatableError(
                "a batch that is run again has other rows than the first time (because of a shuffle, or of random or "
                "current values before the sink), so it is not known which rows were sent. Add a column unique_key, or "
                "use the mode at-least-once or transactional"
            )
        return True


def read_found(options: SinkOptions, ranges: tuple[OffsetRange, ...], prefix: str) -> FoundRows:
    """Read which rows of the prefix are in these ranges already. Raises SourceUnreachableError."""
    found = FoundRows(prefix)
    reading = replace(options.reaching, fail_on_data_loss=False)
    found.add(read_ranges(connect(options.reaching), reading, ranges, _SCHEMA))
    return found
