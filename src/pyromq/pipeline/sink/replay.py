"""Idempotent writes: how a sink recognises rows of a batch that Spark runs again.

    marker   the last batch that was committed, and where each queue ended then: all of it, and all before it, is done.
             A file beside the checkpoint of a query; of a batch write, offsets of a group named after the sink
    plan     on the driver, before a batch is run: what lies between marker and end may be ours already
    task     reads unique keys and checksums of that stretch, and leaves out the rows it finds

Usually marker and end are the same, or a few messages of other producers apart, and nothing or little is read. Queues
are the truth about what was stored, whichever queue a row went to in its first life; an index of keys is not needed.

In real-time mode a batch has no end before it is over (Spark's log has it afterwards), so one that is run again may end
earlier or later than the first time:

    earlier   rows that the first run sent are read in the next batch. The marker stays, and the next batch goes on with
              the numbers of this one, so that its rows have the keys that they were sent under
    later     a batch that the sink has committed, and Spark has not, brings new rows. Nothing is done because of its
              number: rows are compared with what lies behind the marker before it
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.fs import FileType

from pyromq.checksum import CRC_MASK, crc32
from pyromq.errors import MQError
from pyromq.model.queue import QueueId
from pyromq.pipeline.core.checkpoint_log import CheckpointLog, files_at
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
class Numbering:
    """Rows have the numbers of an earlier batch: those of each partition go on behind so many.

    ``done`` are the rows behind the marker that batches since then have sent, or found there.
    """

    batch: int
    rows: Mapping[int, int]
    done: int = 0


@dataclass(frozen=True, slots=True)
class LiveBatch:
    """A batch whose end nobody knew: the next number of each partition; rows that lay behind the marker, those of them
    that came again, and those that were sent."""

    rows: Mapping[int, int]
    found: int = 0
    skipped: int = 0
    sent: int = 0


@dataclass(frozen=True, slots=True)
class Marker:
    """Batches up to this one are done, and lie before these offsets; ``before`` is the marker before a live batch."""

    batch: int
    ends: Offsets
    goes_on: Numbering | None = None
    before: Marker | None = None


class FileMarker:
    """Marker of a query: beside its checkpoint, and as lasting."""

    def __init__(self, log: CheckpointLog) -> None:
        self._log = log

    def read(self) -> Marker | None:
        text = self._log.read(_MARKER)
        return _from_facts(json.loads(text)) if text is not None else None

    def write(self, marker: Marker) -> None:
        self._log.write(_MARKER, json.dumps(_facts(marker)))


def _facts(marker: Marker) -> dict[str, Any]:
    facts: dict[str, Any] = {"batch": marker.batch, "ends": to_tree(marker.ends)}
    if marker.goes_on is not None:
        goes_on = marker.goes_on
        facts["goes_on"] = {"batch": goes_on.batch, "rows": dict(goes_on.rows), "done": goes_on.done}
    if marker.before is not None:
        facts["before"] = _facts(marker.before)
    return facts


def _from_facts(facts: Mapping[str, Any]) -> Marker:
    goes_on, before = facts.get("goes_on"), facts.get("before")
    return Marker(
        facts["batch"],
        from_tree(facts["ends"]),
        _numbering(goes_on) if goes_on else None,
        _from_facts(before) if before else None,
    )


def _numbering(facts: Mapping[str, Any]) -> Numbering:
    return Numbering(facts["batch"], {int(number): row for number, row in facts["rows"].items()}, facts["done"])


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
    """Where rows of a batch may lie already: [start, end) of each queue, as it was before the batch was run.

    ``again`` is for the last batch that is committed here, if its end was not known: Spark may run it once more.
    """

    ranges: tuple[OffsetRange, ...] = ()
    goes_on: Numbering | None = None
    again: ReplayedStretch | None = None

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
    again = _behind(known.before, held) if known.before is not None else None
    return known.batch, replace(_behind(known, held), again=again)


def _behind(marker: Marker, held: Mapping[QueueId, HeldRange]) -> ReplayedStretch:
    ranges = (
        OffsetRange(queue, min(max(marker.ends.get(queue, there.first), there.first), there.end), there.end)
        for queue, there in sorted(held.items())
    )
    return ReplayedStretch(tuple(ranges), marker.goes_on)


def move_marker(
    batch: int, cluster: ReplayQueries, marker: FileMarker | GroupMarker, live: LiveBatch | None = None
) -> None:
    """A batch is committed: all of it lies before the ends of now, and with it all that earlier runs of it sent; of a
    live one only if no row of those is left."""
    known = marker.read()
    if known is not None and batch <= known.batch:
        if live is None or known.before is None:
            return
        known = known.before  # it was run once more, and ended elsewhere
    ends = {queue: there.end for queue, there in cluster.held().items()}
    if live is None or known is None:
        marker.write(Marker(batch, ends))
        return
    before, goes_on = replace(known, before=None), known.goes_on or Numbering(batch, {})
    if live.found > goes_on.done + live.skipped:  # rows of the first run are left
        goes_on = Numbering(goes_on.batch, live.rows, goes_on.done + live.skipped + live.sent)
        marker.write(Marker(batch, known.ends, goes_on, before))
    else:
        marker.write(Marker(batch, ends, None, before))


def has_end(options: SinkOptions, batch: int) -> bool:
    """Whether Spark has written down where a batch ends: before it runs, but for real-time mode."""
    if not options.checkpoint:
        return True
    files, base = files_at(options.checkpoint)
    found = files.get_file_info(f"{base.rstrip('/')}/offsets/{batch}")
    return bool(found.type != FileType.NotFound)


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
